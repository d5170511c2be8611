//! `run --shots`: several runs compute one survey into one folder; `status` and `collect` report
//! what is there.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write, pipe};
use std::os::unix::fs::symlink;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::c;
use testkit::command::{Ended, SURVEY, Workspace, brief, executable};
use testkit::process::{isolated, output};

use crate::{finished, flip_a_bit, running_elsewhere};

/// Longer than any run takes to come to a state on a busy machine.
const LONG: Duration = Duration::from_secs(120);

fn part(folder: &Workspace, list: &str) -> Ended {
    folder.gpusched(&["run", "survey.toml", "--json", "--shots", list])
}

fn begin(folder: &Workspace, args: &[&str]) -> Child {
    let mut command = folder.command(&[&["run", "survey.toml", "--quiet"], args].concat());
    command.stderr(Stdio::inherit()).spawn().unwrap()
}

/// The files of shots, without the reports of runs.
fn shots(folder: &Workspace) -> BTreeMap<String, Vec<u8>> {
    folder.results().into_iter().filter(|(name, _)| !name.starts_with("survey.")).collect()
}

fn reports(folder: &Workspace) -> usize {
    folder.results().keys().filter(|name| name.starts_with("survey.")).count()
}

#[test]
fn parts_at_the_same_time_give_the_survey_of_one_run() {
    let whole = finished(&brief());
    let folder = Workspace::with_survey(&brief());
    fs::write(folder.at("list"), "2\n4\n").unwrap();
    let mut parts = [["--array-index", "1/2"], ["--shots-from", "list"]].map(|args| begin(&folder, &args));
    assert!(parts.iter_mut().all(|part| part.wait().unwrap().success()));
    assert_eq!(reports(&folder), 2);
    let ended = folder.gpusched(&["status", "out"]);
    assert_eq!((ended.status, ended.out.as_str()), (0, "4 of 4 shots done\n"), "{ended:?}");
    let ended = folder.gpusched(&["collect", "out"]);
    assert_eq!((ended.status, ended.out.as_str()), (0, "4 of 4 shots done\n"), "{ended:?}");
    assert!(shots(&folder) == shots(&whole), "{:?}", folder.results().keys());
    assert_eq!(reports(&folder), 0);
    let (merged, of_one) = (folder.json("out/survey.json"), whole.json("out/survey.json"));
    assert_eq!((&merged["state"], merged["runs"].as_array().map(Vec::len)), (&"done".into(), Some(2)));
    // The parts of the report that differ between runs are in `runs`.
    let of_runs = [
        "devices",
        "node",
        "output_bytes",
        "process",
        "seconds",
        "shot_bytes",
        "shot_host_bytes",
        "slots",
        "warnings",
    ];
    for (key, value) in of_one.as_object().unwrap().iter().filter(|(key, _)| *key != "shots") {
        match of_runs.contains(&key.as_str()) {
            true => assert!(merged[key].is_null(), "{key} of one part: {merged}"),
            false if key == "folder" => {}
            false => assert_eq!(merged[key], *value, "{key}"),
        }
        let is_of_run = of_runs.contains(&key.as_str()) && key != "process";
        let runs = merged["runs"].as_array().unwrap();
        assert!(!is_of_run || runs.iter().all(|run| run.get(key).is_some()), "{key}: {merged}");
    }
    for (found, expected) in
        merged["shots"].as_array().unwrap().iter().zip(of_one["shots"].as_array().unwrap())
    {
        assert!(found["node"].is_string(), "{found}");
        for key in ["shot", "key", "source_m", "state", "files", "record", "description", "attempt"] {
            assert_eq!(found[key], expected[key], "{key} of {found}");
        }
    }
    // A second `collect` reads the merged report only.
    let ended = folder.gpusched(&["collect", "out", "--json"]);
    let event = &ended.events()[0];
    assert_eq!((ended.status, &event["done"], &event["not_done"]), (0, &4.into(), &"".into()), "{event}");
    assert_eq!(folder.json("out/survey.json")["runs"].as_array().map(Vec::len), Some(2));
    // A run of all shots takes over. It removes the reports of parts, and no other file.
    let notes = ["survey.notes.json", "survey.notes-2.json"].map(|name| folder.at("out").join(name));
    notes.iter().for_each(|note| fs::write(note, "mine").unwrap());
    assert_eq!(folder.gpusched(&["run", "survey.toml", "--resume", "--json"]).shots("kept"), [1, 2, 3, 4]);
    assert!(notes.iter().all(|note| note.exists()));
}

/// Their names are of the form of a report, with a node "2026-11" and a process 29.
#[test]
fn copies_of_a_report_are_neither_merged_nor_removed() {
    let folder = finished(&brief());
    let backup = folder.at("out/survey.2026-11-29.json");
    fs::copy(folder.at("out/survey.json"), &backup).unwrap();
    assert_eq!(part(&folder, "1").status, 0);
    let report = folder.names().into_iter().find(|name| {
        name.starts_with("out/survey.") && !name.ends_with("-29.json") && name != "out/survey.json"
    });
    let other = folder.at("out/survey.of-the-part-1.json");
    fs::copy(folder.at(report.unwrap()), &other).unwrap();
    fs::write(folder.at("survey.toml"), brief().replace("nt = 4", "nt = 5")).unwrap();
    assert_eq!(folder.gpusched(&["run", "survey.toml", "--resume"]).status, 0);
    for what in ["status", "collect"] {
        let ended = folder.gpusched(&[what, "out"]);
        assert_eq!((ended.status, ended.out.as_str()), (0, "4 of 4 shots done\n"), "{what}: {ended:?}");
    }
    assert!(backup.exists() && other.exists() && reports(&folder) == 2, "{:?}", folder.names());
}

/// As in containers that share a host name: the command is process 1 in each.
#[test]
fn part_keeps_the_report_of_another_process_of_its_number_and_host_name() {
    let folder = Workspace::with_survey(&brief());
    assert_eq!(part(&folder, "1-2").status, 0);
    let mut shell = isolated("sh");
    let same_process =
        r#"for report in out/survey.*; do mv $report ${report%-*}-$$.json; done; exec "$0" "$@""#;
    shell.args(["-c", same_process]).arg(executable()).args(["run", "survey.toml", "--shots", "3-4"]);
    let ended = Ended::from(output(shell.current_dir(folder.path())).unwrap());
    assert_eq!((ended.status, reports(&folder)), (0, 2), "{ended:?}");
    let ended = folder.gpusched(&["collect", "out"]);
    assert_eq!((ended.status, ended.out.as_str()), (0, "4 of 4 shots done\n"), "{ended:?}");
    assert_eq!(reports(&folder), 0);
}

/// A part that is killed right after it has created its report leaves an empty one.
#[test]
fn empty_report_of_a_part_is_ignored_and_removed() {
    let folder = Workspace::with_survey(&brief());
    assert_eq!(part(&folder, "1-4").status, 0);
    fs::write(folder.at("out/survey.node-1.json"), "").unwrap();
    assert_eq!(folder.gpusched(&["status", "out"]).out, "4 of 4 shots done\n");
    assert_eq!(folder.gpusched(&["collect", "out"]).status, 0);
    assert_eq!(reports(&folder), 0);
}

#[test]
fn resumed_part_computes_only_its_missing_shots() {
    let folder = finished(&brief());
    fs::remove_file(folder.at("out/shot_0002.json")).unwrap();
    fs::remove_file(folder.at("out/shot_0004.json")).unwrap();
    let ended = folder.gpusched(&["run", "survey.toml", "--json", "--resume", "--shots", "1-2"]);
    assert_eq!((ended.status, ended.shots("kept"), ended.shots("done")), (0, vec![1], vec![2]), "{ended:?}");
    let ended = folder.gpusched(&["status", "out"]);
    assert_eq!((ended.status, ended.out.as_str()), (1, "3 of 4 shots done, 1 missing\nnot done: 4\n"));
}

#[test]
fn missing_and_damaged_shots_are_listed() {
    let folder = Workspace::with_survey(&brief());
    assert_eq!(part(&folder, "1-3").status, 0);
    fs::remove_file(folder.at("out/shot_0002.json")).unwrap();
    flip_a_bit(&folder.at("out/shot_0003.bin"));
    let ended = folder.gpusched(&["status", "out"]);
    let lines = "2 of 4 shots done, 2 missing\nnot done: 2,4\n";
    assert_eq!((ended.status, ended.out.as_str()), (1, lines), "no record is read: {ended:?}");
    let ended = folder.gpusched(&["collect", "out", "--json"]);
    let event = &ended.events()[0];
    assert_eq!((ended.status, &event["done"], &event["missing"]), (1, &1.into(), &3.into()), "{event}");
    assert_eq!(event["not_done"], "2-4");
    assert_eq!(event["errors"][0]["shot"], 3);
    let why = event["errors"][0]["error"].as_str().unwrap();
    assert_eq!(why, "shot_0003.bin is damaged: its checksum differs");
    assert_eq!(folder.json("out/survey.json")["state"], "stopped");
    // `status` repeats the errors until another `collect` finds the file undamaged.
    let status = || folder.gpusched(&["status", "out", "--json"]).events().remove(0);
    assert_eq!(status(), *event);
    flip_a_bit(&folder.at("out/shot_0003.bin"));
    assert_eq!(status(), *event);
    let whole = &folder.gpusched(&["collect", "out", "--json"]).events()[0];
    assert_eq!((&whole["done"], &whole["errors"]), (&2.into(), &Value::Array(Vec::new())), "{whole}");
    assert_eq!(status(), *whole);
    flip_a_bit(&folder.at("out/shot_0003.bin"));
    // `run --shots` accepts the list.
    let list = event["not_done"].as_str().unwrap();
    assert_eq!(part(&folder, list).shots("done"), [2, 3, 4]);
    assert_eq!(folder.gpusched(&["collect", "out"]).status, 0);
}

#[test]
fn killed_part_leaves_its_finished_shots_to_collect() {
    let endless = brief().replace("nt = 4", "nt = 200000").replace("every = 3", "every = 100000");
    let folder = Workspace::with_survey(&endless);
    let mut run = begin(&folder, &["--shots", "2,3"]);
    let began = Instant::now();
    // A report is empty until it is written. The run removes other files meanwhile.
    let is_report = |name: &String| {
        name.starts_with("out/survey.") && fs::metadata(folder.at(name)).is_ok_and(|file| file.len() > 0)
    };
    while !folder.names().iter().any(is_report) {
        assert!(began.elapsed() < LONG, "no report of a part");
        sleep(Duration::from_millis(5));
    }
    let ended = folder.gpusched(&["status", "out"]);
    let lines = "0 of 4 shots done, 2 running or queued, 2 missing\nnot done: 1-4\n";
    assert_eq!((ended.status, ended.out.as_str()), (1, lines), "{ended:?}");
    // The running part holds the lock: a run of all shots is refused, another part is not.
    let refused = folder.gpusched(&["run", "survey.toml"]);
    assert_eq!(refused.status, 2, "{refused:?}");
    assert!(refused.err.contains("another run writes to it"), "{refused:?}");
    let more = folder.gpusched(&["run", "survey.toml", "--shots", "1", "--stop-after", "1ms"]);
    assert_eq!(more.status, 1, "{more:?}");
    // The merged report lists the running shots as queued.
    let ended = folder.gpusched(&["collect", "out"]);
    let lines = "0 of 4 shots done, 2 running or queued, 2 missing\nnot done: 1-4\n";
    assert_eq!((ended.status, ended.out.as_str()), (1, lines), "{ended:?}");
    assert_eq!(folder.json("out/survey.json")["state"], "running");
    run.kill().unwrap();
    run.wait().unwrap();
    let ended = folder.gpusched(&["status", "out"]);
    let lines = "0 of 4 shots done, 4 missing\nnot done: 1-4\n";
    assert_eq!((ended.status, ended.out.as_str()), (1, lines), "{ended:?}");
    let ended = folder.gpusched(&["collect", "out", "--json"]);
    let event = &ended.events()[0];
    assert_eq!((ended.status, &event["queued"]), (1, &0.into()), "{event}");
    assert_eq!(reports(&folder), 0);
    let runs = folder.json("out/survey.json")["runs"].clone();
    assert!(runs.as_array().unwrap().iter().any(|run| run["state"] == "killed"), "{runs}");
}

/// `collect` and a dry run hold the lock for a moment.
#[test]
fn part_waits_for_a_lock_that_no_run_holds() {
    let folder = finished(&brief());
    let held = File::open(folder.at("out")).unwrap();
    held.lock().unwrap();
    let mut run = begin(&folder, &["--shots", "1"]);
    sleep(Duration::from_secs(2));
    assert!(run.try_wait().unwrap().is_none(), "the part does not wait");
    held.unlock().unwrap();
    assert!(run.wait().unwrap().success());
}

#[test]
fn part_is_refused_while_a_run_of_all_shots_writes() {
    let folder = finished(&brief());
    running_elsewhere(&folder);
    let held = File::open(folder.at("out")).unwrap();
    held.lock().unwrap();
    let ended = part(&folder, "1");
    assert_eq!(ended.status, 2, "{ended:?}");
    assert!(ended.err.contains("another run writes to it"), "{ended:?}");
}

#[test]
fn lists_that_are_not_of_the_survey_are_refused_before_anything_is_written() {
    let folder = Workspace::with_survey(&brief());
    fs::write(folder.at("list"), "1 two").unwrap();
    for (args, words) in [
        (&["--shots", "0"][..], ["--shots is 0", "1 to 4"]),
        (&["--shots", "3-5"], ["--shots is 3-5", "1 to 4"]),
        (&["--shots", "1,x"], ["\"x\"", "such as 5,8-20"]),
        (&["--shots", ""], ["\"\"", "such as 5,8-20"]),
        (&["--shots-from", "list"], ["--shots-from list", "\"two\""]),
        (&["--shots-from", "none"], ["none", "No such file"]),
        (&["--shots-from", "list", "--shots", "1"], ["--shots-from", "cannot be used with"]),
    ] {
        let ended = folder.gpusched(&[&["run", "survey.toml"], args].concat());
        assert_eq!(ended.status, 2, "{args:?}: {ended:?}");
        assert!(words.iter().all(|word| ended.err.contains(word)), "{words:?}: {ended:?}");
        assert!(!folder.at("out").exists());
    }
}

#[test]
fn list_of_shots_may_be_a_link_or_a_pipe() {
    let folder = Workspace::with_survey(&brief());
    fs::write(folder.at("list"), "2 4").unwrap();
    symlink("list", folder.at("link")).unwrap();
    let (from, mut to) = pipe().unwrap();
    to.write_all(b"1\n3\n").unwrap();
    drop(to);
    for (path, stdin) in [("link", Stdio::null()), ("/dev/stdin", Stdio::from(from))] {
        let mut command = folder.command(&["run", "survey.toml", "--shots-from", path]);
        let ended = command.stdin(stdin).output().unwrap();
        assert_eq!(ended.status.code(), Some(0), "{path}: {ended:?}");
    }
    assert_eq!(folder.gpusched(&["status", "out"]).out, "4 of 4 shots done\n");
}

#[test]
fn folders_without_one_survey_are_refused() {
    let folder = finished(&brief());
    for (what, words) in [("status", "no run has written survey.json"), ("collect", "No such file")] {
        fs::create_dir_all(folder.at("empty")).unwrap();
        let place = if what == "status" { "empty" } else { "absent" };
        let ended = folder.gpusched(&[what, place]);
        assert_eq!(ended.status, 2, "{ended:?}");
        assert!(ended.err.contains(words), "{ended:?}");
    }
    fs::write(folder.at("survey.toml"), brief().replace("nt = 4", "nt = 5")).unwrap();
    assert_eq!(part(&folder, "2").status, 0);
    let ended = folder.gpusched(&["collect", "out"]);
    assert_eq!(ended.status, 2, "{ended:?}");
    assert!(ended.err.contains("of another survey than"), "{ended:?}");
    assert!(reports(&folder) == 1 && folder.json("out/survey.json")["state"] == "done");
    for damaged in ["{}", r#"{"key":"k","number_of_shots":9000000000000000000,"shots":[]}"#] {
        fs::write(folder.at("out/survey.json"), damaged).unwrap();
        let ended = folder.gpusched(&["status", "out"]);
        assert!(ended.status == 2 && ended.err.contains("survey.json: it is damaged"), "{ended:?}");
    }
}

#[test]
fn part_begins_while_files_are_checked() {
    let folder = Workspace::with_survey(&brief());
    assert_eq!(part(&folder, "1-2").status, 0);
    let record = File::options().write(true).open(folder.at("out/shot_0001.bin")).unwrap();
    record.set_len(4 << 30).unwrap();
    let mut reads = folder.command(&["collect", "out"]).spawn().unwrap();
    let progress = format!("/proc/{}/io", reads.id());
    // It has read some megabytes.
    let far = || fs::read_to_string(&progress).is_ok_and(|text| text.lines().next().unwrap().len() > 15);
    while reads.try_wait().unwrap().is_none() && !far() {
        sleep(Duration::from_millis(5));
    }
    assert_eq!(part(&folder, "3").status, 0, "a part does not begin");
    reads.kill().unwrap();
    reads.wait().unwrap();
}

/// A part may write a shot after the others were read and before the folder is locked.
#[test]
fn late_shot_is_read_without_the_lock() {
    let folder = Workspace::with_survey(&brief());
    assert_eq!(part(&folder, "1-4").status, 0);
    fs::rename(folder.at("out/shot_0003.json"), folder.at("late")).unwrap();
    let mut command = folder.command(&["collect", "out"]);
    command.env("LD_PRELOAD", c::preload("opens", &c::scratch("collect"))).env("FAULT_COUNT", "0");
    command.env("FAULT_PATH", ".bin").env("FAULT_MARK", folder.at("mark"));
    command.env("FAULT_FROM", "late").env("FAULT_TO", "out/shot_0003.json");
    let ended = Ended::from(output(&mut command).unwrap());
    assert_eq!((ended.status, ended.out.as_str()), (0, "4 of 4 shots done\n"), "{ended:?}");
    let calls = fs::read_to_string(folder.at("mark")).unwrap();
    let (mut is_locked, mut opened) = (false, Vec::new());
    for call in calls.lines() {
        match call.strip_prefix("open ") {
            Some(path) => {
                assert!(!is_locked, "{calls}");
                opened.push(path);
            }
            None => is_locked = call == "lock",
        }
    }
    // Each record and its two snapshots once.
    assert!(is_locked && opened.len() == 4 * 3, "{calls}");
}

#[test]
fn reports_are_merged_once_while_something_runs() {
    let folder = Workspace::with_survey(&brief());
    assert_eq!((part(&folder, "1-2").status, part(&folder, "3-4").status), (0, 0));
    let held = File::open(folder.at("out")).unwrap();
    held.lock_shared().unwrap();
    for _ in 0..2 {
        assert_eq!(folder.gpusched(&["collect", "out"]).status, 0);
        assert_eq!(folder.json("out/survey.json")["runs"].as_array().map(Vec::len), Some(2));
    }
    // The report of a run of all shots is its own.
    held.unlock().unwrap();
    held.lock().unwrap();
    fs::write(folder.at("out/survey.json"), r#"{"key":"k","number_of_shots":4,"shots":[]}"#).unwrap();
    (2..=3).for_each(|_| _ = folder.gpusched(&["collect", "out"]));
    assert_eq!(folder.json("out/survey.json")["key"], "k");
}

#[test]
fn shots_begin_as_their_numbers_arrive_on_standard_input() {
    let whole = finished(&brief());
    let folder = Workspace::with_survey(&brief());
    let mut command = folder.command(&["run", "survey.toml", "--json", "--shots-from", "-"]);
    let mut run = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut to, from) = (run.stdin.take().unwrap(), run.stdout.take().unwrap());
    let mut events =
        BufReader::new(from).lines().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let mut next = |kind: &str| events.find(|event| event["event"] == kind).unwrap();
    assert_eq!(next("survey")["survey"]["shots"], 4);
    for (line, ended) in [("3", 1), ("", 0), ("1,2 4", 3), ("3", 1)] {
        writeln!(to, "{line}").unwrap();
        for _ in 0..ended {
            let shot = next("shot");
            assert_eq!(shot["state"], "done", "{shot}");
            assert!(line.contains(&shot["shot"].to_string()), "{shot} after {line}");
        }
    }
    // A failed shot is computed again if its number arrives again.
    let [record, side] = ["out/shot_0003.bin", "out/shot_0003.json"].map(|name| folder.at(name));
    for (line, state) in [("3", "failed"), ("3", "failed"), ("3", "done")] {
        if state == "failed" {
            let _ = fs::remove_file(&side).and_then(|()| fs::remove_file(&record));
            fs::create_dir_all(&record).unwrap();
        } else {
            fs::remove_dir(&record).unwrap();
        }
        writeln!(to, "{line}").unwrap();
        assert_eq!(next("shot")["state"], state);
    }
    for (line, words) in [(&b"5"[..], "1 to 4"), (b"one", "such as 5,8-20"), (b"\xff", "such as 5,8-20")] {
        to.write_all(&[line, b"\n"].concat()).unwrap();
        let refused = next("error");
        assert!(refused["error"].as_str().unwrap().contains(words), "{refused}");
    }
    drop(to);
    let end = next("end");
    assert_eq!((&end["done"], &end["failed"], &end["open"]), (&4.into(), &0.into(), &0.into()), "{end}");
    assert_eq!(run.wait().unwrap().code(), Some(1), "lists were refused");
    assert!(shots(&folder) == shots(&whole));
    fs::write(folder.at("list"), "1-4").unwrap();
    let mut again = folder.command(&["run", "survey.toml", "--json", "--resume", "--shots-from", "-"]);
    let ended = Ended::from(again.stdin(File::open(folder.at("list")).unwrap()).output().unwrap());
    assert_eq!((ended.status, ended.shots("kept")), (0, vec![1, 2, 3, 4]), "{ended:?}");
}

/// As from a client that sends failed shots again. A progress event is due after ten seconds.
#[test]
fn shot_that_arrives_again_counts_once_in_the_progress() {
    let folder = Workspace::with_survey(&brief());
    let mut command = folder.command(&["run", "survey.toml", "--json", "--shots-from", "-"]);
    let mut run = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut to, from) = (run.stdin.take().unwrap(), run.stdout.take().unwrap());
    let mut events =
        BufReader::new(from).lines().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let mut next = |kind: &str| events.find(|event| event["event"] == kind).unwrap();
    next("survey");
    fs::create_dir_all(folder.at("out/shot_0003.bin")).unwrap();
    for (line, state) in [("1", "done"), ("1", "done"), ("3", "failed"), ("3", "failed")] {
        writeln!(to, "{line}").unwrap();
        assert_eq!(next("shot")["state"], state);
    }
    let progress = next("progress");
    let counts = ["shots", "shots_ended", "shots_done", "shots_failed"].map(|key| progress[key].as_u64());
    assert_eq!(counts, [Some(2), Some(2), Some(1), Some(1)], "{progress}");
    drop(to);
    assert_eq!(run.wait().unwrap().code(), Some(1));
}

#[test]
fn pictures_of_kept_shots_that_arrive_are_drawn_again() {
    let folder = finished(SURVEY);
    let pictures = ["gather", "snapshot"].map(|what| folder.at(format!("out/shot_0001_{what}.png")));
    let drawn = pictures.each_ref().map(|path| fs::read(path).unwrap());
    pictures.iter().for_each(|path| fs::remove_file(path).unwrap());
    fs::write(folder.at("list"), "1,2").unwrap();
    let mut command = folder.command(&["run", "survey.toml", "--json", "--resume", "--shots-from", "-"]);
    let ended = Ended::from(command.stdin(File::open(folder.at("list")).unwrap()).output().unwrap());
    assert_eq!((ended.status, ended.shots("kept")), (0, vec![1, 2]), "{ended:?}");
    assert!(pictures.map(|path| fs::read(path).unwrap_or_default()) == drawn, "{ended:?}");
}
