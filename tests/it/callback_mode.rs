//! The floating-point mode of callbacks: that of the thread that submitted them.
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

use testkit::c;

macro_rules! cases {
    ($($name:ident $case:literal)*) => {
        $(#[test]
        fn $name() {
            c::run_plain(&c::program("callback_mode"), &[$case]);
        })*
    };
}

cases! {
    labelled_and_unlabelled_tasks_run_in_the_submitters_mode_on_every_slot "single"
    lists_of_tasks_followers_and_retries_run_in_the_submitters_mode "many"
    every_piece_of_a_range_runs_in_the_submitters_mode "range"
    task_on_top_of_its_waiter_runs_in_its_own_mode "nesting"
    drop_callback_runs_in_the_mode_of_its_task "drops"
    progress_and_log_callbacks_run_in_the_mode_of_their_registration "watchers"
    traps_of_the_submitter_are_armed_in_its_callbacks_only "traps"
    refusals_and_the_default_scheduler_ignore_traps_of_the_host "rare_calls"
    arithmetic_of_the_library_ignores_modes_and_traps_of_the_host "arithmetic"
}

#[test]
fn callbacks_of_a_fast_math_host_flush_denormal_numbers() {
    c::run_plain(&c::program_with("callback_mode", &["-ffast-math"]), &["fast_math"]);
}
