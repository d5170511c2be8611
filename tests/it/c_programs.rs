//! Programs in C and C++ that use the library as the header allows, and in ways that it forbids.
//!
//! `FUZZ_SEED=1000 FUZZ_RUNS=500 cargo test --release --test it random_calls` makes other random
//! calls.

use std::process::Command;

use testkit::process::{isolate, isolated, output};
use testkit::{Folder, c, skip, virtual_gpus};

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect(name))
}

#[test]
fn random_calls_from_several_threads_do_no_harm() {
    let folder = Folder::new();
    let first = number("FUZZ_SEED", 1);
    for seed in first..first + number("FUZZ_RUNS", 12) {
        let args = [&seed.to_string(), "3000", "4", folder.path().to_str().expect("UTF-8")];
        print!("{}", c::run_plain(&c::program("fuzz_calls"), &args));
    }
}

#[test]
fn random_calls_under_valgrind() {
    let folder = Folder::new();
    let seed = number("FUZZ_SEED", 1).to_string();
    let args = [&seed, "400", "3", folder.path().to_str().expect("UTF-8")];
    print!("{}", c::run_with(&c::program("fuzz_calls"), &args));
}

#[test]
fn ten_thousand_schedulers_leave_nothing_behind() {
    let count = number("FUZZ_RUNS", 10_000).max(10_000).to_string();
    print!("{}", c::run_plain(&c::program("lifetimes"), &["schedulers", &count]));
}

/// Loads the library as a plugin and closes it, also while tasks run. The library remains loaded,
/// and the next load finds it.
#[test]
fn a_thousand_loads_leave_nothing_behind() {
    print!("{}", c::run_plain(&c::program("lifetimes"), &["loads", "900"]));
}

#[test]
fn callbacks_may_call_the_library() {
    c::run(&c::program("reentry"));
}

/// A failed callback's number and message are the error of its task.
#[test]
fn exec_is_stale_after_its_callback_and_failures_keep_number_and_message() {
    for case in [
        "used_by_another_thread",
        "used_while_it_returns",
        "returns_a_number_of_its_own",
        "says_why_it_fails",
        "says_why_and_returns_a_status",
    ] {
        c::run_plain(&c::program("exec"), &[case]);
    }
}

#[test]
fn list_without_memory_for_its_copy_is_dropped() {
    c::run_plain(&c::program("little_memory"), &["submits_a_list"]);
}

#[test]
fn wait_and_wavelet_without_memory_return_an_error() {
    c::run_plain(&c::program("little_memory"), &["waits_for_a_list_and_makes_a_wavelet"]);
}

#[test]
fn list_is_submitted_or_refused_whatever_memory_is_left() {
    c::run_plain(&c::program("little_memory"), &["submits_lists_with_less_and_less"]);
}

#[test]
fn task_after_many_is_submitted_or_refused_whatever_memory_is_left() {
    c::run_plain(&c::program("little_memory"), &["submits_a_task_after_many"]);
}

/// `acoustic2`, `vti` and `tti`, with each of their absorbing layers.
#[test]
fn shots_of_every_equation_have_the_same_bits_on_any_number_of_threads() {
    print!("{}", c::run_plain(&c::program("equations"), &[]));
}

/// Without valgrind: the code of C++17 except captures that are moved, and a range that pauses for
/// 21 s.
#[test]
fn the_wrapper_works_in_cpp11() {
    if !c::has(&c::cpp_compiler()) {
        return skip("there is no C++ compiler");
    }
    c::run_plain(&c::cpp_program("wrapper", "c++11"), &[]);
}

#[test]
fn the_wrapper_works_in_cpp17() {
    if !c::has(&c::cpp_compiler()) {
        return skip("there is no C++ compiler");
    }
    c::run(&c::cpp_program("wrapper", "c++17"));
}

/// Programs, the exit status of their cases, and the cases: rows of `docs/embedding.md`.
const MANNERS: [(&str, i32, &str); 3] = [
    (
        "manners",
        0,
        "fork_and_submit fork_and_exit fork_in_task waits_across_schedulers two_libraries \
         signals_on_host_threads pthread_cancel_in_a_call thread_with_little_stack chdir_after_create",
    ),
    (
        "unwinding",
        0,
        "pthread_exit_in_task pthread_cancel_in_task cxx_exception_without_wrapper cxx_exception_in_drop",
    ),
    ("leaving", 42, "while_running after_giving_up destroy_in_handler destroy_in_drop"),
];

fn wrong(program: &str, args: &[&str], status: i32) -> Option<String> {
    let folder = Folder::new();
    let is_cpp = program == "unwinding";
    let path = if is_cpp { c::cpp_program(program, "c++11") } else { c::program(program) };
    let mut command = isolated(path);
    command.args(args).current_dir(folder.path()).env("LD_LIBRARY_PATH", testkit::built());
    let ended = output(&mut command).expect(program);
    let errors = String::from_utf8_lossy(&ended.stderr);
    (ended.status.code() != Some(status)).then(|| format!("{program} {args:?}: {}: {errors}", ended.status))
}

#[test]
fn every_case_has_its_documented_answer() {
    let docs = std::fs::read_to_string(testkit::root().join("docs/embedding.md")).expect("docs/embedding.md");
    for (program, status, cases) in MANNERS {
        for case in cases.split_whitespace() {
            assert_eq!(wrong(program, &[case], status), None);
            assert!(docs.contains(&format!("| `{case}` | ")), "docs/embedding.md lacks {case}");
        }
    }
}

/// With a second argument the case ends its thread only. `after_main` ends the first thread itself.
#[test]
#[cfg(target_arch = "x86_64")]
fn callbacks_end_the_process_or_their_thread() {
    for case in ["in_tasks", "on_top", "in_a_piece", "in_a_drop", "in_progress", "in_a_log"] {
        assert_eq!(wrong("leaving", &[case], 42), None);
        assert_eq!(wrong("leaving", &[case, "thread"], 0), None);
    }
    assert_eq!(wrong("leaving", &["after_main"], 42), None);
}

/// Handlers of `exit`, destructors, and destructors of thread-specific data.
#[test]
fn scheduler_works_in_exit_handlers_and_destructors() {
    let cases = "used_in_atexit used_in_a_destructor used_in_a_key destroyed_in_a_key_of_a_worker \
        destroyed_in_a_key_of_progress destroyed_while_a_worker_has_a_key";
    for case in cases.split_whitespace() {
        assert_eq!(wrong("use_at_exit", &[case], 0), None);
        assert_eq!(wrong("use_at_exit", &[case, "first"], 0), None);
    }
}

/// Many schedulers at a time, with many files and threads and with few.
mod many_schedulers {
    use super::*;

    /// Returns the command that runs the program; `limit` is a command of the shell before it.
    fn program(limit: &str, args: &[&str]) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{limit} exec \"$@\""), "sh"]);
        shell.arg(c::program("many_schedulers")).args(args);
        shell
    }

    fn on_the_cpu(mut command: Command) -> String {
        isolate(&mut command).env("LD_LIBRARY_PATH", testkit::built());
        c::succeeds(&mut command, "many_schedulers")
    }

    fn on_gpus(mut command: Command) -> String {
        let (gpus, folder) = ("dev=name:A,mem:2G,speed:2;dev=name:B,mem:2G", Folder::new());
        virtual_gpus::attach(&mut command, gpus, &folder.at("leases"));
        c::succeeds(command.env("GPUSCHED_DEVICES", "cuda"), "many_schedulers")
    }

    #[test]
    fn three_hundred_at_a_time() {
        on_the_cpu(program("", &["300", "3", "all"]));
        on_the_cpu(program("ulimit -n 256;", &["300", "3", "all"]));
    }

    /// Schedulers that find no free lease or no descriptor are refused with the reason.
    #[test]
    fn three_hundred_with_gpus() {
        let said = on_gpus(program("", &["300", "0"]));
        assert!(said.contains("create 256: SCHED_E_IO: ") && said.contains("GPUSCHED_LEASE_DIR"), "{said}");
        assert!(said.contains("of 300 schedulers 256 and 256 were made"), "{said}");
        let said = on_gpus(program("ulimit -n 60;", &["100", "0"]));
        assert!(said.contains("SCHED_E_IO: ") && said.contains("(ulimit -n)"), "{said}");
    }

    /// Schedulers without leases would compute on the GPUs of others.
    #[test]
    fn no_descriptor_for_leases_in_a_default_folder() {
        let folder = Folder::new();
        let defaults = format!(
            "unset GPUSCHED_LEASE_DIR XDG_RUNTIME_DIR; export TMPDIR={}; ulimit -n 60;",
            folder.path().display()
        );
        let said = on_gpus(program(&defaults, &["100", "0"]));
        assert!(said.contains("SCHED_E_IO: ") && said.contains("(ulimit -n)"), "{said}");
        assert!(!said.contains("of 100 schedulers 100 "), "{said}");
    }

    /// The system refuses all threads from a certain one on, or just one: a device with fewer
    /// threads works.
    #[test]
    fn few_threads() {
        let folder = Folder::new();
        let preload = c::preload("no_thread", folder.path()).display().to_string();
        let printed = |at: u32, count: u32, schedulers: &str| {
            let faults = format!("export LD_PRELOAD={preload} FAULT_AT={at} FAULT_COUNT={count};");
            let said = on_the_cpu(program(&faults, &[schedulers, "3"]));
            assert!(!said.contains("SCHED_E_NO_DEVICE"), "{at}: {said}");
            said
        };
        for at in [1, 2, 100, 400] {
            let said = printed(at, 1_000_000, "300");
            assert!(said.contains("SCHED_E_RESOURCES: ") && said.contains("(ulimit -u)"), "{said}");
        }
        for at in 1..30 {
            printed(at, 1, "6");
        }
        // Tasks wait for tasks that need another thread.
        for at in 2..5 {
            let mut program = Command::new(c::program("reentry"));
            let faults = [("FAULT_AT", at.to_string()), ("FAULT_COUNT", "1".into())];
            program.envs(faults).env("LD_PRELOAD", &preload);
            on_the_cpu(program);
        }
    }

    /// The worker of the CPU sleeps or waits meanwhile.
    #[test]
    fn thread_of_a_gpu_or_of_the_timer_is_refused() {
        let folder = Folder::new();
        let preload = c::preload("no_thread", folder.path());
        for (case, at, count) in [
            ("gpu_runs", "2", "1"),
            ("gpu_runs_for_another_task", "2", "1"),
            ("gpu_fails", "2", "1000000"),
            ("gpu_fails_for_another_task", "2", "1000000"),
            ("gpu_helps", "2", "3"),
            ("timer", "3", "1000000"),
        ] {
            let mut program = Command::new(c::program("refused_thread"));
            virtual_gpus::attach(program.arg(case), "dev=name:A,mem:2G", &folder.at("leases"));
            program.env("LD_PRELOAD", &preload).env("FAULT_AT", at).env("FAULT_COUNT", count);
            c::succeeds(&mut program, case);
        }
    }
}
