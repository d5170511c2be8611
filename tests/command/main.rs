//! The `gpusched` command, from its arguments to its files and exit status.

mod environment;
mod faults;
mod observability;
mod parts;
mod pausing;
mod places;
mod refusals;
mod restarts;
mod resume;
mod simulate;
mod surveys;
mod tools;

use std::fs;
use std::path::Path;

use testkit::command::{Ended, Workspace};

/// Returns a folder in which the survey has run to its end.
fn finished(survey: &str) -> Workspace {
    let folder = Workspace::with_survey(survey);
    run_well(&folder, &[]);
    folder
}

/// Runs the survey in the folder with further arguments; checks that every shot is written.
fn run_well(folder: &Workspace, more: &[&str]) -> Ended {
    let ended = folder.gpusched(&[&["run", "survey.toml"], more].concat());
    assert_eq!(ended.status, 0, "{ended:?}");
    ended
}

/// Makes the report of the run in the folder that of a run on another node, which has not ended.
fn running_elsewhere(folder: &Workspace) {
    let mut report = folder.json("out/survey.json");
    report["state"] = "running".into();
    report["node"] = "elsewhere".into();
    fs::write(folder.at("out/survey.json"), report.to_string()).unwrap();
}

/// Flips a bit in the middle of a file.
fn flip_a_bit(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(path, bytes).unwrap();
}
