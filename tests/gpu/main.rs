//! Tests and measurements that need a real GPU. `benches/gpu/run` runs them on a machine with one,
//! and `ctests/night/gpu-script` on virtual GPUs. Each result is a line of JSON.
//!
//! | arguments | what runs on every GPU |
//! |---|---|
//! | parts of names, or none | recorded cases of the old kernels; then all of them on all GPUs at once |
//! | `--production GRID...` | every kernel in grids such as `128x128x128` |
//! | `--fault NAME` | a failure on the first GPU, and a recorded case after it |
//! | `--measure GRID...` | times, see `measure.rs` |
//!
//! `GPUSCHED_GPU_STEPS` cuts shots to that many steps; recorded cases are then compared with the
//! CPU only. `GPUSCHED_GPU_PML` is the width of the layers of `--production` and `--measure`.
//! Without a GPU the program skips; a GPU that cannot be used is a failure.

mod detect;
mod faults;
mod golden;
mod measure;
mod production;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use gpusched::device::Health;
use gpusched::sched::{Scheduler, discover, discover_all};
use gpusched::{Error, Result};
use serde_json::{Value, json};
use testmodels::reference::Equation;

use golden::Run;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // It forks, which comes before the first use of the driver.
    if let ["--fault", name] = words[..] {
        return ended(&[faults::run(name)]);
    }
    let gpus = match discover(Some("cuda")) {
        Ok(gpus) => gpus,
        Err(Error::NoDevice { why, .. }) => match detect::sign() {
            None => {
                testkit::skip(&format!("no GPU: {why}"));
                return ended(&[]);
            }
            Some(sign) => {
                let what = json!({ "case": "gpus", "device": "cuda" });
                return ended(&[told(what, || panic!("no GPU can be used, and yet {sign}: {why}"))]);
            }
        },
        Err(error) => panic!("{error}"),
    };
    let labels: Vec<String> = gpus.iter().map(|gpu| gpu.label()).collect();
    let results = match words[..] {
        ["--production", ref grids @ ..] => production::run(&labels, grids),
        ["--measure", ref grids @ ..] => measure::run(&labels, grids),
        ref parts => recorded(&labels, parts),
    };
    ended(&results)
}

/// Recorded cases whose names have one of the parts, on each GPU and on all at once.
fn recorded(gpus: &[String], parts: &[&str]) -> Vec<bool> {
    let equations = [Equation::Acoustic1, Equation::Acoustic2, Equation::Vti, Equation::Tti];
    let names = equations.map(testmodels::golden::names).concat();
    let chosen = names.iter().filter(|name| parts.is_empty() || parts.iter().any(|part| name.contains(part)));
    let runs: Vec<Run> = chosen.map(|name| Run::new(name, steps())).collect();
    let mut results = Vec::new();
    let (devices, notes) = discover_all().expect("a look at the machine");
    for lost in devices.iter().filter(|device| device.health == Health::Retired) {
        let what = json!({ "case": "gpus", "device": lost.label() });
        results.push(told(what, || panic!("{}", notes.join("; "))));
    }
    for gpu in gpus {
        let scheduler = scheduler(gpu, 1).expect("a scheduler with the GPU");
        for run in &runs {
            let what = json!({ "case": run.name, "device": gpu });
            results.push(told(what, || run.on(&scheduler, steps().is_none())));
        }
    }
    let what = json!({ "case": "all at once", "device": "cuda", "gpus": gpus.len() });
    results.push(told(what, || golden::at_once(&runs)));
    results
}

/// Returns the number of steps to which shots are cut.
fn steps() -> Option<usize> {
    std::env::var("GPUSCHED_GPU_STEPS").ok().map(|text| text.parse().expect("a number of steps"))
}

/// Returns the width of absorbing layers.
fn layer() -> usize {
    std::env::var("GPUSCHED_GPU_PML").map_or(20, |text| text.parse().expect("a number of cells"))
}

/// Returns the cells of `41x13x150`.
fn grid(text: &str) -> [usize; 3] {
    let numbers: Vec<usize> = text.split('x').map(|n| n.parse().expect("a number of cells")).collect();
    numbers.try_into().expect("three numbers of cells")
}

fn ended(results: &[bool]) -> ExitCode {
    let passed = results.iter().filter(|ok| **ok).count();
    let failed = results.len() - passed;
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {word}. {passed} passed; {failed} failed; 0 ignored");
    ExitCode::from(u8::from(failed > 0))
}

fn scheduler(devices: &str, slots: u32) -> Result<Scheduler> {
    let mut builder = Scheduler::builder();
    (builder.devices, builder.slots) = (Some(devices.into()), Some(slots));
    builder.build()
}

/// Prints what was tested with the result, as one line. Returns whether the test passed.
fn told(mut what: Value, test: impl FnOnce() -> Value) -> bool {
    let found = catch_unwind(AssertUnwindSafe(test));
    what["ok"] = found.is_ok().into();
    let found = found.unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        json!({ "why": text.or_else(|| payload.downcast_ref::<&str>().map(|&text| text.into())) })
    });
    for (key, value) in found.as_object().into_iter().flatten() {
        what[key] = value.clone();
    }
    println!("{what}");
    what["ok"] == true
}
