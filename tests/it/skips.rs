//! `testkit::skip`: a skipped test is counted, and fails where skips are forbidden.

use std::process::Command;

use testkit::{Folder, skip};

/// Runs itself in child processes with other variables, in which it skips.
#[test]
fn skip_appends_a_line_and_fails_where_skips_are_forbidden() {
    const INSIDE: &str = "GPUSCHED_TEST_SKIP_INSIDE";
    if std::env::var_os(INSIDE).is_some() {
        return skip("no reason");
    }
    let name = "skips::skip_appends_a_line_and_fails_where_skips_are_forbidden";
    let folder = Folder::new();
    let file = folder.at("skips");
    let run = |strict: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", name, "--test-threads=2"]).env(INSIDE, "1");
        let variables =
            [("GPUSCHED_TEST_SKIPS", file.as_os_str()), ("GPUSCHED_TEST_STRICT", strict.as_ref())];
        command.envs(variables).output().unwrap().status.success()
    };
    assert!(run("0"));
    assert!(!run("1"));
    let line = format!("SKIPPED: {name}: no reason\n");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), line.repeat(2));
}
