//! Random calls of the C API from several threads; and what is left of many schedulers, and of many loads of the library.
//!
//! `FUZZ_SEED=1000 FUZZ_RUNS=500 cargo test --release --test hostile_calls random_calls` plays other calls than these.

#[path = "support/c.rs"]
mod c;

use std::path::Path;
use std::sync::OnceLock;

/// Compiled once, and its folder, where it may write.
fn fuzz_calls() -> (&'static Path, &'static str) {
    static PROGRAM: OnceLock<std::path::PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| c::program("fuzz_calls"));
    (program, program.parent().and_then(Path::to_str).expect("a folder in UTF-8"))
}

fn lifetimes() -> &'static Path {
    static PROGRAM: OnceLock<std::path::PathBuf> = OnceLock::new();
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

/// As programs do that load it as a plugin: it stays, with its threads, and is found again.
#[test]
#[cfg(target_os = "linux")]
fn a_hundred_loads_leave_nothing_behind() {
    print!("{}", c::run_plain(lifetimes(), &["loads", "100"]));
}
