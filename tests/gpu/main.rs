//! Every recorded case of the old kernel on every GPU of this machine: against the record, and against the CPU bit for
//! bit; then all cases on all GPUs at once. Skipped without a GPU; a GPU that cannot be used is a failure.
//!
//! Prints a line of JSON for each. Arguments are parts of names of cases; none selects all. `GPUSCHED_GPU_STEPS` cuts
//! the shots to that many steps, which are then compared with the CPU only. `benches/gpu/run` runs this on a machine
//! with a GPU.

mod detect;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Arc;

use gpusched::device::Health;
use gpusched::fd::plan::{Options, Plan};
use gpusched::fd::survey::Shot;
use gpusched::sched::{Scheduler, discover, discover_all};
use gpusched::{Error, Result};
use serde_json::{Value, json};

use testmodels::bits::{fused, same};
use testmodels::gate;
use testmodels::golden::{self, Case};
use testmodels::norms::relative_l2;
use testmodels::shots::{Shots, Survey, fire_all, fire_on, fire_with};

/// Where the CPU rounds otherwise than a GPU: as far as both may be from the old kernel.
const UNFUSED: f64 = 1e-5;

fn main() -> ExitCode {
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
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let steps = std::env::var("GPUSCHED_GPU_STEPS").ok().map(|text| text.parse().expect("a number of steps"));
    let names = golden::names();
    let chosen =
        names.iter().filter(|name| wanted.is_empty() || wanted.iter().any(|part| name.contains(part)));
    let runs: Vec<Run> = chosen.map(|name| Run::new(name, steps)).collect();

    let mut results = Vec::new();
    let (devices, notes) = discover_all().expect("a look at the machine");
    for lost in devices.iter().filter(|device| device.health == Health::Retired) {
        let what = json!({ "case": "gpus", "device": lost.label() });
        results.push(told(what, || panic!("{}", notes.join("; "))));
    }
    for gpu in gpus.iter().map(|gpu| gpu.label()) {
        let scheduler = scheduler(&gpu).expect("a scheduler with the GPU");
        for run in &runs {
            let what = json!({ "case": run.name, "device": gpu });
            results.push(told(what, || run.on(&scheduler, steps.is_none())));
        }
    }
    let what = json!({ "case": "all at once", "device": "cuda", "gpus": gpus.len() });
    results.push(told(what, || at_once(&runs)));
    ended(&results)
}

fn ended(results: &[bool]) -> ExitCode {
    let passed = results.iter().filter(|ok| **ok).count();
    let failed = results.len() - passed;
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {word}. {passed} passed; {failed} failed; 0 ignored");
    ExitCode::from(u8::from(failed > 0))
}

fn scheduler(devices: &str) -> Result<Scheduler> {
    let mut builder = Scheduler::builder();
    (builder.devices, builder.slots) = (Some(devices.into()), Some(1));
    builder.build()
}

/// Prints what was tested with what was found, as one line; whether it was right.
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

/// A case, and what the CPU makes of it.
struct Run {
    name: String,
    case: Case,
    shots: Vec<Shot>,
    on_cpu: Vec<Shots>,
}

impl Run {
    fn new(name: &str, steps: Option<usize>) -> Run {
        let case = Case::load(name);
        let mut shots = gate::shots(&case);
        for shot in &mut shots {
            shot.nt = steps.map_or(shot.nt, |steps| steps.min(shot.nt));
            // What is silent from its beginning shows nothing.
            shot.mute = shot.mute.take().filter(|_| steps.is_none());
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let fire = |shot| fire_with(&case.model, case.dt, shot, Options::default(), threads);
        let on_cpu = shots.iter().map(fire).collect();
        Run { name: name.into(), case, shots, on_cpu }
    }

    fn plan(&self) -> Arc<Plan> {
        Arc::new(Plan::new(self.case.model.clone(), self.case.dt, Options::default()).unwrap())
    }

    /// Runs the case on one GPU. Panics if a result is wrong.
    fn on(&self, scheduler: &Scheduler, whole: bool) -> Value {
        let plan = self.plan();
        let fire = |shot: &Shot| {
            fire_on(scheduler, plan.clone(), shot.clone()).unwrap_or_else(|why| panic!("{why}"))
        };
        let found: Vec<Shots> = self.shots.iter().map(fire).collect();
        for (shot, (found, expected)) in found.iter().zip(&self.on_cpu).enumerate() {
            agree(found, expected, &format!("shot {shot}"));
        }
        if !whole {
            return json!({ "shots": found.len(), "bits": fused() });
        }
        let [record, trace, snapshot] = gate::pass(&self.name, &self.case, &found);
        json!({ "shots": found.len(), "bits": fused(), "record": record, "trace": trace, "snapshot": snapshot })
    }
}

/// All shots of all cases, wherever there is room. Panics as [`Run::on`].
fn at_once(runs: &[Run]) -> Value {
    let mut survey = Survey::new();
    for run in runs {
        let (plan, without) = (run.plan(), |shot: &Shot| Shot { snapshot_every: None, ..shot.clone() });
        survey.extend(run.shots.iter().map(|shot| (plan.clone(), without(shot))));
    }
    let scheduler = scheduler("cuda").unwrap_or_else(|why| panic!("{why}"));
    let found = fire_all(&scheduler, &survey);
    let expected = runs.iter().flat_map(|run| &run.on_cpu);
    for (shot, (found, expected)) in found.iter().zip(expected).enumerate() {
        let expected =
            Shots { record: expected.record.clone(), samples: expected.samples, snapshots: Vec::new() };
        agree(found, &expected, &format!("shot {shot}"));
    }
    let busy: Vec<u64> = scheduler.stats().unwrap().devices.iter().map(|device| device.done).collect();
    json!({ "shots": found.len(), "bits": fused(), "shots_of_gpus": busy })
}

/// Bit for bit, where the CPU fuses products and sums as a GPU does.
fn agree(found: &Shots, expected: &Shots, what: &str) {
    if fused() {
        return same(found, expected, what);
    }
    let off = relative_l2(&found.record, &expected.record);
    assert!(off <= UNFUSED, "{what}: the record is {off:e} away from the CPU's");
}
