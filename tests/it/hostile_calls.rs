//! Random calls of the C API from several threads; what is left of many schedulers, and of many loads of the library; and programs
//! in C that have hundreds of schedulers at a time, destroy what others wait for, leave from inside, use what they have at
//! their very end, or find that results are wrong.
//!
//! `FUZZ_SEED=1000 FUZZ_RUNS=500 cargo test --release --test it random_calls` plays other calls than these.

use testkit::process::isolate;
use testkit::{c, virtual_gpus};

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Compiled once, and its folder, where it may write.
fn fuzz_calls() -> (&'static Path, &'static str) {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| c::program("fuzz_calls"));
    (program, program.parent().and_then(Path::to_str).expect("a folder in UTF-8"))
}

fn lifetimes() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| c::program("lifetimes"))
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn random_calls_from_several_threads_do_no_harm() {
    let (program, folder) = fuzz_calls();
    let first = number("FUZZ_SEED", 1);
    for seed in first..first + number("FUZZ_RUNS", 12) {
        print!("{}", c::run_plain(program, &[&seed.to_string(), "3000", "4", folder]));
    }
}

/// Every access to memory, and what is left behind, is looked at.
#[test]
fn random_calls_under_valgrind() {
    let (program, folder) = fuzz_calls();
    print!("{}", c::run_with(program, &[&number("FUZZ_SEED", 1).to_string(), "400", "3", folder]));
}

#[test]
#[cfg(target_os = "linux")]
fn ten_thousand_schedulers_leave_nothing_behind() {
    let count = number("FUZZ_RUNS", 10_000).max(10_000).to_string();
    print!("{}", c::run_plain(lifetimes(), &["schedulers", &count]));
}

/// A program loads the library as a plugin and closes it: the library stays, with its threads, and the next load finds it.
#[test]
#[cfg(target_os = "linux")]
fn a_thousand_loads_leave_nothing_behind() {
    print!("{}", c::run_plain(lifetimes(), &["loads", "900"]));
}

/// Everybody waits for it in some way when it is destroyed, from several sides and from inside, too.
#[test]
fn a_scheduler_is_destroyed_while_others_wait() {
    c::run_plain(destroys(), &["60"]);
}

#[test]
fn a_scheduler_is_destroyed_while_others_wait_under_valgrind() {
    c::run_with(destroys(), &["2"]);
}

fn destroys() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| c::program("destroy_while_waiting"))
}

/// `exit` and `pthread_exit`, wherever the library calls the program's code. Of these all that may be told is that the process ends.
#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn code_of_the_program_ends_the_process_or_its_thread() {
    let program = c::program("exit_in_callbacks");
    for case in ["in_tasks", "on_top", "in_a_piece", "in_a_drop", "in_progress", "in_a_log", "of_main"] {
        c::run_plain(&program, &[case]);
        c::run_plain(&program, &[&format!("thread_{case}")]);
    }
}

/// Handlers of `exit`, destructors, and what runs when a thread ends: of the program's threads and of the library's.
#[test]
#[cfg(target_os = "linux")]
fn a_scheduler_is_used_at_the_very_end() {
    let program = c::program("use_at_exit");
    for case in [
        "made_in_atexit",
        "used_in_atexit",
        "used_in_a_destructor",
        "made_in_a_key",
        "used_in_a_key",
        "used_in_a_key_of_a_worker",
        "destroyed_in_a_key_of_a_worker",
        "destroyed_in_a_key_of_progress",
        "destroyed_while_a_worker_has_a_key",
    ] {
        c::run_plain(&program, &[case]);
        c::run_plain(&program, &[case, "first"]);
    }
}

/// Where code says that a result is wrong: on one device, and on two cards.
#[test]
#[cfg(target_os = "linux")]
fn results_that_are_wrong() {
    let program = c::program("wrong_results");
    assert_eq!(c::run_plain(&program, &[]), "1 devices\n");
    assert_eq!(said(on_two_cards(&mut Command::new(program))), "2 devices\n");
}

/// All at once, with many files and threads and with few.
#[cfg(target_os = "linux")]
mod crowds {
    use super::*;

    fn crowd() -> &'static Path {
        static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
        PROGRAM.get_or_init(|| c::program("many_schedulers"))
    }

    /// With a limit on open files.
    fn with_files(limit: u32, arguments: &[&str]) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -n {limit}; exec \"$@\""), "sh"]).arg(crowd()).args(arguments);
        shell
    }

    #[test]
    fn three_hundred_schedulers_at_a_time() {
        c::run_plain(crowd(), &["300", "3", "all"]);
        said(on_the_cpu(&mut with_files(256, &["300", "3", "all"])));
    }

    /// Those that are too many for the leases, or for the files, are told so.
    #[test]
    fn three_hundred_schedulers_with_cards() {
        let told = said(on_two_cards(Command::new(crowd()).args(["300", "0"])));
        assert!(told.contains("create 256: SCHED_E_IO: ") && told.contains("GPUSCHED_LEASE_DIR"), "{told}");
        assert!(told.contains("of 300 schedulers 256 and 256 were made"), "{told}");
        let told = said(on_two_cards(&mut with_files(60, &["100", "0"])));
        assert!(told.contains("SCHED_E_IO: ") && told.contains("(ulimit -n)"), "{told}");
    }

    /// The system gives no thread from one on, or just one of them not: a device with fewer threads than it might have works.
    #[test]
    fn schedulers_that_get_few_threads() {
        let preload = c::preload("no_thread", crowd().parent().expect("a folder"));
        let told = |at: u32, count: u32, schedulers: &str| {
            let mut command = Command::new(crowd());
            command.args([schedulers, "3"]).env("LD_PRELOAD", &preload);
            command.envs([("FAULT_AT", at.to_string()), ("FAULT_COUNT", count.to_string())]);
            said(on_the_cpu(&mut command))
        };
        for at in [1, 2, 100, 400] {
            let told = told(at, 1_000_000, "300");
            assert!(told.contains("SCHED_E_RESOURCES: ") && told.contains("(ulimit -u)"), "{told}");
            assert!(!told.contains("SCHED_E_NO_DEVICE"), "{told}");
        }
        for at in 1..30 {
            let told = told(at, 1, "6");
            assert!(!told.contains("SCHED_E_NO_DEVICE"), "{at}: {told}");
        }
    }
}

fn on_the_cpu(command: &mut Command) -> &mut Command {
    isolate(command).env("LD_LIBRARY_PATH", testkit::built())
}

/// Virtual ones, with leases that nobody shares.
fn on_two_cards(command: &mut Command) -> &mut Command {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let leases = c::scratch("leases").join(COUNT.fetch_add(1, Ordering::Relaxed).to_string());
    virtual_gpus::attach(command, "dev=name:A,mem:2G,speed:2;dev=name:B,mem:2G", &leases);
    command.env("GPUSCHED_DEVICES", "cuda")
}

fn said(command: &mut Command) -> String {
    c::succeeds(command, &format!("{:?}", command.get_program()))
}
