//! GPUs that compute wrong results and report nothing.

use std::process::Command;

use gpusched::Error;
use gpusched::device::Health;
use gpusched::fd::{check, survey::Receivers};
use serde_json::Value;

use crate::fixtures::*;
use testkit::Random;
use testkit::command::{Ended, Workspace, brief};
use testkit::process::output;
use testmodels::bits::{fused_or_skip, same};
use testmodels::shots::{World, fire_all};

/// The shots end well on the other GPU. The second wrong result retires the bad one, which may get no second shot of
/// four while the machine is busy.
pub fn a_gpu_whose_results_go_wrong_is_retired() {
    let scheduler = scheduler("cuda", 1).unwrap();
    let mut random = Random::new(41);
    let receivers = Receivers::Plane { iz: 2, every: [1, 1] };
    let worlds = [(); 4].map(|()| World::rough([4, 5, 6], 30, receivers.clone(), &mut random));
    for round in 1..=20 {
        let survey = worlds.iter().map(|world| (world.plan(), world.shot.clone())).collect();
        let found = fire_all(&scheduler, &survey);
        if fused_or_skip() {
            for (found, world) in found.iter().zip(&worlds) {
                same(found, &world.fire(), "a shot that was tried again");
            }
        }
        let devices = scheduler.stats().unwrap().devices;
        assert_eq!((devices[0].done, devices[1].done), (0, 4 * round), "{devices:?}");
        assert_eq!(devices[1].device.health, Health::Good);
        let Some(why) = &devices[0].retired else { continue };
        assert!(why.starts_with("it computed wrong results for task"), "{why}");
        // It may have begun more before two had ended elsewhere.
        assert!(devices[0].failed >= 2, "{devices:?}");
        return;
    }
    panic!("the bad GPU computed 80 shots and is not retired");
}

/// The only GPU computes wrong results at each attempt.
pub fn error_says_where_a_result_went_wrong() {
    let scheduler = scheduler("cuda", 1).unwrap();
    let world = World::rough([9, 8, 7], 100, Receivers::List(vec![[0; 3]]), &mut Random::new(42));
    let error = world.fire_on(&scheduler).err().expect("a field that is not finite");
    assert!(error.is_suspect(), "{error}");
    // The next batch is in flight when the check finds it.
    let places = ["after step 64 (zero at the start)", "after step 80 in ", " cells around "];
    let values = ["not a finite number", "vp is ", "rho ", "the CFL number ", "that are stable"];
    for words in places.into_iter().chain(values) {
        assert!(error.to_string().contains(words), "{error}");
    }
    let devices = scheduler.stats().unwrap().devices;
    let health = devices[0].device.health;
    assert_eq!((health, devices[0].failed), (Health::Good, 2), "a shot that fails twice is no fault");
}

pub fn a_check_finds_a_wrong_gpu_first() {
    let scheduler = scheduler("cpu,cuda", 1).unwrap();
    let found = check::devices(&scheduler).unwrap();
    let passed: Vec<_> = found.iter().map(Result::is_ok).collect();
    let labels: Vec<_> = scheduler.devices().iter().map(|device| device.label()).collect();
    for (label, (passed, found)) in labels.iter().zip(passed.iter().zip(&found)) {
        assert_eq!(*passed, ["cpu:0", "cuda:1"].contains(&label.as_str()), "{label}: {found:?}");
        let suspect = found.as_ref().err().is_none_or(Error::is_suspect);
        assert!(suspect, "{label}: {found:?}");
        let error = found.as_ref().err().map(ToString::to_string).unwrap_or_default();
        assert!(*passed || error.contains("the check shot "), "{error}");
        assert!(!error.contains("CFL"), "no advice for a model that is not the caller's: {error}");
    }
}

/// One wrong result retires no GPU.
pub fn gpu_that_passes_its_second_check_is_used() {
    let scheduler = scheduler("cuda", 1).unwrap();
    assert_eq!(check::devices(&scheduler).unwrap(), [Ok(())]);
    let stats = scheduler.stats().unwrap();
    assert_eq!(
        (stats.counts.retried, stats.devices[0].failed, stats.devices[0].device.health),
        (1, 1, Health::Good)
    );
}

fn command(folder: &Workspace, words: &[&str]) -> Command {
    let mut command = folder.command(words);
    command.envs(std::env::vars().filter(|(name, _)| name.starts_with("FAKECUDA")));
    command
}

fn check_devices(folder: &Workspace, options: &[&str]) -> Ended {
    let words = [&["run", "survey.toml", "--check-devices", "--devices", "cuda"], options].concat();
    Ended::from(output(&mut command(folder, &words)).expect("the command runs"))
}

/// Each fault flips other bits. Some make a shot unstable, some change no sample.
pub fn benchmark_fails_if_a_repetition_has_another_record() {
    let folder = Workspace::new();
    let words = "bench fd --device cuda:0 --n 8 8 8 --pml 8 --nt 3 --repeats 2";
    let words: Vec<_> = words.split(' ').collect();
    let ended = |faults: &str| {
        let mut command = command(&folder, &words);
        Ended::from(output(command.env("FAKECUDA_FAULTS", faults)).expect("the command runs"))
    };
    assert_eq!(ended("").status, 0);
    let ends: Vec<_> = (1..=8).map(|seed| ended(&format!("0:launch:*:flip={seed}"))).collect();
    let named = |ended: &&Ended| {
        let words = ["device cuda:0 computed a wrong result: sample ", ", in the first round "];
        words.iter().all(|words| ended.err.contains(words))
    };
    let found: Vec<_> = ends.iter().filter(named).collect();
    assert!(found.len() >= 2 && found.iter().all(|ended| ended.status == 2), "{ends:?}");
}

pub fn survey_leaves_out_a_wrong_gpu() {
    let folder = Workspace::with_survey(&brief());
    let ended = check_devices(&folder, &["--json"]);
    assert_eq!(ended.status, 0, "{ended:?}");
    let lines: Vec<&str> = ended.out.lines().collect();
    let events: Vec<serde_json::Value> =
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| events.iter().filter(|event| event["event"] == kind).collect::<Vec<_>>();
    let checks = of("check");
    assert_eq!(checks.len(), 2, "{ended:?}");
    assert_eq!((&checks[0]["device"], &checks[0]["passed"]), (&"cuda:0".into(), &false.into()), "{ended:?}");
    assert_eq!((&checks[1]["device"], &checks[1]["passed"]), (&"cuda:1".into(), &true.into()), "{ended:?}");
    assert!(checks[0]["error"].is_string() && checks[1]["error"].is_null());
    let shots = of("shot");
    assert_eq!(shots.len(), 4);
    assert!(shots.iter().all(|shot| shot["state"] == "done" && shot["device"] == "cuda:1"), "{ended:?}");
}

/// The first GPU is used exclusively by another process.
pub fn busy_gpu_is_not_checked_and_stays_in_the_survey() {
    let folder = Workspace::with_survey(&brief());
    let ended = check_devices(&folder, &["--json"]);
    assert_eq!((ended.status, ended.shots("done").len()), (0, 4), "{ended:?}");
    let events = ended.events();
    let checks: Vec<_> = events.iter().filter(|event| event["event"] == "check").collect();
    let passed: Vec<_> = checks.iter().map(|check| &check["passed"]).collect();
    assert_eq!(passed, [&Value::Null, &true.into()], "{ended:?}");
    assert!(checks[0]["error"].as_str().is_some_and(|why| why.contains("can't be used now")), "{ended:?}");
    assert_eq!(events.last().unwrap()["schedule"]["devices"][0]["retired"], Value::Null, "{ended:?}");
    let ended = check_devices(&folder, &[]);
    assert!(ended.status == 0 && ended.err.contains("cuda:0, Virtual GPU 0: not checked: "), "{ended:?}");
}

pub fn no_gpu_is_left() {
    let folder = Workspace::with_survey(&brief());
    let ended = check_devices(&folder, &[]);
    assert_eq!(ended.status, 1, "{ended:?}");
    assert_eq!(ended.err.matches(" is not used: ").count(), 2, "{ended:?}");
    assert!(ended.err.contains("no device passed the check shot"), "{ended:?}");
    assert!(folder.results().is_empty(), "{:?}", folder.results().keys());
}
