//! Hostile input for the command: surveys, scenarios, and files of earlier runs. Each input is
//! mutated at random and must be read or refused with a message. It must cause no panic, abort or
//! hang, and use no more memory than its length justifies. `tests/fuzz` does the same to the
//! library.
//!
//! ```text
//! cargo test --bin gpusched fuzz          some seconds for each target, always the same inputs
//! FUZZ_RUNS=1000000 FUZZ_SEED=7 cargo test --release --bin gpusched fuzz::survey -- --nocapture
//! FUZZ_FILE=path cargo test --bin gpusched fuzz::survey      one input, unchanged
//! ```
//! Inputs start as the files in `tests/fuzz/corpus/TARGET`. An input with a new answer is mutated
//! further. A failing input stays in the folder that the message names. After its bug is fixed it
//! belongs in the corpus, whose files are tried first, unchanged, in every run.

mod left;

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};

use gpusched::sched::simulation::{self, FaultKind, Scenario};
use testkit::fuzz::{Target, memory, run};
use testkit::npy;

use crate::job::Job;
use crate::scenario;

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

/// Limits of a simulated scenario. The time of a simulation grows with its tasks and retries.
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

/// Creates the files that surveys name.
fn beside(file: &Path) {
    thread_local! { static MADE: RefCell<PathBuf> = RefCell::default(); }
    let folder = file.parent().expect("a folder");
    if MADE.with_borrow(|made| made == folder) {
        return;
    }
    let values: Vec<f32> = (0..24 * 8 * 16).map(|at| 1500.0 + at as f32).collect();
    for (name, shape, count) in
        [("whole", "(8, 24, 16)", values.len()), ("section", "(16, 24)", 384), ("none", "(0, 24, 16)", 0)]
    {
        let file = npy(shape, values[..count].iter().copied());
        fs::write(folder.join(name).with_extension("npy"), file).expect("a model");
    }
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    fs::write(folder.join("whole.bin"), bytes).expect("a model");
    fs::write(folder.join("empty.bin"), []).expect("a file");
    fs::create_dir(folder.join("folder")).expect("a folder");
    MADE.set(folder.to_owned());
}

#[rustfmt::skip]
const WORDS_OF_SURVEYS: &[&str] = &[
    "title", "grid", "n", "spacing_m", "model", "vp", "rho", "file", "first", "every", "extrude", "layers", "top_m",
    "slope", "value", "gradient", "time", "dt_s", "nt", "duration_s", "record_every", "accuracy", "exact_time", "stencil",
    "anisotropic_source", "absorbing_layer", "\"pml\"", "\"sponge\"", "density_at", "\"half-points\"", "\"cells\"",
    "storage", "\"taylor\"", "\"optimised\"", "\"16-bit\"", "\"float32\"", "wavelet", "shape", "frequency_hz", "amplitude", "\"ricker\"",
    "\"gaussian-derivative\"", "sources", "kind", "\"monopole\"", "\"force-z\"", "first_m", "step_m", "count", "positions_m", "receivers", "depth_m", "snapshots", "mute",
    "velocity_m_s", "after_s", "output", "folder", "pictures", "clip_percentile", "run", "devices", "slots", "\"auto\"",
    "\"gardner\"", "\"whole.npy\"", "\"section.npy\"", "\"none.npy\"", "\"whole.bin\"", "\"empty.bin\"", "\"folder\"", "\"/dev/zero\"",
    "\"/dev/null\"", "\"no\\nsuch\"", "\"no\\u0000such\"", "\"..\"", "\"\"", "[0, 0, 0]", "[1, 1, 1]", "[24, 8, 16]", "[[0, 0, 0]]",
    "true", "false", "1979-05-27", "[sources]\n", "[mute]\nvelocity_m_s = 1500\n", "[snapshots]\nevery = 1\n",
];

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
                    let ends = report.counts.ended();
                    let all = scenario.tasks.len() as u64;
                    // A task that hangs on a device ends only if its expected duration is known.
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
