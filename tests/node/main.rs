//! Leases between processes: a member of a node is another process of this program, which reads
//! commands line by line.

mod deaths;
mod folders;
mod forks;
mod hammer;
mod member;
mod one_process;

fn main() -> std::process::ExitCode {
    use testkit::{case, virtual_gpus};

    let arguments: Vec<String> = std::env::args().collect();
    let role = arguments.get(1).map(String::as_str);
    if role.is_some_and(|word| ["--member", "--join", "--full-disk", "--hammer"].contains(&word)) {
        // SAFETY: sets an alarm that ends this process if it hangs.
        unsafe { libc::alarm(300) };
    }
    match role {
        Some("--member") => return member::play(&arguments[2..]),
        Some("--join") => return folders::play(),
        Some("--full-disk") => return folders::fill_disk(arguments[2].as_ref()),
        Some("--hammer") => return hammer::play(&arguments[2..]),
        _ => {}
    }
    virtual_gpus::main(&[
        case!(deaths::killed_holder_wakes_the_waiter_and_leaves_slot_and_bytes),
        case!(deaths::waiter_is_woken_by_inotify_without_a_timer),
        case!(deaths::killed_waiter_is_not_waited_for),
        case!(deaths::first_come_first_served_and_priority_first),
        case!(deaths::holder_that_joined_during_the_wait_is_noticed_when_it_dies),
        case!(deaths::stopped_waiter_is_passed_and_gets_its_place_back),
        case!(deaths::member_without_inotify_says_so_and_still_sees_changes),
        case!(deaths::member_that_is_stopped_with_the_table_locked_is_named),
        case!(deaths::stopped_holder_of_the_table_is_waited_for_once),
        case!(deaths::child_that_lives_on_keeps_nothing_of_its_parent),
        case!(deaths::bytes_in_use_are_not_pending),
        case!(folders::folder_is_created_for_the_user_alone),
        case!(folders::unsuitable_folder_is_refused_with_its_reason),
        case!(folders::unsuitable_file_is_refused_with_its_reason),
        case!(folders::folder_is_the_callers_the_variables_the_sessions_or_a_temporary_one),
        case!(folders::default_folder_that_members_use_is_not_left_for_the_next),
        case!(folders::folder_that_may_not_be_written_to_is_an_error),
        case!(folders::full_disk_is_an_error_and_a_file_with_room_works_on),
        case!(folders::leases_go_on_when_the_folder_may_not_be_entered_any_more),
        case!(folders::invalid_table_is_replaced_if_unused_and_else_an_error),
        case!(folders::table_that_is_deleted_or_cut_in_use_is_replaced),
        case!(folders::table_that_loses_its_name_in_use_is_replaced),
        case!(forks::no_call_in_the_child_waits_for_a_lock_that_the_parent_held),
        case!(forks::the_process_wide_scheduler_is_the_childs_if_the_parent_had_none),
        case!(forks::a_child_may_have_one_though_its_parent_failed_to_make_one),
        case!(forks::a_child_may_have_one_while_a_thread_of_its_parent_makes_one),
        case!(hammer::eight_processes_never_exceed_slots_while_others_are_killed),
        case!(one_process::lease_is_returned_beside_a_thread_that_does_not_wait_for_the_table),
        case!(one_process::used_bytes_are_set_beside_a_thread_that_has_the_table),
        case!(one_process::living_waiter_is_waited_for_again_after_it_was_passed),
        case!(one_process::waiter_that_was_blocked_meanwhile_is_not_skipped),
        case!(one_process::waiter_of_a_new_table_is_not_taken_for_one_of_the_old),
        case!(one_process::ticket_that_the_header_does_not_know_is_drawn_again),
        case!(one_process::member_that_has_left_is_no_member_and_has_no_file_open),
        case!(one_process::member_leaves_when_its_last_lease_is_dropped),
        case!(one_process::ticket_ends_with_a_lease_that_others_want),
        case!(one_process::lease_outlives_its_membership),
        case!(one_process::devices_that_are_not_shared_are_not_leased),
        case!(one_process::the_257th_member_is_refused),
        case!(one_process::wait_ends_with_a_change_a_wake_or_its_time),
        case!(one_process::own_writes_do_not_wake_the_member),
        case!(one_process::seconds_per_cost_are_shared_and_stay),
        case!(one_process::calls_in_a_forked_child_fail_and_it_can_join),
    ])
}
