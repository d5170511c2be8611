//! What is read from outside, each with the properties that hold for it.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use gpusched::device::{BackendKind, DeviceInfo, Health, Selection};
use gpusched::io::kept::Kept;
use gpusched::io::npy;
use gpusched::sched::Scheduler;
use gpusched::sched::simulation::{self, FaultKind, Scenario};

use crate::harness::{Target, run};
use crate::job::Job;
use crate::scenario;

/// Simulated devices are told of each event; more tasks or retries than these only take longer.
const TASKS: usize = 200;
const RETRIES: u32 = 100;

#[test]
fn survey() {
    run(&Target {
        name: "survey",
        seeds: Vec::new,
        words: WORDS_OF_SURVEYS,
        runs: 3000,
        most: 20_000,
        memory: |length| (1 << 30) + 1000 * length,
        give: |file, _| {
            beside(file);
            match Job::load(file) {
                Err(error) => {
                    let sentence = error.to_string();
                    assert!(!sentence.contains("shot 0"), "shots are counted from 1: {sentence}");
                    Some(sentence)
                }
                Ok(job) => {
                    assert!(!job.shots.is_empty() && job.dt_max > 0.0 && job.plan.dt > 0.0);
                    for warning in &job.warnings {
                        assert!(!warning.chars().any(char::is_control), "{warning:?}");
                    }
                    None
                }
            }
        },
    });
}

/// Files that surveys name.
fn beside(file: &Path) {
    thread_local! { static MADE: RefCell<PathBuf> = RefCell::default(); }
    let folder = file.parent().expect("a folder");
    if MADE.with_borrow(|made| made == folder) {
        return;
    }
    let values: Vec<f32> = (0..24 * 8 * 16).map(|at| 1500.0 + at as f32).collect();
    npy::write(&folder.join("whole.npy"), &[8, 24, 16], &values).expect("a model");
    npy::write(&folder.join("section.npy"), &[16, 24], &values[..384]).expect("a section");
    npy::write(&folder.join("none.npy"), &[0, 24, 16], &[]).expect("a model of nothing");
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    fs::write(folder.join("whole.bin"), bytes).expect("a model");
    fs::write(folder.join("empty.bin"), []).expect("a file");
    fs::create_dir(folder.join("folder")).expect("a folder");
    MADE.set(folder.to_owned());
}

#[rustfmt::skip]
const WORDS_OF_SURVEYS: &[&str] = &[
    "title", "grid", "n", "spacing_m", "model", "velocity", "density", "file", "first", "every", "extrude", "layers", "top_m",
    "slope", "value", "gradient", "time", "dt_s", "nt", "duration_s", "sample_every", "accuracy", "exact_time", "stencil",
    "storage", "\"taylor\"", "\"optimised\"", "\"16-bit\"", "\"float32\"", "wavelet", "shape", "peak_hz", "amplitude", "\"ricker\"",
    "\"gaussian-derivative\"", "sources", "first_m", "step_m", "count", "positions_m", "receivers", "depth_m", "snapshots", "mute",
    "velocity_m_s", "after_s", "output", "folder", "pictures", "clip_percentile", "run", "devices", "slots", "\"auto\"",
    "\"gardner\"", "\"whole.npy\"", "\"section.npy\"", "\"none.npy\"", "\"whole.bin\"", "\"empty.bin\"", "\"folder\"", "\"/dev/zero\"",
    "\"/dev/null\"", "\"no\\nsuch\"", "\"no\\u0000such\"", "\"..\"", "\"\"", "[0, 0, 0]", "[1, 1, 1]", "[24, 8, 16]", "[[0, 0, 0]]",
    "true", "false", "1979-05-27", "[sources]\n", "[mute]\nvelocity_m_s = 1500\n", "[snapshots]\nevery = 1\n",
];

#[test]
fn npy_header() {
    run(&Target {
        name: "npy",
        seeds: Vec::new,
        words: &[
            "descr",
            "fortran_order",
            "shape",
            "True",
            "False",
            "<f4",
            ">f4",
            "<f8",
            ">f8",
            "|O",
            "<i4",
            "(",
            ")",
            "L",
            "(2, 3)",
            "(0,)",
            "()",
            "(3,)",
            "(1, 1, 1, 1, 6)",
            "(18446744073709551615, 0)",
            "'",
            "\"",
        ],
        runs: 6000,
        most: 200_000,
        memory: |length| (256 << 10) + 32 * length,
        give: |file, bytes| match npy::read(file) {
            Err(error) => {
                let sentence = error.to_string();
                assert!(sentence.contains("input"), "does not name the file: {sentence}");
                Some(sentence)
            }
            Ok(array) => {
                assert_eq!(array.shape.iter().product::<usize>(), array.data.len());
                assert!(array.data.len() <= bytes.len());
                None
            }
        },
    });
}

#[test]
fn scenario_file() {
    use scenario::{DEVICE, FAULT, SCENARIO, TASK};

    const VALUES: &[&str] = &[
        "out_of_memory",
        "launch_resources",
        "poisoned",
        "slow",
        "hang",
        "true",
        "false",
        "null",
        "[0]",
        "[0, 1]",
        "1e11",
        "1e-9",
    ];
    run(&Target {
        name: "scenario",
        seeds: Vec::new,
        words: [SCENARIO, DEVICE, FAULT, TASK, VALUES].concat().leak(),
        runs: 3000,
        most: 20_000,
        memory: |length| (16 << 20) + 1000 * length,
        give: |file, _| match scenario::read(file) {
            Err(error) => {
                let sentence = error.to_string();
                assert!(sentence.contains("input"), "does not name the file: {sentence}");
                Some(sentence)
            }
            Ok(scenario) => {
                let long =
                    scenario.tasks.iter().any(|task| task.retries > RETRIES && task.failures > RETRIES);
                if scenario.tasks.len() <= TASKS && !long {
                    let report = simulation::run(&scenario);
                    let ends = report.done + report.failed + report.cancelled;
                    let all = scenario.tasks.len() as u64;
                    // What hangs on a device ends never, unless something is known of how long it should take.
                    assert!(ends == all || (ends < all && hangs(&scenario)), "each task has one outcome");
                    assert!(report.makespan.is_finite() && report.makespan >= 0.0);
                }
                None
            }
        },
    });
}

fn hangs(scenario: &Scenario) -> bool {
    scenario.devices.iter().any(|device| device.faults.iter().any(|fault| fault.kind == FaultKind::Hang))
}

#[test]
fn rates_cache() {
    run(&Target {
        name: "rates",
        seeds: Vec::new,
        words: &[
            "gpusched rates 2 0.1.0",
            "found\t",
            "end ",
            "cuda",
            "cpu",
            "\t",
            "NaN",
            "-1e10",
            "1e300",
            "inf",
            "0",
            "18446744073709551615",
        ],
        runs: 1000,
        most: 4000,
        memory: |length| (4 << 20) + 32 * length,
        give: |file, _| {
            static LISTEN: Once = Once::new();
            LISTEN.call_once(|| {
                log::set_logger(&Ear).expect("the only logger");
                log::set_max_level(log::LevelFilter::Info);
            });
            let mut builder = Scheduler::builder();
            builder.devices = Some("cpu".into());
            builder.rates = Some(Arc::new(Kept::new(file)));
            let scheduler = builder.build().expect("a cache that is not believed is no error");
            scheduler.progress().expect("progress");
            HEARD.take()
        },
    });
}

thread_local! { static HEARD: RefCell<Option<String>> = RefCell::default(); }

/// Only the log tells that rates are ignored; what counts as sound is tested where they are read.
struct Ear;

impl log::Log for Ear {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let line = record.args().to_string();
        if line.contains("rates are ignored") {
            HEARD.set(Some(line));
        }
    }

    fn flush(&self) {}
}

#[test]
fn selection() {
    run(&Target {
        name: "selection",
        seeds: Vec::new,
        words: &[
            "all",
            "none",
            "cpu",
            "cuda",
            "sim",
            ":",
            ",",
            "GPU-",
            "MIG-",
            "GPU-5b1c",
            "4294967296",
            "cuda:0",
            "cpu:0",
            " ",
        ],
        runs: 6000,
        most: 20_000,
        memory: |length| (64 << 10) + 64 * length,
        give: |_, bytes| {
            let text = String::from_utf8_lossy(bytes);
            let there = there();
            let list: Vec<&DeviceInfo> = there.iter().collect();
            let chosen = Selection::parse(&text).and_then(|selection| selection.choose(&list, true));
            match chosen {
                Err(error) => Some(error.to_string()),
                Ok(chosen) => {
                    let mut once = chosen.clone();
                    once.sort_unstable();
                    once.dedup();
                    assert_eq!(once.len(), chosen.len(), "a device twice");
                    assert!(chosen.iter().all(|&at| there[at].health == Health::Good));
                    None
                }
            }
        },
    });
}

fn there() -> [DeviceInfo; 4] {
    let device = |uuid, backend, ordinal, health| DeviceInfo {
        health,
        ..DeviceInfo::new(uuid, backend, ordinal, "card")
    };
    [
        device("CPU-0", BackendKind::Cpu, 0, Health::Good),
        device("GPU-5b1c", BackendKind::Cuda, 0, Health::Good),
        device("GPU-5b22", BackendKind::Cuda, 1, Health::Good),
        device("GPU-7777", BackendKind::Cuda, 2, Health::Retired),
    ]
}
