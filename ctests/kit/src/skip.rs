//! Tests that this machine can't run.

use std::io::Write;
use std::os::fd::FromRawFd;

/// The beginning of a line of [`skip`].
pub const SKIPPED: &str = "SKIPPED: ";

/// Reports that the calling test, or a part of it, does not run on this machine; the test then
/// returns.
///
/// Appends the line `SKIPPED: test: reason` to the file that `GPUSCHED_TEST_SKIPS` names, in one
/// write, so that lines of several processes do not mix; without the variable to standard error,
/// past the test harness.
///
/// # Panics
/// If `GPUSCHED_TEST_STRICT` is set: a machine that has all that the tests need skips nothing.
#[track_caller]
pub fn skip(reason: &str) {
    let name = std::env::var("CASE").ok().or_else(|| std::thread::current().name().map(str::to_owned));
    let place = std::panic::Location::caller();
    let name = name.filter(|name| name != "main").unwrap_or_else(|| place.to_string());
    let line = format!("{SKIPPED}{name}: {reason}\n");
    match std::env::var_os("GPUSCHED_TEST_SKIPS") {
        Some(path) => {
            let mut file =
                std::fs::File::options().append(true).create(true).open(&path).expect("GPUSCHED_TEST_SKIPS");
            file.write_all(line.as_bytes()).expect("GPUSCHED_TEST_SKIPS");
        }
        None => {
            // SAFETY: the descriptor stays open, because the file is never dropped.
            let mut stderr = std::mem::ManuallyDrop::new(unsafe { std::fs::File::from_raw_fd(2) });
            let _ = stderr.write_all(line.as_bytes());
        }
    }
    let strict =
        std::env::var_os("GPUSCHED_TEST_STRICT").is_some_and(|value| !value.is_empty() && value != "0");
    assert!(!strict, "GPUSCHED_TEST_STRICT is set, and this test is skipped: {reason}");
}
