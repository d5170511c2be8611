//! A run that is asked to stop leaves the state of its shots, and the next goes on from there: the files are those of a
//! run in one go, bit for bit.

use std::fs::{self, File};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::scratch::{Ended, Folder, SURVEY};

const RESUME: &[&str] = &["run", "survey.toml", "--json", "--resume"];

/// Three shots of a second or so each, two at a time.
fn survey() -> String {
    SURVEY
        .replace("n = [24, 8, 16]", "n = [30, 20, 20]")
        .replace("nt = 60", "nt = 700")
        .replace("[snapshots]\nevery = 30\n", "[snapshots]\nevery = 200\n")
        .replace("count = [4, 1]", "count = [3, 1]")
        .replace("pictures = 2", "pictures = 2\n[run]\nslots = 2")
}

fn begin(folder: &Folder, args: &[&str]) -> Child {
    let out = File::create(folder.at("events")).unwrap();
    folder.command(args).stdout(out).stderr(Stdio::null()).spawn().unwrap()
}

fn told(folder: &Folder) -> Vec<Value> {
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

fn paused(folder: &Folder) -> Vec<String> {
    folder.results().into_keys().filter(|name| name.ends_with(".paused")).collect()
}

#[test]
fn a_run_that_is_told_to_stop_goes_on_from_there() {
    let whole = Folder::with_survey(&survey());
    let begun = Instant::now();
    assert_eq!(whole.gpusched(&["run", "survey.toml"]).status, 0);
    let took = begun.elapsed();
    let expected = whole.results();
    for (number, stop) in [libc::SIGTERM, libc::SIGINT].into_iter().enumerate() {
        let folder = Folder::with_survey(&survey());
        let mut run = begin(&folder, &["run", "survey.toml", "--json"]);
        sleep(took.mul_f64(0.4));
        signal(&run, stop);
        let status = run.wait().unwrap();
        assert_eq!(status.code(), Some(1), "not every shot is written, {:?}", told(&folder));
        let events = told(&folder);
        let left = of(&events, "paused");
        assert!(!left.is_empty() && left.len() <= 2, "{events:?}");
        assert_eq!(left.len(), paused(&folder).len());
        let end = events.last().unwrap();
        let (done, open) = (end["done"].as_u64().unwrap(), end["open"].as_u64().unwrap());
        assert!(end["failed"] == 0 && done + open == 3 && open > 0, "{end}");
        let manifest = folder.json("out/survey.json");
        assert_eq!(manifest["state"], "stopped");

        // One whose state was harmed begins anew.
        let harmed = number == 1;
        if harmed {
            let path = folder.at("out").join(&paused(&folder)[0]);
            let mut bytes = fs::read(&path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 4;
            fs::write(&path, bytes).unwrap();
        }
        let ended = folder.gpusched(RESUME);
        assert_eq!(ended.status, 0, "{ended:?}");
        let events = ended.events();
        let went_on: Vec<u64> = of(&events, "done")
            .iter()
            .filter_map(|shot| shot["steps_before"].as_u64())
            .filter(|&s| s > 0)
            .collect();
        assert_eq!(went_on.len(), left.len() - usize::from(harmed), "{events:?}");
        let resumed = events.iter().find(|event| event["event"] == "resume").unwrap();
        assert_eq!(resumed["paused"], left.len(), "{resumed}");
        for shot in &left {
            let steps = shot["steps_done"].as_u64().unwrap();
            assert!(harmed || went_on.contains(&steps), "{shot}: {went_on:?}");
        }
        let warned =
            events.iter().any(|event| event["warning"].as_str().is_some_and(|w| w.contains("checksum")));
        assert_eq!(warned, harmed, "{events:?}");
        let files = folder.results();
        assert!(files.keys().eq(expected.keys()), "{:?}, {:?}", files.keys(), expected.keys());
        for (name, bytes) in &files {
            assert!(*bytes == expected[name], "{name} is another");
        }
    }
}

#[test]
fn a_limit_of_time_stops_a_run_as_a_signal_does() {
    let folder = Folder::with_survey(&survey().replace("nt = 700", "nt = 200000"));
    let begun = Instant::now();
    let ended = folder.gpusched(&["run", "survey.toml", "--json", "--stop-after", "1s"]);
    assert_eq!(ended.status, 1, "{ended:?}");
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert_eq!(of(&ended.events(), "paused").len(), 2, "{ended:?}");
    assert_eq!(paused(&folder).len(), 2);
    // What stands there is of no use without the option, and goes.
    let ended = folder.gpusched(&["run", "survey.toml", "--json", "--stop-after", "1s"]);
    assert_eq!(of(&ended.events(), "paused").len(), 2, "{ended:?}");
    let refused = folder.gpusched(&["run", "survey.toml", "--stop-after", "soon"]);
    assert!(refused.status == 2 && refused.err.contains("2h30m"), "{refused:?}");
}

/// The state of another model, or of other parameters.
#[test]
fn a_state_of_something_else_is_left_alone() {
    let folder = Folder::with_survey(&survey().replace("nt = 700", "nt = 200000"));
    assert_eq!(folder.gpusched(&["run", "survey.toml", "--stop-after", "1s"]).status, 1);
    fs::write(folder.at("survey.toml"), survey().replace("nt = 700", "nt = 200")).unwrap();
    let ended: Ended = folder.gpusched(RESUME);
    assert_eq!(ended.status, 0, "{ended:?}");
    let events = ended.events();
    assert!(of(&events, "done").iter().all(|shot| shot["steps_before"] == 0), "{events:?}");
    let warned =
        events.iter().filter(|e| e["warning"].as_str().is_some_and(|w| w.contains("other parameters")));
    assert_eq!(warned.count(), 2, "{events:?}");
    assert!(paused(&folder).is_empty(), "they have gone");
}

/// As on a disk that is full by then: it is told, and costs no more than the steps.
#[test]
fn a_state_that_can_not_be_left_is_told() {
    let folder = Folder::with_survey(&survey().replace("nt = 700", "nt = 200000"));
    let in_its_place = folder.at("out/shot_0001.paused");
    fs::create_dir_all(in_its_place.join("something")).unwrap();
    let ended = folder.gpusched(&[RESUME, &["--stop-after", "1s"]].concat());
    assert_eq!(ended.status, 1, "{ended:?}");
    let events = ended.events();
    let told = |event: &&Value| {
        event["event"] == "warning" && event["warning"].as_str().unwrap().starts_with("its state is lost: ")
    };
    let told: Vec<_> = events.iter().filter(told).collect();
    assert!(told.len() == 1 && told[0]["shot"] == 1, "{events:?}");
    assert!(told[0]["warning"].as_str().unwrap().contains("shot_0001.paused: a folder"), "{told:?}");
    assert_eq!(of(&events, "paused").len(), 1, "the other shot's is there: {events:?}");
    assert!(of(&events, "failed").is_empty(), "{events:?}");
    let left = fs::read_dir(folder.at("out")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!left.into_iter().any(|name| name.to_string_lossy().ends_with(".part")));

    // Nor does it fail the shot once that is written.
    fs::write(folder.at("survey.toml"), survey().replace("nt = 700", "nt = 20")).unwrap();
    let ended = folder.gpusched(RESUME);
    assert_eq!(ended.status, 0, "{ended:?}");
    let end = ended.events().pop().unwrap();
    assert!(end["done"] == 3 && end["schedule"]["retried"] == 0, "{end}");
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let folder = Folder::with_survey(&survey().replace("nt = 700", "nt = 200000"));
    let mut run = begin(&folder, &["run", "survey.toml", "--json"]);
    sleep(Duration::from_millis(700));
    signal(&run, libc::SIGTERM);
    signal(&run, libc::SIGTERM);
    sleep(Duration::from_millis(5));
    signal(&run, libc::SIGTERM);
    run.wait().unwrap();
    let ended = folder.gpusched(&["run", "survey.toml", "--resume", "--stop-after", "1s"]);
    assert_eq!(ended.status, 1, "the folder is free again: {ended:?}");
}
