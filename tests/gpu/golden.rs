//! Recorded cases of the old kernels on a GPU, against the records and, bit for bit, against the
//! CPU.

use std::sync::Arc;

use gpusched::fd::plan::Plan;
use gpusched::fd::survey::Shot;
use gpusched::sched::Scheduler;
use serde_json::{Value, json};

use testmodels::bits::{fused, same};
use testmodels::gate;
use testmodels::golden::Case;
use testmodels::norms::relative_l2;
use testmodels::shots::{Shots, Survey, fire_all, fire_on, fire_with};

use crate::scheduler;

/// Accepted difference where the CPU rounds unlike a GPU: the sum of both distances from the old
/// kernel.
const UNFUSED: f64 = 1e-5;

/// A case and its results on the CPU.
pub struct Run {
    pub name: String,
    case: Case,
    shots: Vec<Shot>,
    on_cpu: Vec<Shots>,
}

impl Run {
    pub fn new(name: &str, steps: Option<usize>) -> Run {
        let case = Case::load(name);
        let mut shots = gate::shots(&case);
        for shot in &mut shots {
            shot.nt = steps.map_or(shot.nt, |steps| steps.min(shot.nt));
            // A trace that is silent from its beginning tests nothing.
            shot.mute = shot.mute.take().filter(|_| steps.is_none());
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let fire = |shot| fire_with(&case.model, case.dt, shot, case.options(), threads);
        let on_cpu = shots.iter().map(fire).collect();
        Run { name: name.into(), case, shots, on_cpu }
    }

    fn plan(&self) -> Arc<Plan> {
        Arc::new(Plan::new(self.case.model.clone(), self.case.dt, self.case.options()).unwrap())
    }

    /// Runs the case on one GPU. Panics if a result is wrong.
    pub fn on(&self, scheduler: &Scheduler, whole: bool) -> Value {
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

/// Runs all shots of all cases on any devices. Panics like [`Run::on`].
pub fn at_once(runs: &[Run]) -> Value {
    let mut survey = Survey::new();
    for run in runs {
        let (plan, without) = (run.plan(), |shot: &Shot| Shot { snapshot_every: None, ..shot.clone() });
        survey.extend(run.shots.iter().map(|shot| (plan.clone(), without(shot))));
    }
    let scheduler = scheduler("cuda", 1).unwrap_or_else(|why| panic!("{why}"));
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

/// Compares bit for bit, if the CPU fuses products and sums like a GPU.
pub fn agree(found: &Shots, expected: &Shots, what: &str) {
    if fused() {
        return same(found, expected, what);
    }
    let off = relative_l2(&found.record, &expected.record);
    assert!(off <= UNFUSED, "{what}: the record is {off:e} away from the CPU's");
}
