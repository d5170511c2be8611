//! The environment of the command: pipes that break, disks that are full, a second run.

use std::fs::{self, File, OpenOptions};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use testkit::command::{Ended, SURVEY, Workspace, brief, executable, one_shot};
use testkit::process::{isolated, output};

fn all_shots_are_there(folder: &Workspace) {
    for number in 1..=4 {
        assert!(folder.at(format!("out/shot_{number:04}.json")).exists(), "shot {number}");
    }
}

/// Standard output is a pipe without a reader, or a full disk.
#[test]
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

/// Runs the survey with a limit of the address space, in MiB. The options have blanks between them.
fn run_limited(folder: &Workspace, most: u64, options: &str) -> Ended {
    let mut shell = isolated("sh");
    shell.args(["-c", r#"ulimit -v "$1"; shift; exec "$@""#, "sh", &(most << 10).to_string()]);
    shell.arg(executable()).args(["run", "survey.toml"]).args(options.split(' ')).current_dir(folder.path());
    Ended::from(output(&mut shell).unwrap())
}

/// No other process can change the limit, so waiting for others would be in vain.
#[test]
fn shot_beyond_the_address_space_of_the_process_is_refused_before_the_run() {
    // A shot takes more than the whole limit, and the model a small part of it.
    let large = one_shot(&SURVEY.replace("[24, 8, 16]", "[220, 220, 220]"));
    let folder = Workspace::with_survey(&large);
    for option in ["--dry-run", "--no-rates-cache"] {
        let ended = run_limited(&folder, 293, option);
        assert!(ended.status == 2 && ended.err.contains("(ulimit -v) leaves"), "{ended:?}");
        assert!(!ended.err.contains("other processes") && !folder.at("out").exists(), "{ended:?}");
    }
    let checked = run_limited(&folder, 293, "--dry-run --devices none");
    assert!(
        checked.status == 0 && checked.out.contains("is valid, no memory was checked, and"),
        "{checked:?}"
    );
    // A model beyond the limit is refused before it is loaded.
    let ended = run_limited(&folder, 150, "--no-rates-cache");
    let said =
        "a model of 220 x 220 x 220 cells needs 162.48 MiB; the limit of this process (ulimit -v) leaves ";
    assert!(ended.status == 2 && ended.err.contains(said), "{ended:?}");
}

/// A shot takes 8 bytes a cell and its layers, 2.7 GiB; two volumes and their coefficients would
/// take 3.2 GiB.
#[test]
fn model_of_constants_needs_no_address_space() {
    let (layers, snapshots) = (SURVEY.find("vp = ").unwrap(), "[snapshots]\nevery = 30\n");
    let time = SURVEY.find("[time]").unwrap();
    let survey = SURVEY.replace(&SURVEY[layers..time], "vp = 2000.0\n").replace(snapshots, "");
    let survey = one_shot(&survey).replace("[24, 8, 16]", "[600, 600, 600]");
    let folder = Workspace::with_survey(&format!("equation = \"acoustic2\"\n{survey}"));
    let ended = run_limited(&folder, 3200, "--dry-run");
    assert_eq!(ended.status, 0, "{ended:?}");
}

/// Stacks and buffers count, so a run that the check accepts does not end in a shortage.
#[test]
fn check_of_the_address_space_agrees_with_the_run() {
    let survey = SURVEY.replace("[24, 8, 16]", "[100, 60, 80]").replace("nt = 60", "nt = 6");
    let folder = Workspace::with_survey(&survey.replace("every = 30", "every = 3"));
    let mut seen = [false; 2];
    for most in (60..4000).step_by(12) {
        // A machine of many cores needs more for stacks.
        if most > 300 && seen[1] {
            break;
        }
        let checked = run_limited(&folder, most, "--dry-run");
        let ran = run_limited(&folder, most, "--no-rates-cache");
        assert_eq!(ran.status, checked.status, "{most} MiB: {checked:?}, {ran:?}");
        assert_eq!(folder.at("out").exists(), ran.status == 0, "{most} MiB: {ran:?}");
        assert!(ran.status == 0 || ran.err.contains("(ulimit -v) leaves"), "{most} MiB: {ran:?}");
        seen[usize::from(ran.status == 0)] = true;
        fs::remove_dir_all(folder.at("out")).unwrap_or_default();
    }
    assert_eq!(seen, [true, true], "some limits are too small, some are not");
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
    // A child that another test forks holds the lock, too, until it runs its program.
    other.unlock().unwrap();
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
        ("GPUSCHED_PARALLEL", "no", ""),
        ("GPUSCHED_ROOT", "x", ""),
    ] {
        let ended = Ended::from(output(folder.command(&["devices"]).env(name, value)).unwrap());
        assert_eq!((ended.status, ended.err.is_empty()), (0, words.is_empty()), "{name}: {ended:?}");
        assert!(ended.err.contains(words), "{words}: {ended:?}");
    }
}

#[test]
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

/// OpenMP binds the initial thread of a program, also to a CPU of its own.
#[test]
fn thread_that_openmp_may_have_bound_to_one_cpu_is_logged() {
    let folder = Workspace::new();
    for (name, value, is_warned) in [
        ("OMP_PROC_BIND", "close", true),
        ("OMP_PROC_BIND", "false", false),
        ("GOMP_CPU_AFFINITY", "1", true),
        ("OMP_NUM_THREADS", "1", false),
    ] {
        let mut command = folder.command(&["devices"]);
        command.env_remove("OMP_PROC_BIND").env_remove("GOMP_CPU_AFFINITY").env(name, value);
        // SAFETY: the child only changes its mask; all bits of a mask may be 0.
        unsafe {
            command.pre_exec(|| {
                let mut mask: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(libc::sched_getcpu() as usize, &mut mask);
                libc::sched_setaffinity(0, size_of_val(&mask), &raw const mask);
                Ok(())
            });
        }
        let ended = Ended::from(output(&mut command).unwrap());
        assert!(ended.out.contains(", 1 thread"), "{ended:?}");
        assert_eq!(ended.err.contains(&format!("{name} is set")), is_warned, "{ended:?}");
    }
}
