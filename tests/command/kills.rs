//! kill -9 at random moments, and a resume after each: nothing is lost but the shots that ran, and the files
//! are those of an undisturbed run, bit for bit.
//!
//! `GPUSCHED_TEST_KILLS=200` asks for so many kills, `GPUSCHED_TEST_KILLS=200,7` for those of another seed.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use testkit::Random;
use testkit::command::{SURVEY, Workspace};

const SLOTS: usize = 2;
const RESUME: &[&str] = &["run", "survey.toml", "--json", "--resume"];

/// Numbers of shots.
type Shots = BTreeSet<u64>;

/// As far as a run came to tell: a line may be cut.
fn events(folder: &Workspace) -> Vec<Value> {
    let text = fs::read_to_string(folder.at("events")).unwrap();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn shots(events: &[Value], state: &str) -> Shots {
    let told = events.iter().filter(|event| event["event"] == "shot" && event["state"] == state);
    told.map(|event| event["shot"].as_u64().unwrap()).collect()
}

/// Shots of which there is any file.
fn begun(folder: &Workspace) -> Shots {
    let names = folder.results().into_keys();
    names.filter_map(|name| name.strip_prefix("shot_")?.get(..4)?.parse().ok()).collect()
}

/// Runs, and kills what runs after that time. `true`: it had not come to its end.
fn killed(folder: &Workspace, after: Duration) -> bool {
    let out = File::create(folder.at("events")).unwrap();
    let mut run = folder.command(RESUME).stdout(out).stderr(Stdio::null()).spawn().unwrap();
    sleep(after);
    run.kill().unwrap();
    !run.wait().unwrap().success()
}

#[test]
fn kills_at_random_moments_cost_a_shot_a_slot_and_no_bit() {
    let wanted = std::env::var("GPUSCHED_TEST_KILLS").unwrap_or_else(|_| "12".into());
    let mut wanted = wanted.split(',').map(|number| number.parse().expect("COUNT or COUNT,SEED"));
    let (count, seed): (u64, u64) = (wanted.next().unwrap(), wanted.next().unwrap_or(1));
    let survey = SURVEY
        .replace("[4, 1]", "[4, 2]")
        .replace("pictures = 2", &format!("pictures = 1\n[run]\nslots = {SLOTS}"));
    let undisturbed = Workspace::with_survey(&survey);
    let begin = Instant::now();
    assert_eq!(undisturbed.gpusched(&["run", "survey.toml"]).status, 0);
    let took = begin.elapsed();
    let expected = undisturbed.results();

    let mut random = Random::new(seed);
    let (mut kills, mut recomputed, mut runs) = (0, 0, 0);
    let mut folder = Workspace::with_survey(&survey);
    let mut done = Shots::new();
    while kills < count {
        runs += 1;
        assert!(runs < 20 * (count + 1), "{kills} kills in {runs} runs");
        let was_killed = killed(&folder, took.mul_f64(random.unit()));
        kills += u64::from(was_killed);
        done.extend(shots(&events(&folder), "done"));
        let begun = begun(&folder);
        // Half of the resumed runs are killed again.
        if was_killed && random.below(2) == 0 && kills < count {
            continue;
        }
        let ended = folder.gpusched(RESUME);
        assert_eq!(ended.status, 0, "{ended:?}");
        let kept = Shots::from_iter(ended.shots("kept"));
        assert!(done.is_subset(&kept), "told to be done: {done:?}, kept: {kept:?}");
        let again: Vec<_> = begun.difference(&kept).collect();
        assert!(again.len() <= SLOTS, "begun: {begun:?}, kept: {kept:?}");
        recomputed += again.len();
        let files = folder.results();
        assert!(files.keys().eq(expected.keys()), "{:?}", files.keys());
        for (name, bytes) in &files {
            assert!(*bytes == expected[name], "{name} is another after {kills} kills");
        }
        let manifest = folder.json("out/survey.json");
        assert_eq!(manifest["state"], "done");
        assert!(manifest["shots"].as_array().unwrap().iter().all(|shot| shot["state"] == "done"));
        folder = Workspace::with_survey(&survey);
        done.clear();
    }
    println!(
        "{kills} kills in {runs} runs, seed {seed}: {recomputed} shots computed again, all files the same"
    );
}
