//! Times that the command's benchmark does not measure, for each grid: seconds of the first shot
//! and of later ones; with many receivers and with one; with several shots at a time. All shots
//! must have the record of the first, bit for bit, and the first steps that of the CPU.

use std::sync::Arc;
use std::time::Instant;

use gpusched::fd::model::Model;
use gpusched::fd::plan::{Options, Plan};
use gpusched::fd::survey::{Receivers, Shot};
use serde_json::{Value, json};

use testmodels::bits::{fused, same};
use testmodels::shots::{Shots, fire_all, fire_on, fire_with, homogeneous, plain_shot, time_step};

use crate::golden::agree;
use crate::{grid, layer, scheduler, steps, told};

/// Steps that are compared with the CPU: 1.3e9 cells at 300 cubed with layers of 20, about a second.
const COMPARED_STEPS: usize = 32;

pub fn run(gpus: &[String], grids: &[&str]) -> Vec<bool> {
    let cases = gpus.iter().flat_map(|gpu| grids.iter().map(move |text| (gpu, text)));
    cases
        .map(|(gpu, text)| {
            let what = json!({ "case": "shots", "device": gpu, "grid": text });
            told(what, || shots(gpu, grid(text)))
        })
        .collect()
}

fn shot(n: [usize; 3], nt: usize, receivers: Vec<[usize; 3]>) -> Shot {
    plain_shot(n.map(|n| n / 2 - 1), vec![1e-3; nt.min(100)], nt, receivers)
}

/// Whole shots, with a receiver in each cell of the surface.
fn shots(gpu: &str, n: [usize; 3]) -> Value {
    let nt = steps().unwrap_or(1000);
    let model = homogeneous(n, [10.0; 3], 2000.0, 1500.0);
    let options = Options { pml: layer(), ..Default::default() };
    let plan = Arc::new(Plan::new(model.clone(), time_step(&model), options).unwrap());
    let few = shot(n, nt, vec![[0; 3]]);
    let many = Shot { receivers: Receivers::Plane { iz: 0, every: [1, 1] }, ..few.clone() };
    // Returns the records of so many shots at a time, and the seconds until the last has ended.
    let fired = |shots: usize, shot: &Shot| {
        let scheduler = scheduler(gpu, shots as u32).unwrap();
        let survey = vec![(plan.clone(), shot.clone()); shots];
        move || {
            let begin = Instant::now();
            let found = fire_all(&scheduler, &survey);
            (found, begin.elapsed().as_secs_f64())
        }
    };
    let one = fired(1, &many);
    let (mut found, first) = one();
    let expected = found.remove(0);
    let checked = |(found, seconds): (Vec<Shots>, f64), what: &str| {
        found.iter().for_each(|found| same(found, &expected, what));
        seconds
    };
    let later: Vec<f64> = (0..3).map(|_| checked(one(), "a later shot")).collect();
    let best = |seconds: &[f64]| seconds.iter().copied().fold(f64::INFINITY, f64::min);
    let quiet = fired(1, &few);
    let quiet: Vec<f64> = (0..3).map(|_| quiet().1).collect();
    let beside = [2, 3].map(|count| {
        let several = fired(count, &many);
        best(&[(); 3].map(|()| checked(several(), &format!("one of {count} shots at a time"))))
    });
    // After the measurements, which begin with the first shot of the process.
    same_as_on_cpu(gpu, &model, &plan, &many);
    let (next, quiet) = (best(&later), best(&quiet));
    json!({
        "steps": nt, "first_s": first, "second_s": later[0], "next_s": next, "one_receiver_s": quiet,
        "two_at_once_s": beside[0], "three_at_once_s": beside[1], "bits": fused(),
    })
}

/// Compares the first steps of a shot with the CPU, at receivers at the depth of the source.
fn same_as_on_cpu(gpu: &str, model: &Arc<Model>, plan: &Arc<Plan>, shot: &Shot) {
    let nt = shot.nt.min(COMPARED_STEPS);
    let shot = Shot { nt, receivers: Receivers::Plane { iz: shot.source[2], every: [1, 1] }, ..shot.clone() };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let expected = fire_with(model, plan.dt, &shot, plan.options, threads);
    let found = fire_on(&scheduler(gpu, 1).unwrap(), plan.clone(), shot).unwrap();
    agree(&found, &expected, "the first steps");
}
