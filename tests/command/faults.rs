//! Output that fails: each call that writes into the output folder fails in turn, by
//! `ctests/doubles/faults/inject.c`, and one test fills a real disk. No half-written file remains,
//! each incomplete shot is reported with the cause, and a resume without the fault completes the
//! files of an undisturbed run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::command::{Ended, Workspace, brief, executable};
use testkit::process::isolated;
use testkit::{c, skip};

use crate::{flip_a_bit, running_elsewhere};

const SHOTS: u64 = 2;
const RUN: &[&str] = &["run", "survey.toml", "--json", "--no-rates-cache"];
const RESUME: &[&str] = &["run", "survey.toml", "--json", "--no-rates-cache", "--resume"];

/// Error numbers and the text of each in a message.
const ERRORS: [(i32, &str); 6] = [
    (libc::ENOSPC, "No space left on device"),
    (libc::EDQUOT, "Disk quota exceeded"),
    (libc::EROFS, "Read-only file system"),
    (libc::EACCES, "Permission denied"),
    (libc::EIO, "Input/output error"),
    (libc::ENOENT, "No such file or directory"),
];

/// The calls that fail, and how they fail.
#[derive(Debug)]
struct Fault {
    /// Number of the call, from 1.
    at: u32,
    how: String,
    lasts: bool,
}

impl Fault {
    /// Sets the variables of the injector, which writes the calls that it hits to the file `mark`.
    fn set<'a>(&self, folder: &Workspace, command: &'a mut Command) -> &'a mut Command {
        if self.lasts {
            command.env("FAULT_LASTS", "1");
        }
        command
            .env("LD_PRELOAD", injector())
            .env("FAULT_FOLDER", fs::canonicalize(folder.at(".")).unwrap().join("out"))
            .env("FAULT_AT", self.at.to_string())
            .env("FAULT_HOW", &self.how)
            .env("FAULT_MARK", folder.at("mark"))
    }

    /// Runs the survey with the fault. Returns the calls that it hit, too; `None` if the run has
    /// fewer calls.
    fn run(&self, folder: &Workspace) -> Option<(Ended, String)> {
        let mark = folder.at("mark");
        let ended = Ended::from(self.set(folder, &mut folder.command(RUN)).output().unwrap());
        let hit = fs::read_to_string(&mark).ok()?;
        fs::remove_file(mark).unwrap();
        Some((ended, hit))
    }
}

fn injector() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| c::preload("inject", &c::scratch("faults")))
}

/// The absolute path of the output folder, with which the injector compares.
fn folder() -> Workspace {
    let folder = Workspace::new();
    let out = fs::canonicalize(folder.at(".")).unwrap().join("out");
    let survey = brief()
        .replace("[24, 8, 16]", "[12, 8, 10]")
        .replace("[4, 1]", &format!("[{SHOTS}, 1]"))
        .replace("every = 3", "every = 4")
        .replace("pictures = 0", &format!("pictures = 0\nfolder = {out:?}\n[run]\nwrite_retry_s = 0.2"));
    fs::write(folder.at("survey.toml"), survey).unwrap();
    folder
}

fn whole(folder: &Workspace) -> BTreeSet<u64> {
    let dry = folder.gpusched(&[RESUME, &["--dry-run"]].concat());
    dry.shots("kept").into_iter().collect()
}

/// Checks that each shot is complete or reported as failed, and that no file is half-written.
fn check(folder: &Workspace, fault: &Fault, ended: &Ended, words: &str) {
    let names: Vec<_> = folder.results().into_keys().collect();
    assert!(!names.iter().any(|name| name.ends_with(".part")), "{fault:?}: {names:?}, {ended:?}");
    let (whole, events) = (whole(folder), ended.events());
    let is_retried = |event: &Value| event["schedule"]["retried"].as_u64() > Some(0);
    assert!(!events.iter().any(is_retried), "{fault:?}: {ended:?}");
    match ended.status {
        0 => {
            // The fault hit one call, of survey.json.
            assert!(!fault.lasts, "{fault:?}: {ended:?}");
            assert!(events.iter().any(|event| event["event"] == "warning"), "{fault:?}: {ended:?}");
            assert_eq!(whole.len() as u64, SHOTS, "{fault:?}: {ended:?}");
            assert_eq!(folder.json("out/survey.json")["state"], "done");
        }
        1 => {
            let all = [ended.shots("done"), ended.shots("failed")].concat();
            assert_eq!(BTreeSet::from_iter(all), (1..=SHOTS).collect(), "{fault:?}: {ended:?}");
            assert!(ended.shots("done").iter().all(|shot| whole.contains(shot)), "{fault:?}: {ended:?}");
            let mut errors = events.iter().filter_map(|event| event["error"].as_str());
            let names_it = |error: &str| error.contains(words) && error.contains("/out/");
            assert!(errors.clone().next().is_some() && errors.all(names_it), "{fault:?}: {ended:?}");
        }
        status => {
            // The probe of the folder, of three calls.
            assert!(status == 2 && fault.at <= 3, "{fault:?}: {ended:?}");
            assert!(ended.err.contains(words) && names.is_empty(), "{fault:?}: {names:?}, {ended:?}");
        }
    }
}

fn resumes(folder: &Workspace, undisturbed: &Workspace, fault: &Fault) {
    let ended = folder.gpusched(RESUME);
    assert_eq!(ended.status, 0, "{fault:?}: {ended:?}");
    assert!(folder.results() == undisturbed.results(), "{fault:?}: other files than of one run");
    assert_eq!(folder.json("out/survey.json")["state"], "done");
}

fn undisturbed() -> Workspace {
    let folder = folder();
    assert_eq!(folder.gpusched(RUN).status, 0);
    folder
}

/// Lower bound of the calls of a run: three of the first file, five of survey.json, and for each
/// shot a probe and three files of five calls.
const AT_LEAST: u32 = 3 + 5 + SHOTS as u32 * 16;

/// A file is created under another name, written, forced to disk, renamed while it is locked, and the
/// folder forced to disk.
#[test]
fn every_file_is_on_disk_before_it_has_its_name() {
    let folder = folder();
    let fault = Fault { at: 1, how: "watch".into(), lasts: true };
    let (ended, calls) = fault.run(&folder).unwrap();
    assert_eq!(ended.status, 0, "{ended:?}");
    let mut files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in calls.lines() {
        let (call, path) = line.rsplit_once(' ').unwrap();
        files.entry(path).or_default().push(call);
    }
    let forced = files.remove(fs::canonicalize(folder.at("out")).unwrap().to_str().unwrap()).unwrap();
    assert!(forced.iter().all(|call| *call == "fsync"), "{forced:?}");
    let mut named = 0;
    for (path, mut calls) in files {
        assert!(path.contains("/.gpusched-") && path.ends_with(".part"), "{path}");
        calls.dedup();
        // The first file of a run, and of each shot, only probes the folder.
        if calls.iter().any(|call| call.starts_with("rename")) {
            assert_eq!(calls, ["create", "write", "fsync", "rename"], "{path}");
            named += 1;
        }
    }
    assert_eq!(forced.len(), named);
    assert!(named > 3 * SHOTS as usize, "{named}");
}

/// Runs the survey in a new folder for each call, or every `step`th, which fails in that run; then
/// `check` and a resume.
fn for_each_call(step: u32, fault: impl Fn(u32) -> Fault, check: impl Fn(&Workspace, &Fault, &Ended)) {
    let undisturbed = undisturbed();
    for at in (1..).step_by(step as usize) {
        let (folder, fault) = (folder(), fault(at));
        let Some((ended, _)) = fault.run(&folder) else {
            assert!(at > AT_LEAST, "{at} calls");
            return;
        };
        check(&folder, &fault, &ended);
        resumes(&folder, &undisturbed, &fault);
    }
}

fn error_of(number: u32) -> (i32, &'static str) {
    ERRORS[number as usize % ERRORS.len()]
}

#[test]
fn a_call_that_fails_once_costs_no_more_than_its_shot() {
    let fault = |at| Fault { at, how: error_of(at).0.to_string(), lasts: false };
    for_each_call(1, fault, |folder, fault, ended| check(folder, fault, ended, error_of(fault.at).1));
}

#[test]
fn lasting_fault_is_reported_for_each_shot_and_a_resume_completes() {
    // Every third call: a file has 5 calls, so steps of 5 would hit the same call of each file.
    let fault = |at| Fault { at, how: error_of(at / 3).0.to_string(), lasts: true };
    for_each_call(3, fault, |folder, fault, ended| check(folder, fault, ended, error_of(fault.at / 3).1));
}

#[test]
fn a_process_that_dies_in_any_call_is_resumed() {
    let fault = |at| Fault { at, how: "kill".into(), lasts: false };
    for_each_call(1, fault, |folder, fault, ended| {
        assert_eq!(ended.status, -1, "{fault:?}: {ended:?}");
        // A shot with a description is complete. With one slot at most one shot that began is
        // incomplete.
        let names: Vec<_> = folder.results().into_keys().collect();
        let described = names.iter().filter(|name| name.ends_with(".json")).count();
        assert_eq!(described, whole(folder).len(), "{fault:?}");
        let begun = |shot: &u64| names.iter().any(|name| name.starts_with(&format!("shot_{shot:04}")));
        assert!((1..=SHOTS).filter(begun).count() <= described + 1, "{fault:?}");
    });
}

/// No description may remain beside files of another run.
#[test]
fn files_of_an_earlier_run_are_removed_before_the_shot_writes() {
    let folder = undisturbed();
    // Calls before: the probe of the folder, survey.json, the shot's probe, the creation of its
    // first snapshot.
    let fault = Fault { at: 3 + 5 + 1 + 1, how: "kill".into(), lasts: false };
    let (_, hit) = fault.run(&folder).unwrap();
    assert!(hit.starts_with("create "), "{hit}");
    let left = folder.results();
    let expected = ["shot_0002.bin", "shot_0002.json", "shot_0002_step_000000.bin"];
    assert!(left.keys().filter(|name| !name.ends_with(".part")).eq(expected), "{:?}", left.keys());
    // No process has this number.
    fs::write(folder.at("out/.gpusched-4294967295-0.part"), "").unwrap();
    let resumed = folder.gpusched(&["run", "survey.toml", "--resume"]);
    assert!(resumed.out.contains("removed unfinished files of a killed run: 1\n"), "{resumed:?}");
}

#[test]
fn folder_that_vanishes_or_is_replaced_fails_the_remaining_shots() {
    let undisturbed = undisturbed();
    let cases = [9, 11, 14, 22, 26, 32].map(|at| [(at, "vanish"), (at, "replace")]);
    for (at, how) in cases.into_iter().flatten() {
        let folder = folder();
        let fault = Fault { at, how: how.into(), lasts: true };
        let (ended, _) = fault.run(&folder).expect("a run has more calls");
        assert_eq!(folder.at("out").exists(), how == "replace", "{fault:?}: {ended:?}");
        assert!(how == "vanish" || folder.results().is_empty(), "{fault:?}: {ended:?}");
        assert_eq!(ended.status, 1, "{fault:?}: {ended:?}");
        let failed = ended.shots("failed");
        assert_eq!(failed.len() + ended.shots("done").len(), SHOTS as usize, "{fault:?}: {ended:?}");
        let named = ["its folder does not exist", "moved, removed or replaced during the run"];
        assert!(named.iter().any(|words| ended.out.contains(words)), "{fault:?}: {ended:?}");
        let warnings = ended.out.lines().filter(|line| line.starts_with(r#"{"event":"warning","warning""#));
        let warnings: Vec<_> = warnings.collect();
        assert!(warnings.windows(2).all(|two| two[0] != two[1]), "{fault:?}: {warnings:?}");
        resumes(&folder, &undisturbed, &fault);
    }
}

/// Returns the command with a limit on the size of files, in blocks of 512 bytes, or of 1024 in
/// some shells.
fn limited(folder: &Workspace, blocks: u32, args: &[&str]) -> Command {
    let mut shell = isolated("sh");
    let script = format!(r#"ulimit -f {blocks}; exec "$0" "$@""#);
    shell.args(["-c", &script]).arg(executable()).args(args).current_dir(folder.path());
    shell
}

/// By default the system would end the process.
#[test]
fn a_limit_on_the_size_of_files_is_an_error_of_the_file() {
    let folder = folder();
    for args in [RUN, &["run", "survey.toml", "--dry-run"], &["init", "other.toml"]] {
        let ended = Ended::from(limited(&folder, 1, args).output().unwrap());
        assert!(ended.status == 2 && ended.err.contains("File too large"), "{args:?}: {ended:?}");
    }
    assert!(!folder.at("other.toml").exists());
    assert!(!folder.results().keys().any(|name| name.ends_with(".part")), "{:?}", folder.results().keys());
}

/// As on NFS, where a folder cannot be locked though files can: another process may write there.
#[test]
fn unfinished_files_stay_in_a_folder_that_cannot_be_locked() {
    let folder = folder();
    fs::create_dir(folder.at("out")).unwrap();
    // No process has this number; no shot of the survey has a snapshot of this step.
    let left =
        ["out/.gpusched-4294967295-0.part", "out/shot_0001_step_000003.bin"].map(|name| folder.at(name));
    for why in [0, libc::ENOLCK, libc::EOPNOTSUPP] {
        left.iter().for_each(|path| fs::write(path, "").unwrap());
        let _ = fs::remove_file(folder.at("out/shot_0001.json"));
        let fault = Fault { at: u32::MAX, how: "watch".into(), lasts: false };
        let mut command = folder.command(RUN);
        let ended =
            Ended::from(fault.set(&folder, command.env("FAULT_LOCK", why.to_string())).output().unwrap());
        assert_eq!(ended.status, 0, "{ended:?}");
        assert_eq!(left.each_ref().map(|path| path.exists()), [why != 0; 2], "errno {why}: {ended:?}");
    }
}

/// As in an archive that is mounted read-only. Parts of a survey are not merged there.
#[test]
fn complete_survey_in_a_read_only_folder_needs_no_write() {
    let folder = folder();
    assert_eq!(folder.gpusched(RUN).status, 0);
    let fault = Fault { at: 1, how: libc::EROFS.to_string(), lasts: true };
    let call = |args: &[&str]| Ended::from(fault.set(&folder, &mut folder.command(args)).output().unwrap());
    let files = || (folder.results(), fs::read(folder.at("out/survey.json")).unwrap());
    let before = files();
    for more in [&[][..], &["--dry-run"]] {
        let ended = call(&[&["run", "survey.toml", "--resume"], more].concat());
        assert_eq!(ended.status, 0, "{ended:?}");
        let last = "2 of 2 shots are complete; nothing was written, and out cannot be written to\n";
        assert!(ended.out.replace(&*folder.at("out").to_string_lossy(), "out").ends_with(last), "{ended:?}");
    }
    let ended = call(RESUME);
    let end = ended.events().pop().unwrap();
    assert_eq!((ended.status, ended.shots("kept")), (0, vec![1, 2]), "{ended:?}");
    assert_eq!((&end["event"], &end["done"], &end["kept"]), (&"end".into(), &2.into(), &2.into()), "{end}");
    let ended = call(&["collect", "out"]);
    let said = "2 of 2 shots done\nsurvey.json is complete, and was not written: Read-only file system";
    assert!(ended.status == 0 && ended.out.starts_with(said), "{ended:?}");
    let event = call(&["collect", "out", "--json"]).events().remove(0);
    assert!(event["unwritten"].as_str().is_some_and(|why| why.contains("Read-only file system")), "{event}");
    assert!(files() == before, "a file was written");

    // A run without --resume would compute the shots, and a trace is a file, too.
    for args in [RUN, &["run", "survey.toml", "--resume", "--trace", "trace.json"]] {
        let ended = call(args);
        assert!(ended.status == 2 && ended.err.contains("survey.json: Read-only file system"), "{ended:?}");
    }
    running_elsewhere(&folder);
    let held = fs::File::open(folder.at("out")).unwrap();
    held.lock().unwrap();
    let ended = call(RESUME);
    assert!(ended.status == 2 && ended.err.contains("another run writes to it"), "{ended:?}");
    // A child that another test forks holds the lock, too, until it runs its program.
    held.unlock().unwrap();
    fs::remove_file(folder.at("out/shot_0002.bin")).unwrap();
    for args in [RESUME, &["run", "survey.toml", "--resume", "--dry-run"], &["collect", "out"]] {
        let ended = call(args);
        assert!(ended.status == 2 && ended.err.contains("survey.json: Read-only file system"), "{ended:?}");
    }
    assert_eq!(folder.gpusched(&["run", "survey.toml", "--resume", "--shots", "2"]).status, 0);
    let ended = call(&["collect", "out"]);
    assert!(ended.status == 2 && ended.err.contains("survey.json: Read-only file system"), "{ended:?}");
}

/// As on a disk with room for the block of the probe and not for the list of a large survey.
#[test]
fn run_goes_on_if_survey_json_cannot_be_written_at_the_start() {
    let folder = folder();
    let (ended, hit) = Fault { at: 5, how: libc::ENOSPC.to_string(), lasts: false }.run(&folder).unwrap();
    assert!(hit.starts_with("write "), "{hit}");
    assert_eq!((ended.status, ended.shots("done")), (0, vec![1, 2]), "{ended:?}");
    let is_warning =
        |event: &&Value| event["warning"].as_str().is_some_and(|why| why.contains("survey.json"));
    assert_eq!(ended.events().iter().filter(is_warning).count(), 1, "{ended:?}");
}

/// As with a quota, or a file server that restarts: the shot that writes fails, the others wait.
#[test]
fn shots_that_have_not_begun_wait_until_the_folder_can_be_written_again() {
    // Calls before: the probe of the folder, survey.json, the shot's probe; in the second case the
    // shot has not begun either.
    for (at, how, failed) in [(10, libc::ENOSPC, &[1][..]), (9, libc::ESTALE, &[])] {
        let folder = folder();
        let survey = fs::read_to_string(folder.at("survey.toml"))
            .unwrap()
            .replace("[2, 1]", "[6, 1]")
            .replace("write_retry_s = 0.2", "");
        let survey = survey.replace("[40.0, 10.0]", "[10.0, 10.0]");
        fs::write(folder.at("survey.toml"), survey).unwrap();
        let fault = Fault { at, how: how.to_string(), lasts: true };
        let mut command = folder.command(RUN);
        command.env("FAULT_MS", "3000").env("GPUSCHED_SLOTS", "1");
        let ended = Ended::from(fault.set(&folder, &mut command).output().unwrap());
        assert_eq!(
            (ended.status, ended.shots("failed")),
            (i32::from(at == 10), failed.to_vec()),
            "{ended:?}"
        );
        assert_eq!(ended.shots("done").len() + failed.len(), 6, "{ended:?}");
        let events = ended.events();
        let waits = |event: &&Value| {
            event["warning"].as_str().is_some_and(|why| why.contains("shots that have not begun wait"))
        };
        assert_eq!(events.iter().filter(waits).count(), 1, "{ended:?}");
        let again: Vec<_> = events.iter().filter(|event| event["event"] == "writable").collect();
        assert!(again.len() == 1 && again[0]["shots"].as_u64() > Some(3), "{ended:?}");
        let schedule = &events.last().unwrap()["schedule"];
        assert_eq!(schedule["devices"][0]["attempts_failed"], failed.len(), "{schedule}");
        assert_eq!(folder.gpusched(RESUME).status, 0);
        if at == 10 {
            let _ = fs::remove_dir_all(folder.at("out"));
            let mut command = folder.command(&[RUN, &["--stop-after", "3s"]].concat());
            let ended = Ended::from(fault.set(&folder, command.env("GPUSCHED_SLOTS", "1")).output().unwrap());
            let end = ended.events().pop().unwrap();
            assert_eq!(
                (ended.status, ended.shots("failed"), &end["open"]),
                (1, vec![1], &5.into()),
                "{ended:?}"
            );
        }
    }
}

/// The first shot finds the full disk only when the run is stopped.
#[test]
fn shot_that_could_not_begin_is_open_after_a_stop() {
    let folder = folder();
    let survey = fs::read_to_string(folder.at("survey.toml")).unwrap();
    fs::write(folder.at("survey.toml"), survey.replace("write_retry_s = 0.2", "")).unwrap();
    let fault = Fault { at: 9, how: libc::ENOSPC.to_string(), lasts: true };
    let mut command = folder.command(&[RUN, &["--stop-after", "1s"]].concat());
    command.env("FAULT_AFTER_MS", "1500").env("GPUSCHED_SLOTS", "1");
    let ended = Ended::from(fault.set(&folder, &mut command).output().unwrap());
    let end = ended.events().into_iter().find(|event| event["event"] == "end").unwrap();
    assert_eq!((ended.shots("failed"), &end["open"]), (vec![], &SHOTS.into()), "{ended:?}");
}

/// After a failed write, the command checks the room for a whole record before it computes a shot.
/// A computed shot writes its snapshots, for which the room suffices here; records have none.
#[test]
fn shots_are_not_computed_for_a_disk_without_room_for_their_records() {
    let folder = folder();
    let survey = fs::read_to_string(folder.at("survey.toml")).unwrap();
    // 4000 traces of 10 samples are 160 kB; a snapshot is 4 kB.
    let receivers = vec!["[0, 0, 0]"; 4000].join(", ");
    let survey = survey
        .replace("nt = 4", "nt = 10")
        .replace("every = 4", "every = 1")
        .replace("record_every = 2", "record_every = 1")
        .replace("every = [2, 4]", &format!("positions_m = [{receivers}]"));
    fs::write(folder.at("survey.toml"), survey).unwrap();
    let fault = Fault { at: 1, how: "watch".into(), lasts: true };
    let mut shell = limited(&folder, 128, RUN);
    let ended = Ended::from(fault.set(&folder, shell.env("GPUSCHED_SLOTS", "1")).output().unwrap());
    assert_eq!((ended.status, ended.shots("failed")), (1, vec![1, 2]), "{ended:?}");
    let calls = fs::read_to_string(folder.at("mark")).unwrap();
    let whole: BTreeSet<&str> =
        calls.lines().filter(|line| line.starts_with("fsync ") && line.ends_with(".part")).collect();
    // The ten snapshots of the only computed attempt, and survey.json a few times.
    assert!((10..20).contains(&whole.len()), "{calls}");
}

/// A shot whose snapshots would not fit is not computed either. The disk grows while shots wait.
#[test]
fn shots_wait_for_a_disk_without_room_for_their_snapshots() {
    let folder = folder();
    // A snapshot has 12 KiB, and a shot four.
    let survey = fs::read_to_string(folder.at("survey.toml")).unwrap();
    let survey = survey.replace("[12, 8, 10]", "[24, 8, 16]").replace("every = 4\n", "every = 1\n");
    let survey = survey.replace("[2, 1]", "[6, 1]").replace("[40.0, 10.0]", "[10.0, 10.0]");
    fs::write(folder.at("survey.toml"), survey.replace("write_retry_s = 0.2", "")).unwrap();
    fs::create_dir(folder.at("out")).unwrap();
    let script = r#"
        mount -t tmpfs -o size=40k tmpfs out || exit 99
        touch first
        (until grep -q 'begun wait' first; do sleep 0.1; done; mount -o remount,size=1m tmpfs out) &
        "$GPUSCHED" run survey.toml --json --no-rates-cache >first; echo $? >status
    "#;
    let mut shell = isolated("unshare");
    shell.args(["-rm", "sh", "-c", script]).current_dir(folder.at("."));
    shell.env("GPUSCHED", executable()).env("GPUSCHED_SLOTS", "1");
    match shell.output() {
        Ok(ended) if ended.status.code() != Some(99) && folder.at("status").exists() => {}
        other => return skip(&format!("no file system can be mounted: {other:?}")),
    }
    let text = |name| fs::read_to_string(folder.at(name)).unwrap();
    let ended =
        Ended { status: text("status").trim().parse().unwrap(), out: text("first"), err: String::new() };
    assert_eq!((ended.status, ended.shots("failed")), (1, vec![1]), "{ended:?}");
    assert_eq!(ended.shots("done"), [2, 3, 4, 5, 6], "{ended:?}");
}

/// The description of an earlier run is there, beside a damaged or a whole record.
#[test]
fn status_repeats_that_a_shot_is_damaged_or_has_failed() {
    let folder = undisturbed();
    let status = || {
        let ended = folder.gpusched(&["status", "out", "--json"]);
        let event = ended.events().remove(0);
        (ended.status, event["missing"].as_u64(), event["failed"].as_u64())
    };
    flip_a_bit(&folder.at("out/shot_0002.bin"));
    assert_eq!(folder.gpusched(&["collect", "out"]).status, 1);
    // Calls before: the probe of the folder, the creation of the report, its first write, and the
    // shot's probe.
    let fault = Fault { at: 3 + 1 + 5 + 1 + 1, how: libc::EACCES.to_string(), lasts: false };
    let mut part = folder.command(&[RESUME, &["--shots", "2"]].concat());
    let ended = Ended::from(fault.set(&folder, &mut part).output().unwrap());
    assert_eq!(ended.shots("failed"), [2], "{ended:?}");
    assert_eq!(status(), (1, Some(1), Some(0)), "damaged");
    assert_eq!(folder.gpusched(RESUME).status, 0);
    assert_eq!(status(), (0, Some(0), Some(0)));
    let preload = c::preload("no_unlink", &c::scratch("status"));
    let mut all = folder.command(RUN);
    all.env("LD_PRELOAD", preload).env("FAULT_PATH", "out/shot_0002.json").env("FAULT_COUNT", "1000");
    let ended = Ended::from(all.output().unwrap());
    assert_eq!(ended.shots("failed"), [2], "{ended:?}");
    assert_eq!(status(), (1, Some(0), Some(1)), "failed");
    // It compares the checksums.
    assert_eq!(folder.gpusched(&["collect", "out"]).status, 0);
    assert_eq!(status(), (0, Some(0), Some(0)));
}

/// As on NFS, which reports a full disk once a file is forced to it.
#[test]
fn shots_are_not_computed_for_a_disk_that_is_full_once_it_is_forced() {
    let folder = folder();
    // Calls before: the probe of the folder, survey.json and its folder.
    let fault = Fault { at: 4, how: libc::ENOSPC.to_string(), lasts: true };
    let mut command = folder.command(RUN);
    command.env("FAULT_CALL", "fsync").env("GPUSCHED_SLOTS", "1");
    let ended = Ended::from(fault.set(&folder, &mut command).output().unwrap());
    assert_eq!((ended.status, ended.shots("failed")), (1, vec![1, 2]), "{ended:?}");
    let why = |shot: u64| {
        let of_shot =
            ended.events().into_iter().find(|event| event["event"] == "shot" && event["shot"] == shot);
        of_shot.unwrap()["error"].as_str().unwrap().to_owned()
    };
    assert!(why(1).contains("shot_0001_step_000000.bin: No space"), "{ended:?}");
    assert!(why(2).contains("shot_0002.bin: No space"), "it was computed: {ended:?}");
}

/// A process that continues a run waits as its shots would. The calls of the first process do not
/// count here, because the injector counts those of each process.
#[test]
fn process_that_continues_a_run_waits_until_it_can_begin() {
    const CONTINUE: &[&str] =
        &["run", "survey.toml", "--json", "--no-rates-cache", "--resume", "--restart=1"];
    let begun = || {
        let folder = undisturbed();
        let survey = fs::read_to_string(folder.at("survey.toml")).unwrap();
        fs::write(folder.at("survey.toml"), survey.replace("write_retry_s = 0.2", "write_retry_s = 60"))
            .unwrap();
        fs::remove_file(folder.at("out/shot_0002.bin")).unwrap();
        folder
    };
    let waits = |event: &Value| {
        event["warning"]
            .as_str()
            .is_some_and(|why| why.ends_with("; the run waits until that succeeds, for up to 1 min 00 s"))
    };
    let lasting = |how: i32| Fault { at: 1, how: how.to_string(), lasts: true };
    for how in [libc::ENOSPC, libc::EIO, libc::ESTALE] {
        let folder = begun();
        let mut command = folder.command(CONTINUE);
        let ended = Ended::from(lasting(how).set(&folder, command.env("FAULT_MS", "500")).output().unwrap());
        assert_eq!((ended.status, ended.shots("done")), (0, vec![2]), "{ended:?}");
        assert_eq!(ended.events().iter().filter(|event| waits(event)).count(), 1, "{ended:?}");
        assert!(folder.results() == undisturbed().results(), "{how}: other files than of one run");
    }

    // A read of this file fails with EIO.
    let folder = begun();
    let survey = folder.at("survey.toml");
    fs::rename(&survey, folder.at("real.toml")).unwrap();
    std::os::unix::fs::symlink("/proc/self/mem", &survey).unwrap();
    let (mut run, first) = waiting(&mut folder.command(CONTINUE));
    assert!(first.contains("survey.toml: Input/output error"), "{first}");
    fs::rename(folder.at("real.toml"), &survey).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(0));

    // A cause that does not pass, and a stop request.
    let folder = begun();
    let ended =
        Ended::from(lasting(libc::EACCES).set(&folder, &mut folder.command(CONTINUE)).output().unwrap());
    assert!(ended.status == 1 && ended.err.contains("Permission denied"), "{ended:?}");
    let begun = Instant::now();
    let (mut run, _) = waiting(lasting(libc::ENOSPC).set(&folder, &mut folder.command(CONTINUE)));
    // SAFETY: a child of ours that has not been waited for.
    assert_eq!(unsafe { libc::kill(run.id() as i32, libc::SIGTERM) }, 0);
    assert_eq!(run.wait().unwrap().code(), Some(1));
    assert!(begun.elapsed() < Duration::from_secs(30), "it waited for {:?}", begun.elapsed());
}

/// Starts a run, and returns it with its first line.
fn waiting(command: &mut Command) -> (Child, String) {
    let mut run = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(run.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    assert!(line.contains("the run waits"), "{line}");
    std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
    (run, line)
}

/// Uses a file system in memory, where the system allows any user to mount one.
#[test]
fn a_disk_that_is_full_fails_the_shots_that_have_no_room() {
    let folder = folder();
    fs::create_dir(folder.at("out")).unwrap();
    let script = r#"
        mount -t tmpfs -o size=20k tmpfs out || exit 99
        head -c 16384 /dev/zero >out/other && "$GPUSCHED" run survey.toml --dry-run 2>small
        head -c 20480 /dev/zero >out/other; "$GPUSCHED" run survey.toml --dry-run 2>full; rm out/other
        "$GPUSCHED" run survey.toml --json --no-rates-cache >first; echo $? >status
        ls -A out >names
    "#;
    let mut shell = isolated("unshare");
    shell.args(["-rm", "sh", "-c", script]).current_dir(folder.at("."));
    shell.env("GPUSCHED", executable());
    match shell.output() {
        Ok(ended) if ended.status.code() != Some(99) && folder.at("status").exists() => {}
        other => return skip(&format!("no file system can be mounted: {other:?}")),
    }
    let text = |name| fs::read_to_string(folder.at(name)).unwrap();
    let small = "warning: the output needs 7.69 KiB more, and its file system has 4.00 KiB free";
    assert!(text("small").contains(small), "{}", text("small"));
    assert!(text("full").contains("survey.json: No space left on device"), "{}", text("full"));
    // Room for survey.json, the three files of a shot, and one more.
    let first =
        Ended { status: text("status").trim().parse().unwrap(), out: text("first"), err: String::new() };
    assert!(first.status == 1 && first.shots("done") == [1] && first.shots("failed") == [2], "{first:?}");
    assert!(first.out.contains("shot_0002") && first.out.contains("No space left on device"), "{first:?}");
    let names = text("names");
    assert!(!names.contains(".part") && !names.contains("shot_0002"), "files of a failed shot: {names}");
}
