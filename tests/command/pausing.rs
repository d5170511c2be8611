//! A run that gets a stop request saves the states of its shots, and the next run continues from
//! them: the files are those of an uninterrupted run, bit for bit.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, PipeWriter, Write, pipe};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Stdio};
use std::ptr;
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use serde_json::Value;

use testkit::c;
use testkit::command::{Ended, SURVEY, Workspace};
use testkit::process::output;
use testkit::virtual_gpus::attach;

use crate::{finished, flip_a_bit, run_well};

/// Longer than a run takes on a busy machine to reach any state.
const LONG: Duration = Duration::from_secs(120);
const RESUME: &[&str] = &["--json", "--resume"];

/// Six shots, two at a time.
fn survey() -> String {
    SURVEY
        .replace("every = 30", "every = 25")
        .replace("step_m = [40.0, 10.0]", "step_m = [20.0, 10.0]")
        .replace("count = [4, 1]", "count = [6, 1]")
        .replace("pictures = 1", "pictures = 0\n[run]\nslots = 2")
}

fn begin(folder: &Workspace, args: &[&str]) -> Child {
    let out = File::create(folder.at("events")).unwrap();
    folder.command(args).stdout(out).stderr(Stdio::null()).spawn().unwrap()
}

fn told(folder: &Workspace) -> Vec<Value> {
    let text = fs::read_to_string(folder.at("events")).unwrap();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn signal(run: &Child, signal: i32) {
    // SAFETY: a child of ours that has not been waited for.
    assert_eq!(unsafe { libc::kill(run.id() as i32, signal) }, 0);
}

fn of<'a>(events: &'a [Value], state: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["event"] == "shot" && event["state"] == state).collect()
}

/// Returns the number of warnings that contain these words.
fn warned(events: &[Value], words: &str) -> usize {
    events.iter().filter(|event| event["warning"].as_str().is_some_and(|said| said.contains(words))).count()
}

/// Six shots that take longer than any test.
fn endless_survey() -> String {
    survey().replace("nt = 60", "nt = 200000")
}

/// Runs the survey with time limits, each longer than the last, until `count` shots have begun. Each
/// has saved its state or has lost it.
fn stopped_with(folder: &Workspace, args: &[&str], count: usize) -> Vec<Value> {
    let mut milliseconds = 250;
    loop {
        let limit = format!("{milliseconds}ms");
        let ended = folder.gpusched(&[args, &["--json", "--stop-after", &limit]].concat());
        assert_eq!(ended.status, 1, "{ended:?}");
        let events = ended.events();
        let begun = of(&events, "paused").len() + warned(&events, "its state is lost: ");
        if begun == count || milliseconds > 60_000 {
            assert_eq!(begun, count, "{ended:?}");
            return events;
        }
        assert!(begun < count, "{ended:?}");
        milliseconds *= 4;
    }
}

/// A batch system may block the signal in all processes that it starts.
#[test]
fn run_that_starts_with_sigterm_blocked_stops_on_it() {
    let folder = Workspace::with_survey(&endless_survey());
    let out = File::create(folder.at("events")).unwrap();
    let mut command = folder.command(&["run", "survey.toml", "--json"]);
    // SAFETY: the child only changes its mask.
    unsafe {
        command.pre_exec(|| {
            let mut blocked = MaybeUninit::uninit();
            libc::sigemptyset(blocked.as_mut_ptr());
            libc::sigaddset(blocked.as_mut_ptr(), libc::SIGTERM);
            libc::pthread_sigmask(libc::SIG_BLOCK, blocked.as_ptr(), ptr::null_mut());
            Ok(())
        });
    }
    let mut run = command.stdout(out).stderr(Stdio::null()).spawn().unwrap();
    // As in `stop_is_reported_first_and_queued_shots_count_as_no_failed_attempt`: shots have begun.
    until(|| open_parts(&run) > 2);
    signal(&run, libc::SIGTERM);
    let begun = Instant::now();
    while run.try_wait().unwrap().is_none() && begun.elapsed() < Duration::from_secs(20) {
        sleep(Duration::from_millis(5));
    }
    let stopped = run.try_wait().unwrap().and_then(|status| status.code());
    let _ = run.kill();
    assert_eq!((stopped, of(&told(&folder), "paused").is_empty()), (Some(1), false));
}

/// Returns the set of signals in this line of the run's status, a bit for each.
fn signals(run: &Child, line: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", run.id())).unwrap_or_default();
    let mask = status.lines().find_map(|other| other.strip_prefix(line)?.strip_prefix(':'));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Returns true if the run has its handlers. It registers that of SIGTERM before that of SIGINT.
fn has_handlers(run: &Child) -> bool {
    signals(run, "SigCgt") >> (libc::SIGINT - 1) & 1 == 1
}

/// Waits until a run is in this state.
fn until(mut state: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !state() {
        assert!(begun.elapsed() < LONG, "the run hangs");
        sleep(Duration::from_millis(5));
    }
}

/// Returns the number of temporary files that a run has open.
fn open_parts(run: &Child) -> usize {
    let open = fs::read_dir(format!("/proc/{}/fd", run.id())).into_iter().flatten();
    let paths = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    paths.filter(|path| path.extension().is_some_and(|end| end == "part")).count()
}

/// Fills a pipe. The other users of this end still block in their writes.
fn fill(pipe: &PipeWriter) {
    let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    let mut again = File::options().write(true).custom_flags(libc::O_NONBLOCK).open(path).unwrap();
    let full = (0..).find_map(|_| again.write(b"\n").err());
    assert_eq!(full.map(|error| error.kind()), Some(ErrorKind::WouldBlock));
}

fn paused(folder: &Workspace) -> Vec<String> {
    folder.results().into_keys().filter(|name| name.ends_with(".paused")).collect()
}

/// Runs the survey and sends it the signal after its first shot. Repeats that until the signal
/// stops a shot before its end; other shots have not begun then.
fn signalled(stop: i32) -> (Workspace, Vec<Value>) {
    for _ in 0..20 {
        let folder = Workspace::with_survey(&survey());
        let mut run = begin(&folder, &["run", "survey.toml", "--json"]);
        until(|| !of(&told(&folder), "done").is_empty() || run.try_wait().unwrap().is_some());
        signal(&run, stop);
        let status = run.wait().unwrap().code();
        let events = told(&folder);
        if !of(&events, "paused").is_empty() {
            assert_eq!(status, Some(1), "{events:?}");
            return (folder, events);
        }
        // All shots, or all running ones, had ended before the signal.
        assert!(matches!(status, Some(0 | 1)), "{events:?}");
    }
    panic!("no run of 20 was stopped in the middle of a shot");
}

/// The driver refuses the context after two seconds, and the run is stopped before that.
#[test]
fn run_that_is_stopped_while_it_asks_a_busy_gpu_does_not_wait_for_it() {
    let folder = Workspace::with_survey(&survey());
    let mut command = folder.command(&["run", "--stop-after", "500ms", "--", "survey.toml"]);
    attach(&mut command, "dev=mem:1G", &folder.at("leases"));
    command.env("FAKECUDA_FAULTS", "0:ctx:*:wait=2000;0:ctx:*:46").env("GPUSCHED_DEVICES", "cuda");
    let mut run = command.stdout(Stdio::null()).spawn().unwrap();
    until(|| run.try_wait().unwrap().is_some());
    assert_eq!(run.wait().unwrap().code(), Some(1));
    let report = folder.json("out/survey.json");
    assert_eq!((report["state"].as_str(), report["failed"].as_u64()), (Some("stopped"), Some(0)));
}

#[test]
fn stopped_run_resumes_with_the_same_bits() {
    let expected = finished(&survey()).results();
    for (number, stop) in [libc::SIGTERM, libc::SIGINT].into_iter().enumerate() {
        let (folder, events) = signalled(stop);
        let left = of(&events, "paused");
        assert!(left.len() <= 2, "{events:?}");
        assert_eq!(left.len(), paused(&folder).len());
        let end = events.last().unwrap();
        let (done, open) = (end["done"].as_u64().unwrap(), end["open"].as_u64().unwrap());
        assert!(end["failed"] == 0 && done + open == 6 && open > 0, "{end}");
        let manifest = folder.json("out/survey.json");
        assert_eq!(manifest["state"], "stopped");

        // A shot whose state is damaged starts from its first step.
        let harmed = number == 1;
        if harmed {
            flip_a_bit(&folder.at("out").join(&paused(&folder)[0]));
        }
        let events = run_well(&folder, &[RESUME, &["--trace", "trace.json"]].concat()).events();
        let steps_before = of(&events, "done").into_iter().filter_map(|shot| shot["steps_before"].as_u64());
        let went_on: Vec<u64> = steps_before.filter(|&steps| steps > 0).collect();
        assert_eq!(went_on.len(), left.len() - usize::from(harmed), "{events:?}");
        let resumed = events.iter().find(|event| event["event"] == "resume").unwrap();
        assert_eq!(resumed["paused"], left.len() - usize::from(harmed), "{resumed}");
        for shot in &left {
            let steps = shot["steps_done"].as_u64().unwrap();
            assert!(harmed || went_on.contains(&steps), "{shot}: {went_on:?}");
        }
        // The work of a shot is that of its remaining steps, of 60.
        let trace = folder.json("trace.json");
        let bars = trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X");
        let works: Vec<f64> = bars.filter_map(|bar| bar["args"]["work"].as_f64()).collect();
        let all = 60.0 * manifest["grid"]["padded_cells"].as_f64().unwrap();
        let saved = || left.iter().map(|shot| shot["steps_done"].as_f64().unwrap() / 60.0);
        let is_left = |saved: f64| works.iter().any(|work| (work / all - (1.0 - saved)).abs() < 1e-9);
        assert!(works.len() == open as usize && (harmed || saved().all(is_left)), "{works:?}, {left:?}");
        let of_all_steps = works.iter().filter(|work| (*work / all - 1.0).abs() < 1e-9).count();
        assert_eq!(of_all_steps, open as usize - left.len() + usize::from(harmed), "{works:?}, {left:?}");
        assert_eq!(warned(&events, "checksum"), usize::from(harmed), "{events:?}");
        let files = folder.results();
        assert!(files.keys().eq(expected.keys()), "{:?}, {:?}", files.keys(), expected.keys());
        for (name, bytes) in &files {
            assert!(*bytes == expected[name], "{name} is another");
        }
    }
}

/// The run blocks in writing that it stops, with a full pipe; the slots of the stopped shots take the
/// queued ones meanwhile.
#[test]
fn stop_is_reported_first_and_queued_shots_count_as_no_failed_attempt() {
    let folder = Workspace::with_survey(&endless_survey().replace("count = [6, 1]", "count = [6, 4]"));
    let (from, to) = pipe().unwrap();
    let mut command = folder.command(&["run", "survey.toml", "--json"]);
    let mut run = command.stdout(to.try_clone().unwrap()).stderr(Stdio::null()).spawn().unwrap();
    drop(command);
    let mut lines = BufReader::new(from).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().contains(r#""event":"survey""#));
    let count = |end: &str| folder.names().iter().filter(|name| name.ends_with(end)).count();
    // A shot keeps its first snapshot open, and opens one more to write it: three are of two shots.
    until(|| open_parts(&run) > 2);
    fill(&to);
    drop(to);
    signal(&run, libc::SIGTERM);
    until(|| count(".paused") == 2);
    sleep(Duration::from_millis(300));
    let mut events: Vec<Value> = lines.filter_map(|line| serde_json::from_str(&line).ok()).collect();
    assert_eq!(run.wait().unwrap().code(), Some(1));
    // The run may have reported its progress before the signal.
    events.retain(|event| event["event"] != "progress");
    assert_eq!(events[0]["event"], "stopping", "{events:?}");
    let end = events.last().unwrap();
    assert_eq!((&end["open"], &end["failed"]), (&24.into(), &0.into()), "{end}");
    assert_eq!(
        (of(&events, "paused").len(), &end["schedule"]["devices"][0]["attempts_failed"]),
        (2, &2.into()),
        "{end}"
    );
}

/// As with a stopped pager: the run blocks in a report of its progress before its time is over.
#[test]
fn time_limit_stops_a_run_whose_output_blocks() {
    let folder = Workspace::with_survey(&endless_survey());
    let (from, to) = pipe().unwrap();
    let mut command = folder.command(&["run", "survey.toml", "--json", "--stop-after", "15s"]);
    let mut run = command.stdout(to.try_clone().unwrap()).stderr(Stdio::null()).spawn().unwrap();
    drop(command);
    let mut lines = BufReader::new(from).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().contains(r#""event":"survey""#));
    fill(&to);
    drop(to);
    until(|| folder.names().iter().filter(|name| name.ends_with(".paused")).count() == 2);
    lines.for_each(drop);
    assert_eq!(run.wait().unwrap().code(), Some(1));
}

/// The numbers of complete shots arrive as fast as the run checks them.
#[test]
fn time_limit_stops_a_run_whose_lists_keep_arriving() {
    let folder = finished(&survey());
    let args = ["run", "survey.toml", "--json", "--resume", "--shots-from", "-", "--stop-after", "1s"];
    let mut command = folder.command(&args);
    let out = File::create(folder.at("events")).unwrap();
    let mut run = command.stdin(Stdio::piped()).stdout(out).spawn().unwrap();
    let mut to = run.stdin.take().unwrap();
    let sender = spawn(move || {
        while to.write_all(&b"1\n".repeat(1000)).is_ok() {
            sleep(Duration::from_millis(10))
        }
    });
    let begun = Instant::now();
    while run.try_wait().unwrap().is_none() && begun.elapsed() < Duration::from_secs(30) {
        sleep(Duration::from_millis(5));
    }
    let ended = run.try_wait().unwrap();
    run.kill().unwrap();
    run.wait().unwrap();
    sender.join().unwrap();
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
    assert_eq!(told(&folder).last().unwrap()["event"], "end");
}

/// The time limit is over before the first shot is submitted.
#[test]
fn run_that_is_to_stop_neither_begins_shots_nor_draws_kept_ones() {
    let folder = finished(&survey());
    let text = survey().replace("pictures = 0", "pictures = 6");
    fs::write(folder.at("survey.toml"), text).unwrap();
    fs::remove_file(folder.at("out/shot_0006.json")).unwrap();
    let ended = folder.gpusched(&["run", "survey.toml", "--json", "--resume", "--stop-after", "0s"]);
    let events = ended.events();
    assert_eq!(events.iter().filter(|event| event["event"] == "stopping").count(), 1, "{events:?}");
    let end = events.last().unwrap();
    assert_eq!((ended.status, &end["kept"], &end["open"]), (1, &5.into(), &1.into()), "{end}");
    assert_eq!(end["schedule"]["makespan_s"], 0.0, "a shot was submitted");
    let drawn = || folder.results().keys().filter(|name| name.ends_with(".png")).count();
    assert_eq!(drawn(), 0);
    run_well(&folder, RESUME);
    assert_eq!(drawn(), 12, "the next run draws them");
}

#[test]
fn saved_states_of_a_killed_run_are_reported_as_stopped() {
    let folder = Workspace::with_survey(&endless_survey());
    stopped_with(&folder, &["run", "survey.toml"], 2);
    let status = || folder.gpusched(&["status", "out"]).out;
    let stopped = "0 of 6 shots done, 2 stopped, 4 missing\nnot done: 1-6\n";
    assert_eq!(status(), stopped);
    let mut run = begin(&folder, &["run", "survey.toml", "--resume"]);
    until(|| folder.json("out/survey.json")["state"] == "running" || run.try_wait().unwrap().is_some());
    let running = status();
    run.kill().unwrap();
    run.wait().unwrap();
    assert_eq!(running, "0 of 6 shots done, 6 running or queued\nnot done: 1-6\n");
    assert_eq!(status(), stopped);
    fs::write(folder.at("out").join(&paused(&folder)[0]), "{}").unwrap();
    assert_eq!(status(), "0 of 6 shots done, 1 stopped, 5 missing\nnot done: 1-6\n");
}

/// The state of another model, or of other parameters.
#[test]
fn state_of_another_survey_is_not_touched() {
    let folder = Workspace::with_survey(&endless_survey());
    stopped_with(&folder, &["run", "survey.toml"], 2);
    fs::write(folder.at("survey.toml"), survey().replace("nt = 60", "nt = 20")).unwrap();
    let events = run_well(&folder, RESUME).events();
    assert!(of(&events, "done").iter().all(|shot| shot["steps_before"] == 0), "{events:?}");
    assert_eq!(warned(&events, "other parameters"), 2, "{events:?}");
    assert!(paused(&folder).is_empty(), "they have gone");
}

#[test]
fn saved_states_are_continued_on_a_device_of_their_kind() {
    let folder = Workspace::with_survey(&survey().replace("[6, 1]", "[2, 1]"));
    let run = |more: &[&str], faults: &str| {
        let mut command =
            folder.command(&[&["run", "survey.toml", "--json", "--no-rates-cache"], more].concat());
        attach(&mut command, "dev=mem:1G", &folder.at("leases")).env("FAKECUDA_FAULTS", faults);
        Ended::from(output(&mut command).unwrap())
    };
    let ended = run(&["--devices", "cuda:0", "--stop-after", "1s"], "0:launch:30:wait=3000");
    let events = ended.events();
    let steps = |of: &str, key: &str| -> BTreeMap<u64, u64> {
        let number = |event: &Value, key| event[key].as_u64().unwrap();
        let events = events.iter().filter(|event| event["event"] == "shot" && event["state"] == of);
        events.map(|event| (number(event, "shot"), number(event, key))).collect()
    };
    let saved = steps("paused", "steps_done");
    assert!(saved.len() == 2 && saved.values().all(|&steps| steps > 0), "{ended:?}");
    let both = "cpu,cuda:0";
    let rest = [saved[&1], saved[&2]];
    // Without the GPU, which fails at once in the second run, the shots start again on the CPU.
    for (devices, faults, expected) in
        [("cpu", "", [0, 0]), (both, "0:launch:1:700", [0, 0]), (both, "", rest)]
    {
        let states =
            [1, 2].map(|shot| (shot, fs::read(folder.at(format!("out/shot_000{shot}.paused"))).unwrap()));
        let ended = run(&["--devices", devices, "--resume"], faults);
        assert_eq!(ended.status, 0, "{ended:?}");
        let events = ended.events();
        let mut done = of(&events, "done");
        done.sort_by_key(|event| event["shot"].as_u64());
        let begun_at: Vec<_> = done.iter().map(|event| event["steps_before"].as_u64().unwrap()).collect();
        assert_eq!(begun_at, expected, "{devices}, {faults}: {ended:?}");
        for (shot, bytes) in states {
            fs::remove_file(folder.at(format!("out/shot_000{shot}.json"))).unwrap();
            fs::write(folder.at(format!("out/shot_000{shot}.paused")), bytes).unwrap();
        }
    }
}

/// Other parts may write the snapshots of other shots at the same time, so only the snapshots of
/// the state are removed.
#[test]
fn resumed_part_of_a_changed_survey_removes_stale_states_and_their_snapshots() {
    let changed = survey().replace("nt = 60", "nt = 20").replace("[snapshots]\nevery = 25\n", "");
    let part = ["run", "survey.toml", "--shots", "1-2"];
    for (resume, killed) in [(true, false), (false, false), (true, true), (false, true)] {
        let folder = Workspace::with_survey(&endless_survey());
        stopped_with(&folder, &part, 2);
        if killed {
            // The part ended while it wrote its states.
            paused(&folder).iter().for_each(|name| fs::remove_file(folder.at("out").join(name)).unwrap());
        }
        assert!(folder.at("out/shot_0001_step_000000.bin").exists(), "{:?}", folder.results().keys());
        fs::write(folder.at("survey.toml"), &changed).unwrap();
        let json: &[&str] = if resume { RESUME } else { &["--json"] };
        let ended = folder.gpusched(&[&part, json].concat());
        let events = ended.events();
        assert_eq!((ended.status, ended.shots("done")), (0, vec![1, 2]), "{ended:?}");
        if resume {
            let resumed = events.iter().find(|event| event["event"] == "resume").unwrap();
            assert_eq!(resumed["paused"], 0, "{resumed}");
            assert_eq!(warned(&events, "other parameters"), if killed { 0 } else { 2 }, "{events:?}");
        }
        let files = |folder: &Workspace| -> Vec<String> {
            folder.results().into_keys().filter(|name| name.starts_with("shot_")).collect()
        };
        let fresh = Workspace::with_survey(&changed);
        assert_eq!(fresh.gpusched(&part).status, 0);
        assert_eq!(files(&folder), files(&fresh), "resume: {resume}, killed: {killed}");
    }
}

/// A killed run leaves snapshots without a description, and a changed survey has none of their step.
#[test]
fn snapshots_of_other_steps_are_removed_unless_a_description_lists_them() {
    let folder = Workspace::with_survey(&survey().replace("nt = 60", "nt = 20"));
    let files = |folder: &Workspace| -> Vec<String> {
        folder.results().into_keys().filter(|name| name.starts_with("shot_")).collect()
    };
    run_well(&folder, &[]);
    let whole = files(&folder);
    let stray = |shot: u32| folder.at(format!("out/shot_000{shot}_step_000003.bin"));
    let write = || (1..=6).for_each(|shot| fs::write(stray(shot), "").unwrap());
    let there = || (1..=6).filter(|&shot| stray(shot).exists()).collect::<Vec<_>>();
    write();
    run_well(&folder, &["--resume", "--shots", "1,2"]);
    assert_eq!(there(), [3, 4, 5, 6]);
    run_well(&folder, &["--shots", "3"]);
    assert_eq!(there(), [4, 5, 6]);
    fs::write(folder.at("list"), "4").unwrap();
    let mut command = folder.command(&["run", "survey.toml", "--resume", "--shots-from", "-"]);
    let list = File::open(folder.at("list")).unwrap();
    assert!(command.stdin(list).output().unwrap().status.success());
    assert_eq!(there(), [5, 6]);
    run_well(&folder, &["--resume"]);
    assert_eq!(files(&folder), whole);
    // A complete shot of another survey keeps its snapshots until it is computed again.
    fs::write(
        folder.at("survey.toml"),
        survey().replace("nt = 60", "nt = 20").replace("every = 25", "every = 7"),
    )
    .unwrap();
    assert_eq!(folder.gpusched(&["run", "survey.toml", "--stop-after", "0s"]).status, 1);
    fs::write(folder.at("survey.toml"), survey().replace("nt = 60", "nt = 20")).unwrap();
    assert_eq!(run_well(&folder, &["--resume", "--json"]).shots("kept"), [1, 2, 3, 4, 5, 6]);
}

/// As on a full disk: the failure is reported, and costs the steps only.
#[test]
fn state_that_cannot_be_saved_is_reported() {
    let folder = Workspace::with_survey(&endless_survey());
    let in_its_place = folder.at("out/shot_0001.paused");
    fs::create_dir_all(in_its_place.join("something")).unwrap();
    let events = stopped_with(&folder, &["run", "survey.toml", "--resume"], 2);
    assert_eq!(warned(&events, "its state is lost: "), 1, "{events:?}");
    let warning = events.iter().find(|event| event["event"] == "warning" && event["shot"] == 1).unwrap();
    assert!(warning["warning"].as_str().unwrap().contains("shot_0001.paused: a folder"), "{warning}");
    assert!(of(&events, "failed").is_empty(), "{events:?}");
    assert!(!folder.names().iter().any(|name| name.ends_with(".part")), "{:?}", folder.names());

    // The failure does not fail the shot once the shot is written.
    fs::write(folder.at("survey.toml"), survey().replace("nt = 60", "nt = 20")).unwrap();
    let end = run_well(&folder, RESUME).events().pop().unwrap();
    assert!(end["done"] == 6 && end["schedule"]["retried"] == 0, "{end}");
}

/// Each thread is refused in turn: that of the signals, and workers.
#[test]
fn first_signal_leaves_time_to_a_run_without_a_thread() {
    for at in 2..5 {
        let folder = Workspace::with_survey(&endless_survey());
        let mut command = folder.command(&["run", "survey.toml"]);
        command.env("LD_PRELOAD", c::preload("no_thread", folder.path()));
        command.envs([("FAULT_AT", at.to_string()), ("FAULT_COUNT", "1".into())]);
        let mut run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until(|| folder.at("out/survey.json").exists());
        signal(&run, libc::SIGTERM);
        until(|| run.try_wait().unwrap().is_some());
        assert_eq!(run.wait().unwrap().code(), Some(1), "without thread {at}");
    }
}

/// The first signals alone never end the run: the states of its shots cannot be forced to disk.
#[test]
fn later_signal_ends_the_run_at_once() {
    for asks in [&[][..], &["--stop-after", "3s"]] {
        later_signal_ends(asks);
    }
}

/// `asks`: options by which the run stops by itself, before the first signal.
fn later_signal_ends(asks: &[&str]) {
    let folder = Workspace::with_survey(&endless_survey().replace("[snapshots]\nevery = 25\n", ""));
    let stuck = folder.at("stuck");
    let mut command = folder.command(&[&["run", "survey.toml", "--json", "--no-rates-cache"], asks].concat());
    command.env("LD_PRELOAD", c::preload("stuck_fsync", &folder.at(".")));
    command.env("FAULT_STUCK", &stuck);
    let mut run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    if asks.is_empty() {
        until(|| has_handlers(&run) || run.try_wait().unwrap().is_some());
        // As `timeout` does: to the process, and then to its group.
        signal(&run, libc::SIGTERM);
        // A signal would be lost while another is pending.
        until(|| signals(&run, "ShdPnd") == 0);
        signal(&run, libc::SIGTERM);
    }
    until(|| stuck.exists() || run.try_wait().unwrap().is_some());
    if !asks.is_empty() {
        signal(&run, libc::SIGTERM);
    }
    until(|| signals(&run, "ShdPnd") == 0);
    sleep(Duration::from_secs(2));
    assert!(run.try_wait().unwrap().is_none(), "the first signals leave it time");
    signal(&run, libc::SIGTERM);
    let begun = Instant::now();
    while run.try_wait().unwrap().is_none() && begun.elapsed() < LONG {
        sleep(Duration::from_millis(5));
    }
    let ended = run.try_wait().unwrap();
    run.kill().unwrap();
    run.wait().unwrap();
    assert_eq!(ended.and_then(|status| status.signal()), Some(libc::SIGTERM), "{ended:?}");
    stopped_with(&folder, &["run", "survey.toml", "--resume"], 2);
}
