//! Times that the command's benchmark does not measure, for each grid: seconds of the first shot
//! and of later ones; with many receivers and with one; with several shots at a time.

use std::sync::Arc;
use std::time::Instant;

use gpusched::fd::plan::{Options, Plan};
use gpusched::fd::survey::{Receivers, Shot};
use serde_json::{Value, json};

use testmodels::shots::{fire_all, homogeneous, plain_shot, time_step};

use crate::{grid, layer, scheduler, steps, told};

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
    let seconds = |slots: u32, shots: usize, shot: &Shot| {
        let scheduler = scheduler(gpu, slots).unwrap();
        let survey = vec![(plan.clone(), shot.clone()); shots];
        move || {
            let begin = Instant::now();
            fire_all(&scheduler, &survey);
            begin.elapsed().as_secs_f64()
        }
    };
    let one = seconds(1, 1, &many);
    let first: Vec<f64> = (0..4).map(|_| one()).collect();
    let next = first[1..].iter().copied().fold(f64::INFINITY, f64::min);
    let best = |run: &dyn Fn() -> f64| (0..3).map(|_| run()).fold(f64::INFINITY, f64::min);
    let quiet = best(&seconds(1, 1, &few));
    let beside: Vec<f64> = [2, 3].map(|count| best(&seconds(count as u32, count, &many))).into();
    json!({
        "steps": nt, "first_s": first[0], "second_s": first[1], "next_s": next, "one_receiver_s": quiet,
        "two_at_once_s": beside[0], "three_at_once_s": beside[1],
    })
}
