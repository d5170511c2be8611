//! A survey whose only GPU became unusable in its process continues in a new process, which starts
//! with the same fault.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::Folder;
use testkit::c;
use testkit::command::{Ended, Workspace, brief, executable};
use testkit::process::{isolated, output, run_on_terminal};
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
    let on_the_cpu = finished(&brief());
    assert!(folder.results() == on_the_cpu.results(), "other files than of one run");
    let survey = folder.json("out/survey.json");
    assert_eq!(survey["state"], "done");
    for survey in [survey, on_the_cpu.json("out/survey.json")] {
        let shots = survey["shots"].as_array().unwrap().iter();
        let shares: Vec<_> =
            shots.filter(|shot| shot["kept"].is_null()).map(|shot| &shot["computed"]).collect();
        let is_share = |share: &&Value| share.as_f64().is_some_and(|share| 0.0 < share && share <= 1.0);
        assert!(!shares.is_empty() && shares.iter().all(is_share), "{survey}");
    }
}

/// The log has the retired GPU at a lower level than the command prints.
#[test]
fn survey_and_each_retired_gpu_are_printed_once() {
    let folder = Workspace::with_survey(&brief());
    let mut command = folder.command(&["run", "--", "survey.toml"]);
    attach(&mut command, "dev=mem:1G", &folder.at("leases")).env("FAKECUDA_FAULTS", "0:launch:20:700");
    let ended = Ended::from(output(&mut command).unwrap());
    let count = |text: &str, words| text.lines().filter(|line| line.contains(words)).count();
    let begun = 1 + count(&ended.err, "the run goes on in a new process");
    assert!(ended.status == 0 && begun > 1, "{ended:?}");
    assert_eq!(count(&ended.out, "cells per shortest wavelength"), 1, "{ended:?}");
    assert_eq!(count(&ended.err, "is retired"), begun - 1, "{ended:?}");
    assert_eq!(count(&ended.err, "no device is left for 1 shot; the run"), 1, "{ended:?}");
    assert_eq!(count(&ended.out, "resume: "), 0, "{ended:?}");
    let devices = ended.out.lines().filter(|line| line.contains("% of the time, 4 shots"));
    assert_eq!(devices.count(), 1, "{ended:?}");
    assert_eq!(count(&ended.out, "4 of 4 shots written in"), 1, "{ended:?}");
    let whole = ended.out.lines().find(|line| line.starts_with("4 shots in ")).unwrap();
    assert!(whole.ends_with(" on 1 device"), "the bound is of one process: {whole}");
}

/// While the bar is drawn, the library logs that the GPU's context is unusable.
#[test]
fn line_of_the_log_begins_a_line_of_the_terminal() {
    let folder = Workspace::with_survey(&brief());
    let mut command = folder.command(&["run", "--", "survey.toml"]);
    attach(&mut command, "dev=mem:1G", &folder.at("leases")).env("FAKECUDA_FAULTS", "0:launch:20:700");
    let (status, text) = run_on_terminal(command.env("TERM", "xterm"), 200);
    let lines: Vec<_> = text.lines().filter(|line| line.contains("its context is unusable")).collect();
    assert!(status.success() && text.contains("% ") && !lines.is_empty(), "{text}");
    // A line on the screen is what follows the last erasure.
    let shown = |line: &&&str| line.rsplit("\x1b[2K").next().is_some_and(|shown| shown.starts_with("[WARN "));
    assert_eq!(lines.iter().filter(shown).count(), lines.len(), "{text}");
}

/// Checks the counts of a run of four shots that started again, of which so many were kept.
fn counts_the_whole_run(folder: &Workspace, report: &str, ended: &Ended, kept: u64) {
    assert_eq!((ended.status, restarts(ended) > 0), (0, true), "{ended:?}");
    let (done, of_before): (Vec<u64>, Vec<u64>) = (1..=4).partition(|&shot| shot > kept);
    assert_eq!((ended.shots("done"), ended.shots("kept")), (done, of_before), "{ended:?}");
    let events = ended.events();
    let end = events.last().unwrap();
    assert_eq!((&end["done"], &end["kept"], &end["failed"]), (&4.into(), &kept.into(), &0.into()), "{end}");
    let device = &end["schedule"]["devices"][0];
    assert_eq!((&device["done"], &device["retired"]), (&(4 - kept).into(), &Value::Null), "{end}");
    let number = |value: &Value| value.as_f64().unwrap();
    let survey = folder.json(report);
    let (old, new): (Vec<&Value>, Vec<&Value>) =
        survey["shots"].as_array().unwrap().iter().partition(|shot| shot["kept"] == true);
    assert_eq!((old.len() as u64, survey["schedule"].is_null()), (kept, true), "{survey}");
    assert!(new.iter().all(|shot| shot["device"] == "cuda:0"), "{survey}");
    let computing: f64 = new.iter().map(|shot| number(&shot["seconds"])).sum();
    for seconds in [&survey["seconds"], &end["seconds"], &end["schedule"]["makespan_s"]] {
        assert!(number(seconds) > computing, "{computing} s: {survey}, {end}");
    }
}

#[test]
fn run_that_starts_again_counts_the_shots_of_all_its_processes() {
    const FAULT: &str = "0:launch:20:700";
    let folder = Workspace::with_survey(&brief());
    counts_the_whole_run(&folder, "out/survey.json", &run(&folder, FAULT, &[]), 0);
    std::fs::remove_file(folder.at("out/shot_0003.json")).unwrap();
    (2..=4).for_each(|shot| std::fs::remove_file(folder.at(format!("out/shot_000{shot}.bin"))).unwrap());
    counts_the_whole_run(&folder, "out/survey.json", &run(&folder, FAULT, &["--resume"]), 1);
    // A part has one report.
    let folder = Workspace::with_survey(&brief());
    let ended = run(&folder, FAULT, &["--shots", "1-4"]);
    let reports: Vec<_> = folder.results().into_keys().filter(|name| name.starts_with("survey.")).collect();
    assert_eq!(reports.len(), 1, "{reports:?}");
    counts_the_whole_run(&folder, &format!("out/{}", reports[0]), &ended, 0);
}

#[test]
fn run_that_starts_again_keeps_no_shot_of_an_earlier_run_without_resume() {
    let folder = Workspace::with_survey(&brief());
    for faults in ["", "0:launch:20:700"] {
        let ended = run(&folder, faults, &[]);
        assert_eq!((ended.status, restarts(&ended) > 0), (0, !faults.is_empty()), "{ended:?}");
        assert_eq!(ended.shots("done"), [1, 2, 3, 4], "{ended:?}");
    }
}

/// The results may have terabytes. The first process reads those that it keeps.
#[test]
fn finished_shots_are_not_read_again_after_a_restart() {
    let folder = finished(&brief());
    (2..=4).for_each(|shot| fs::remove_file(folder.at(format!("out/shot_000{shot}.json"))).unwrap());
    let preload = c::preload("opens", &c::scratch("restarts"));
    let mut command = folder.command(&["run", "--json", "--resume", "--", "survey.toml"]);
    attach(&mut command, "dev=mem:1G", &folder.at("leases")).env("FAKECUDA_FAULTS", "0:launch:20:700");
    command.env("LD_PRELOAD", preload).env("FAULT_PATH", ".bin").env("FAULT_COUNT", "0");
    let ended = Ended::from(output(command.env("FAULT_MARK", folder.at("mark"))).unwrap());
    counts_the_whole_run(&folder, "out/survey.json", &ended, 1);
    let calls = fs::read_to_string(folder.at("mark")).unwrap();
    let opened: Vec<_> = calls.lines().filter_map(|call| call.strip_prefix("open ")).collect();
    let is_kept = |path: &&str| path.contains("/shot_0001");
    assert!(opened.len() == 3 && opened.iter().all(is_kept), "{calls}");
}

/// As after an upgrade by a package manager.
#[test]
fn run_whose_program_was_removed_starts_again() {
    let folder = Workspace::with_survey(&brief());
    let program = folder.at("command");
    fs::copy(executable(), &program).unwrap();
    let mut command = isolated(&program);
    command.args(["run", "--json", "--no-rates-cache", "--", "survey.toml"]).current_dir(folder.path());
    attach(&mut command, "dev=mem:1G", &folder.at("leases")).env("FAKECUDA_FAULTS", "0:launch:20:700");
    let mut run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines().map(Result::unwrap);
    lines.by_ref().find(|line| line.contains(r#""state":"done""#)).unwrap();
    fs::remove_file(&program).unwrap();
    let out = lines.collect::<Vec<_>>().join("\n");
    let ended = Ended { out, ..Ended::from(run.wait_with_output().unwrap()) };
    assert_eq!((ended.status, restarts(&ended) > 0), (0, true), "{ended:?}");
}

/// As with a survey that is edited for the next night.
#[test]
fn run_whose_survey_has_changed_does_not_start_again() {
    let survey = brief().replace("[40.0, 10.0]", "[10.0, 10.0]").replace("[4, 1]", "[16, 1]");
    for changed in [survey.replace("nt = 4", "nt = 5"), format!("{survey}folder = \"other\"\n")] {
        let folder = Workspace::with_survey(&survey);
        let mut command = folder.command(&["run", "--json", "--", "survey.toml"]);
        attach(&mut command, "dev=mem:1G", &folder.at("leases")).env("FAKECUDA_FAULTS", "0:launch:20:700");
        let mut run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(run.stdout.take().unwrap()).lines().map(Result::unwrap);
        let first = lines.by_ref().find(|line| line.contains(r#""state":"done""#)).unwrap();
        fs::write(folder.at("survey.toml"), &changed).unwrap();
        let out = [first].into_iter().chain(lines).collect::<Vec<_>>().join("\n");
        let ended = Ended { out, ..Ended::from(run.wait_with_output().unwrap()) };
        assert_eq!(ended.status, 1, "{ended:?}");
        let why = "the survey, its model or output.folder was changed during the run";
        let error = ended.events().pop().unwrap();
        assert!(error["error"].as_str().is_some_and(|text| text.contains(why)), "{ended:?}");
        assert!(ended.err.contains(why), "{ended:?}");
        let done = ended.shots("done");
        assert!((1..16).contains(&done.len()), "{ended:?}");
        let (files, expected) = (folder.results(), finished(&survey).results());
        for shot in done {
            let of_shot = |name: &&String| name.starts_with(&format!("shot_{shot:04}"));
            for name in expected.keys().filter(of_shot) {
                assert!(files.get(name) == expected.get(name), "{name}: {ended:?}");
            }
        }
        assert!(!folder.at("other").exists());
    }
}

/// Shot 1 fails before the run starts again, because its description of the earlier run cannot be
/// removed.
#[test]
fn failed_shot_is_computed_by_the_next_process_or_the_run_ends() {
    let refusals = Folder::new();
    let preload = c::preload("no_unlink", refusals.path());
    for (count, is_computed) in [("1", true), ("1000", false)] {
        let folder = finished(&format!("{}[run]\nwrite_retry_s = 0\n", brief()));
        let mut command = folder.command(&["run", "--json", "--", "survey.toml"]);
        attach(&mut command, "dev=mem:1G", &folder.at("leases")).env("FAKECUDA_FAULTS", "0:launch:20:700");
        command.env("LD_PRELOAD", &preload).env("FAULT_PATH", "out/shot_0001.json").env("FAULT_COUNT", count);
        let ended = Ended::from(output(&mut command).unwrap());
        assert_eq!((ended.shots("failed")[0], restarts(&ended) > 0), (1, is_computed), "{ended:?}");
        let events = ended.events();
        let again = events.iter().find(|event| event["event"] == "restart").map(|event| &event["failed"]);
        assert_eq!(again, is_computed.then_some(&1.into()), "{ended:?}");
        let is_kept = ended.shots("kept").contains(&1);
        assert_eq!(
            (ended.status == 0, ended.shots("done").contains(&1)),
            (is_computed, is_computed),
            "{ended:?}"
        );
        assert!(is_computed || !is_kept, "{ended:?}");
    }
}

/// The next process would take the survey for another one.
#[test]
fn run_that_cannot_write_survey_json_does_not_start_again() {
    let folder = Workspace::new();
    let out = fs::canonicalize(folder.path()).unwrap().join("out");
    fs::write(folder.at("survey.toml"), format!("{}folder = {out:?}\n", brief())).unwrap();
    let mut command = folder.command(&["run", "--json", "--", "survey.toml"]);
    attach(&mut command, "dev=mem:1G", &folder.at("leases")).env("FAKECUDA_FAULTS", "0:launch:1:700");
    command.env("LD_PRELOAD", c::preload("inject", folder.path())).env("FAULT_MARK", folder.at("mark"));
    command.env("FAULT_FOLDER", out);
    command.envs([("FAULT_CALL", "rename"), ("FAULT_AT", "1"), ("FAULT_LASTS", "1"), ("FAULT_HOW", "5")]);
    let ended = Ended::from(output(&mut command).unwrap());
    assert_eq!((ended.status, restarts(&ended)), (1, 0), "{ended:?}");
    assert_eq!(ended.shots("failed"), [1, 2, 3, 4], "{ended:?}");
}

/// Shots of a stream are reported at once: their sender may compute them elsewhere. A pipe cannot
/// be read again.
#[test]
fn shots_that_arrived_fail_and_the_run_ends_without_a_device() {
    for list in ["-", "/dev/stdin"] {
        let folder = Workspace::with_survey(&brief());
        let mut command = folder.command(&["run", "--json", "--shots-from", list, "--", "survey.toml"]);
        attach(&mut command, "dev=mem:1G", &folder.at("leases")).env("FAKECUDA_FAULTS", "0:launch:1:700");
        let mut run = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut to = run.stdin.take().unwrap();
        writeln!(to, "1-3").unwrap();
        let open = (list == "-").then_some(to);
        let ended = Ended::from(run.wait_with_output().unwrap());
        drop(open);
        assert_eq!((ended.status, ended.shots("failed")), (1, vec![1, 2, 3]), "{list}: {ended:?}");
    }
}

/// The GPU fails before the run has submitted all of them.
#[test]
fn shots_of_a_long_list_fail_without_a_device() {
    let folder = Workspace::with_survey(
        &brief()
            .replace("[24, 8, 16]", "[110, 210, 16]")
            .replace("[40.0, 10.0]", "[10.0, 10.0]")
            .replace("[4, 1]", "[100, 200]"),
    );
    fs::write(folder.at("list"), "1-20000").unwrap();
    let mut command = folder.command(&["run", "--json", "--shots-from", "-", "--", "survey.toml"]);
    attach(&mut command, "dev=mem:1G", &folder.at("leases")).env("FAKECUDA_FAULTS", "0:launch:1:700");
    let ended = Ended::from(command.stdin(File::open(folder.at("list")).unwrap()).output().unwrap());
    assert_eq!((ended.status, ended.shots("failed").len()), (1, 20_000), "{}", ended.err);
}

/// A signal that arrives while the command waits before it starts again.
#[test]
fn signal_between_two_processes_stops_the_run() {
    let folder = Workspace::with_survey(&brief());
    let mut command = folder.command(&["run", "--json", "--", "survey.toml"]);
    attach(&mut command, "dev=mem:1G", &folder.at("leases")).env("FAKECUDA_FAULTS", "0:launch:1:700");
    let mut run = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines().map(Result::unwrap);
    // The second restart waits for a second, the third for four.
    let mut restarts = lines.by_ref().filter(|line| line.contains(r#""event":"restart""#));
    restarts.nth(2).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    // SAFETY: a child of ours that has not been waited for.
    assert_eq!(unsafe { libc::kill(run.id() as i32, libc::SIGTERM) }, 0);
    let rest: Vec<String> = lines.collect();
    assert!(!rest.iter().any(|line| line.contains(r#""event":"survey""#)), "it began again");
    let last: Value = serde_json::from_str(rest.last().unwrap()).unwrap();
    let why = last["error"].as_str().unwrap_or_default();
    assert!(last["event"] == "error" && why.contains("the run was stopped"), "{rest:?}");
    assert_eq!(run.wait().unwrap().code(), Some(1));
}

/// The five seconds of pauses are part of the time of `--stop-after`.
#[test]
fn a_run_ends_once_three_new_processes_have_computed_no_shot() {
    let folder = Workspace::with_survey(&brief());
    let mut command = folder.command(&["run", "--json", "--stop-after", "1h", "--", "survey.toml"]);
    attach(&mut command, "dev=mem:1G", &folder.at("leases")).env("FAKECUDA_FAULTS", "0:launch:1:700");
    let run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (begun, mut arguments) = (Instant::now(), String::new());
    while !arguments.contains("--restart=3") {
        assert!(begun.elapsed() < Duration::from_secs(120), "{arguments}");
        sleep(Duration::from_millis(5));
        arguments = fs::read_to_string(format!("/proc/{}/cmdline", run.id())).unwrap();
    }
    let left = arguments.rsplit("--stop-after=").next().and_then(|left| left.split_once("ms"));
    let left: u64 = left.unwrap().0.parse().unwrap();
    assert!(left <= 3_600_000 - 5000, "{left} ms");
    let ended = Ended::from(run.wait_with_output().unwrap());
    assert_eq!((ended.status, restarts(&ended)), (1, 3), "{ended:?}");
    assert_eq!((ended.shots("failed"), ended.shots("done")), (vec![1, 2, 3, 4], vec![]), "{ended:?}");
    assert!(ended.out.contains("restart the process"), "{ended:?}");
}
