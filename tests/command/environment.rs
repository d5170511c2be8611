//! What is around the command: pipes that break, disks that are full, a second run.

use std::fs::{self, File, OpenOptions};
use std::process::{Command, Stdio};

use testkit::command::{Ended, SURVEY, Workspace, executable};
use testkit::process::isolated;

fn run_into(folder: &Workspace, out: Stdio) -> Ended {
    let mut command = folder.command(&["run", "survey.toml"]);
    Ended::from(command.stdout(out).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap())
}

fn all_shots_are_there(folder: &Workspace) {
    for number in 1..=4 {
        assert!(folder.at(format!("out/shot_{number:04}.json")).exists(), "shot {number}");
    }
}

#[test]
fn a_survey_goes_on_when_nobody_reads_what_it_says() {
    let folder = Workspace::with_survey(SURVEY);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ended = run_into(&folder, writer.into());
    assert_eq!((ended.status, ended.err.as_str()), (0, ""));
    all_shots_are_there(&folder);
}

#[test]
#[cfg(target_os = "linux")]
fn a_survey_goes_on_when_what_it_says_can_not_be_written() {
    let folder = Workspace::with_survey(SURVEY);
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ended = run_into(&folder, full.into());
    assert_eq!(ended.status, 1, "{ended:?}");
    assert!(ended.err.starts_with("gpusched: standard output could not be written: "), "{ended:?}");
    all_shots_are_there(&folder);
}

#[test]
fn log_does_not_wait_for_the_reader_of_a_pipe() {
    let folder = Workspace::new();
    let pipe = folder.at("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let log = format!("debug:{}", pipe.display());
    let ended = Ended::from(folder.command(&["devices"]).env("GPUSCHED_LOG", log).output().unwrap());
    assert_eq!(ended.status, 0, "{ended:?}");
    assert!(ended.err.contains("cannot open the log file"), "{ended:?}");
}

#[test]
fn small_stack_of_the_shell_is_enough() {
    let folder = Workspace::with_survey(SURVEY);
    let mut shell = isolated("sh");
    shell.args(["-c", r#"ulimit -s 64; exec "$0" "$@""#]).arg(executable()).args(["run", "survey.toml"]);
    let ended = Ended::from(shell.current_dir(folder.path()).output().unwrap());
    assert_eq!(ended.status, 0, "{ended:?}");
    all_shots_are_there(&folder);
}

#[test]
fn two_runs_do_not_write_into_one_folder() {
    let folder = Workspace::with_survey(SURVEY);
    fs::create_dir(folder.at("out")).unwrap();
    let other = File::open(folder.at("out")).unwrap();
    other.try_lock().unwrap();
    for args in [&["run", "survey.toml"][..], &["run", "survey.toml", "--dry-run"]] {
        let refused = folder.gpusched(args);
        assert_eq!(refused.status, 2, "{refused:?}");
        assert!(refused.err.contains("out: another run writes to it"), "{refused:?}");
    }
    assert_eq!(fs::read_dir(folder.at("out")).unwrap().count(), 0);
    drop(other);
    assert_eq!(folder.gpusched(&["run", "survey.toml"]).status, 0);
}

#[test]
#[cfg(unix)]
fn a_survey_file_without_end_is_refused() {
    let folder = Workspace::new();
    let refused = folder.gpusched(&["run", "/dev/zero"]);
    assert_eq!(refused.status, 2, "{refused:?}");
    assert!(refused.err.contains("larger than any survey file"), "{refused:?}");
}

#[test]
fn misspelt_variable_is_logged() {
    let folder = Workspace::new();
    let mut command = folder.command(&["devices"]);
    let ended =
        Ended::from(command.env("GPUSCHED_DEVICE", "cpu").env("GPUSCHED_ROOT", "x").output().unwrap());
    assert!(ended.err.contains("GPUSCHED_DEVICE has no effect; did you mean GPUSCHED_DEVICES?"), "{ended:?}");
    assert!(ended.status == 0 && !ended.err.contains("ROOT"), "{ended:?}");
}

#[test]
#[cfg(unix)]
fn settings_that_are_no_text_are_refused_and_not_ignored() {
    use std::os::unix::ffi::OsStrExt;

    let folder = Workspace::with_survey(SURVEY);
    for name in ["GPUSCHED_DEVICES", "GPUSCHED_SLOTS", "GPUSCHED_CPU_FALLBACK"] {
        let mut command = folder.command(&["run", "--dry-run", "survey.toml"]);
        let value = std::ffi::OsStr::from_bytes(b"\xff1");
        let refused = Ended::from(command.env(name, value).output().unwrap());
        assert_eq!(refused.status, 2, "{name}: {refused:?}");
    }
}
