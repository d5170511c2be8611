//! A survey whose only GPU is of no more use to its process goes on in a new one, which begins with the same fault.

use testkit::command::{Ended, Workspace, brief};
use testkit::process::output;
use testkit::virtual_gpus::attach;

use crate::finished;

fn run(folder: &Workspace, fault: &str, args: &[&str]) -> Ended {
    let mut command = folder.command(&[&["run", "--json"], args, &["--", "survey.toml"]].concat());
    attach(&mut command, "dev=mem:1G", &folder.at("leases")).env("FAKECUDA_FAULTS", fault);
    Ended::from(output(&mut command).unwrap())
}

fn restarts(ended: &Ended) -> usize {
    let events = ended.events();
    let count = |name| events.iter().filter(|event| event["event"] == name).count();
    assert_eq!(count("end"), 1, "{ended:?}");
    count("restart")
}

#[test]
fn shots_that_a_kernels_failure_leaves_without_a_device_are_computed_by_the_next_process() {
    let folder = Workspace::with_survey(&brief());
    let ended = run(&folder, "0:launch:20:700", &["--stop-after", "1h"]);
    assert_eq!((ended.status, restarts(&ended) > 0), (0, true), "{ended:?}");
    assert_eq!((ended.shots("done"), ended.shots("failed")), (vec![1, 2, 3, 4], vec![]), "{ended:?}");
    assert!(folder.results() == finished(&brief()).results(), "other files than of one run");
    assert_eq!(folder.json("out/survey.json")["state"], "done");
}

#[test]
fn a_run_ends_once_three_new_processes_have_computed_no_shot() {
    let folder = Workspace::with_survey(&brief());
    let ended = run(&folder, "0:launch:1:700", &[]);
    assert_eq!((ended.status, restarts(&ended)), (1, 3), "{ended:?}");
    assert_eq!((ended.shots("failed"), ended.shots("done")), (vec![1, 2, 3, 4], vec![]), "{ended:?}");
    assert!(ended.out.contains("restart the process"), "{ended:?}");
}
