//! The environment of the command: pipes that break, disks that are full, a second run.

use std::fs::{self, File, OpenOptions};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use testkit::command::{Ended, SURVEY, Workspace, brief, executable, one_shot};
use testkit::process::{isolated, output};

fn all_shots_are_there(folder: &Workspace) {
    for number in 1..=4 {
        assert!(folder.at(format!("out/shot_{number:04}.json")).exists(), "shot {number}");
    }
}

/// Standard output is a pipe without a reader, or a full disk.
#[test]
#[cfg(target_os = "linux")]
fn survey_continues_if_its_output_cannot_be_written() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let said = "gpusched: standard output could not be written: ";
    for (out, status, error) in [(Stdio::from(writer), 0, ""), (full.into(), 1, said)] {
        let folder = Workspace::with_survey(&SURVEY.replace("pictures = 1", "pictures = 0"));
        let ended = Ended::from(folder.command(&["run", "survey.toml"]).stdout(out).output().unwrap());
        assert_eq!((ended.status, ended.err.is_empty()), (status, error.is_empty()), "{ended:?}");
        assert!(ended.err.starts_with(error), "{ended:?}");
        all_shots_are_there(&folder);
    }
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

/// No other process can change the limit, so waiting for others would be in vain.
#[test]
#[cfg(target_os = "linux")]
fn shot_beyond_the_address_space_of_the_process_fails_at_once() {
    // A shot takes more than the whole limit, and the model a small part of it.
    let large = one_shot(&SURVEY.replace("[24, 8, 16]", "[220, 220, 220]"));
    let folder = Workspace::with_survey(&large);
    let run = |option| {
        let mut shell = isolated("sh");
        shell.args(["-c", r#"ulimit -v 300000; exec "$0" "$@""#]).arg(executable());
        // Each thread of malloc reserves address space.
        shell.args(["run", "survey.toml", option]).env("MALLOC_ARENA_MAX", "1");
        Ended::from(output(shell.current_dir(folder.path())).unwrap())
    };
    let ended = run("--dry-run");
    assert!(ended.status == 2 && ended.err.contains("(ulimit -v) leaves"), "{ended:?}");
    let begin = Instant::now();
    let ended = run("--no-rates-cache");
    assert_eq!(ended.status, 1, "{ended:?}");
    let said = [&*ended.out, &ended.err].concat();
    assert!(said.contains("a shot needs ") && said.contains("(ulimit -v) leaves"), "{said}");
    assert!(!said.contains("other processes") && !said.contains("the host has"), "{said}");
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}: {said}", begin.elapsed());
}

/// Checks that the time grows with the number of shots and not with its square: CPU seconds, not
/// minutes.
#[test]
fn stopping_a_survey_of_many_shots_takes_little_time() {
    let many = SURVEY
        .replace("[24, 8, 16]", "[200, 200, 8]")
        .replace("[60.0, 40.0, 10.0]", "[0.0, 0.0, 0.0]")
        .replace("[40.0, 10.0]", "[10.0, 10.0]")
        .replace("[4, 1]", "[200, 200]")
        .replace("[snapshots]\nevery = 30\n", "");
    let folder = Workspace::with_survey(&many);
    let mut shell = isolated("sh");
    shell.args(["-c", r#"ulimit -t 20; exec "$0" "$@""#]).arg(executable());
    shell.args(["run", "survey.toml", "--json", "--no-rates-cache", "--stop-after", "1ms"]);
    let ended = Ended::from(output(shell.current_dir(folder.path())).unwrap());
    assert_eq!(ended.status, 1, "{}", ended.err);
    assert!(ended.events().last().unwrap()["open"].as_u64() > Some(30_000), "{}", ended.err);
}

#[test]
fn two_runs_do_not_write_into_one_folder() {
    let folder = Workspace::with_survey(&brief());
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

/// The command does not wait for a pipe without a reader.
#[test]
fn settings_without_effect_are_logged_and_valid_ones_are_not() {
    let folder = Workspace::new();
    assert!(Command::new("mkfifo").arg(folder.at("pipe")).status().unwrap().success());
    for (name, value, words) in [
        ("GPUSCHED_LOG", "debug:pipe", "cannot open the log file"),
        ("GPUSCHED_LOG", "loud", "GPUSCHED_LOG is loud"),
        ("GPUSCHED_LOG", "", ""),
        ("GPUSCHED_DEVICE", "cpu", "GPUSCHED_DEVICE has no effect; did you mean GPUSCHED_DEVICES?"),
        ("GPUSCHED_ROOT", "x", ""),
    ] {
        let ended = Ended::from(output(folder.command(&["devices"]).env(name, value)).unwrap());
        assert_eq!((ended.status, ended.err.is_empty()), (0, words.is_empty()), "{name}: {ended:?}");
        assert!(ended.err.contains(words), "{words}: {ended:?}");
    }
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
        assert!(refused.status == 2 && refused.err.contains(name), "{name}: {refused:?}");
    }
}
