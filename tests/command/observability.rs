//! Output of a run while it computes and at its end, and the rates that it stores for the next run.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;

use testkit::c;
use testkit::command::{Ended, SURVEY, Workspace, brief, one_shot};
use testkit::process::{output, run_on_terminal};
use testkit::virtual_gpus::attach;

use crate::run_well;

#[test]
fn a_trace_has_a_bar_for_every_shot() {
    let folder = Workspace::with_survey(&format!("{}[run]\nslots = 2\n", brief()));
    run_well(&folder, &["--trace", "trace.json"]);
    let trace = folder.json("trace.json");
    let events = trace["traceEvents"].as_array().unwrap();
    let bars: Vec<&Value> = events.iter().filter(|event| event["ph"] == "X").collect();
    let mut names: Vec<&str> = bars.iter().map(|bar| bar["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["shot 1", "shot 2", "shot 3", "shot 4"]);
    assert!(bars.iter().all(|bar| bar["args"]["ended"] == "done"));
    assert_eq!(trace["otherData"]["left_out"], 0);
}

#[test]
fn a_trace_that_can_not_be_written_is_refused_before_anything_runs() {
    let folder = Workspace::with_survey(SURVEY);
    for place in ["no/such/folder/trace.json", "."] {
        for more in [&[][..], &["--dry-run"]] {
            let refused = folder.gpusched(&[&["run", "--trace", place, "survey.toml"], more].concat());
            assert_eq!(refused.status, 2, "{refused:?}");
            assert!(!folder.at("out/shot_0001.bin").exists());
        }
    }
    run_well(&folder, &["--dry-run", "--trace", "trace.json"]);
    assert!(!folder.at("trace.json").exists());
}

#[test]
fn quiet_run_prints_warnings_and_errors_alone() {
    let folder = Workspace::with_survey(&brief().replace("frequency_hz = 20.0", "frequency_hz = 21.0"));
    fs::create_dir_all(folder.at("out/shot_0002.paused")).unwrap();
    let ended = folder.gpusched(&["run", "survey.toml", "--quiet"]);
    assert_eq!((ended.status, ended.out.as_str()), (1, ""), "{ended:?}");
    let lines: Vec<&str> = ended.err.lines().collect();
    assert!(lines[0].starts_with("warning: 2.86 cells per shortest wavelength"), "{ended:?}");
    let failures: Vec<_> = lines.iter().filter(|line| line.contains("shot 2")).collect();
    assert!(failures[0].starts_with("error: shot 2 failed: ") && failures.len() == 1, "{ended:?}");
}

#[test]
fn summary_has_each_device_and_the_lower_bound() {
    let folder = Workspace::with_survey(&brief());
    let out = run_well(&folder, &[]).out;
    for part in ["4 shots in ", " on 1 device; no schedule could", "cpu:0", ", 4 shots\n"] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let events = run_well(&folder, &["--json"]).events();
    let end = &events.last().unwrap()["schedule"];
    let number = |value: &Value| value.as_f64().unwrap();
    assert!(number(&end["lower_bound_s"]) > 0.0);
    // A lower bound, except for the rounding of sums of durations.
    assert!(number(&end["lower_bound_s"]) <= number(&end["makespan_s"]) * 1.000_001, "{end}");
    let device = &end["devices"][0];
    assert_eq!((&device["device"], &device["done"]), (&"cpu:0".into(), &4.into()));
    assert!((0.0..=1.000_001).contains(&number(&device["busy_share"])), "{device}");
}

#[test]
fn speeds_are_cached_for_the_next_run_unless_disabled() {
    let folder = Workspace::with_survey(&one_shot(SURVEY));
    run_well(&folder, &["--no-rates-cache"]);
    run_well(&folder, &["--dry-run"]);
    let rates = folder.at("cache/gpusched/rates");
    assert!(!rates.exists());
    run_well(&folder, &[]);
    let text = fs::read_to_string(&rates).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("gpusched rates 2 ") && lines[1].starts_with("cpu\t"), "{text}");
    assert_eq!(lines[2..], ["end 1"], "{text}");
}

/// Its shot ends by a copy on the other GPU.
#[test]
fn run_reports_that_it_waits_for_a_gpu_that_hangs_at_the_last_shot() {
    for as_json in [false, true] {
        let folder = Workspace::with_survey(&brief());
        let mut command = folder.command(&["run", "--no-rates-cache", "survey.toml"]);
        command.args(as_json.then_some("--json"));
        attach(&mut command, "dev=mem:1G;dev=mem:1G", &folder.at("leases"));
        let ended = Ended::from(output(command.env("FAKECUDA_FAULTS", "0:launch:1:hang")).unwrap());
        let waits = "the run waits for cuda:0, where an attempt has not returned";
        let lost = "an attempt on it has not returned after";
        let lines: Vec<String> = match as_json {
            false => {
                assert!(ended.out.contains("4 of 4 shots written"), "{ended:?}");
                // The first warning is about the survey.
                let warnings = ended.err.lines().filter_map(|line| line.strip_prefix("warning: "));
                warnings.skip(1).map(Into::into).collect()
            }
            true => {
                let events = ended.events();
                let end = events.iter().position(|event| event["event"] == "end").unwrap();
                let word = |event: &Value, key| event[key].as_str().unwrap_or_default().to_owned();
                events[end + 1..].iter().map(|event| word(event, "warning") + &word(event, "why")).collect()
            }
        };
        assert_eq!((ended.status, lines.len()), (0, 2), "{ended:?}");
        assert!(lines[0].starts_with(waits) && lines[1].contains(lost), "{ended:?}");
    }
}

#[test]
fn dry_run_states_which_gpus_other_processes_fill_and_what_the_run_does() {
    let waits = "other processes use the memory of cuda:0, so a shot does not fit now; the run waits until they release \
                 it, for up to an hour";
    let moves = "other processes use the memory of cuda:0, so a shot does not fit now; the run uses cuda:1 until they \
                 release it";
    for (machine, warning, fits) in [
        ("dev=mem:1G,other:1020M", Some(waits), "it will fit once other processes release memory, and "),
        ("dev=mem:1G,other:1020M;dev=mem:1G", Some(moves), "it fits, and "),
        ("dev=mem:1G,other:1M", None, "it fits, and "),
    ] {
        let folder = Workspace::with_survey(SURVEY);
        let run = |more: &[&str]| {
            let mut command = folder.command(&[&["run", "--dry-run", "survey.toml"], more].concat());
            Ended::from(output(attach(&mut command, machine, &folder.at("leases"))).unwrap())
        };
        let ended = run(&[]);
        let warnings: Vec<_> = ended.err.lines().filter_map(|line| line.strip_prefix("warning: ")).collect();
        assert_eq!((ended.status, warnings), (0, warning.into_iter().collect()), "{machine}: {ended:?}");
        assert!(ended.out.contains(&format!("dry run: the survey is valid, {fits}the output")), "{ended:?}");
        let full = ended.out.contains("free of 1.00 GiB, too little for a shot now\n");
        assert_eq!(full, warning.is_some(), "{ended:?}");
        let survey = &run(&["--json"]).events()[0]["survey"];
        assert_eq!(survey["warnings"].as_array().unwrap().last().and_then(|last| last.as_str()), warning);
    }
}

/// The lines of a bar that are wider than the terminal would leave pieces on it.
#[test]
fn bar_fits_the_terminal_with_a_reason_to_wait() {
    let folder = Workspace::with_survey(&brief());
    let mut command = folder.command(&["run", "--stop-after", "2s", "survey.toml"]);
    attach(&mut command, "dev=mem:1G,ctx:2M,other:1020M", &folder.at("leases")).env("TERM", "xterm");
    let (_, text) = run_on_terminal(&mut command, 80);
    let text =
        ["\x1b[1A", "\x1b[1B", "\x1b[2K", "\r"].iter().fold(text, |text, code| text.replace(code, "\n"));
    let is_bar = |line: &&str| line.starts_with("[00:") || line.contains("shots done");
    let bars: Vec<_> = text.lines().filter(is_bar).collect();
    let wide: Vec<_> = bars.iter().filter(|line| line.chars().count() > 80).collect();
    assert_eq!(wide, [&""; 0], "{text}");
    for words in ["waiting for cuda:0 for 1 s: its memory is used by other", "0 of 4 shots done, "] {
        assert!(bars.iter().any(|line| line.contains(words)), "{words}: {text}");
    }
}

/// Each thread is refused in turn: that of the signals, a reader of standard input, a worker.
#[test]
fn refused_thread_is_no_bug_of_a_run_on_a_terminal() {
    for options in [&[][..], &["--shots-from", "-"]] {
        for at in 1..5 {
            let folder = Workspace::with_survey(&brief());
            let mut command = folder.command(&[&["run", "survey.toml"], options].concat());
            command.env("LD_PRELOAD", c::preload("no_thread", folder.path())).env("TERM", "xterm");
            let command = command.envs([("FAULT_AT", at.to_string()), ("FAULT_COUNT", "1".into())]);
            let (status, text) = run_on_terminal(command, 200);
            let is_well = status.code() != Some(101) && !text.contains("please report it");
            assert!(is_well && (at == 4 || text.contains("refused")), "{options:?} {at}: {status}: {text}");
        }
    }
}

/// A progress line is due after ten seconds. The GPU is tried again three times meanwhile.
#[test]
fn progress_states_for_how_long_and_why_no_device_begins_a_shot() {
    for (machine, faults, why) in [
        ("dev=mem:1G", "0:ctx:*:46", "used by another process, or closed to all"),
        ("dev=mem:1G,ctx:2M,other:1020M", "", "its memory is used by other processes"),
    ] {
        let folder = Workspace::with_survey(&brief());
        let mut command = folder.command(&["run", "--json", "--stop-after", "120s", "survey.toml"]);
        attach(&mut command, machine, &folder.at("leases")).env("FAKECUDA_FAULTS", faults);
        let mut run = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(run.stdout.take().unwrap()).lines();
        let mut events = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        let progress = events.find(|event| event["event"] == "progress").unwrap();
        // SAFETY: a child of ours that has not been waited for.
        assert_eq!(unsafe { libc::kill(run.id() as i32, libc::SIGTERM) }, 0);
        assert_eq!(events.last().unwrap()["event"], "end");
        let wait = &progress["waits"][0];
        assert_eq!((&wait["device"], &wait["why"]), (&"cuda:0".into(), &why.into()), "{progress}");
        let [waited, all] = [&wait["seconds"], &progress["seconds"]].map(|time| time.as_f64().unwrap());
        assert!(all >= 10.0 && (all - 2.0..all).contains(&waited), "{progress}");
        assert_eq!((&progress["done"], run.wait().unwrap().code()), (&0.0.into(), Some(1)), "{progress}");
    }
}
