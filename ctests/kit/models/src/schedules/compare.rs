//! Runs policies in worlds. Results are the mean and the 95th percentile of the makespan over its
//! bound.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use gpusched::sched::simulation::{self, Scenario};

use super::greedy::greedy;
use super::worlds::{Mishap, Node, Shots, clairvoyant, untold, world};

pub struct Policy {
    pub name: &'static str,
    pub makespan: fn(&Scenario) -> f64,
    pub ours: bool,
    /// Information of the policy: 0 nothing, 1 guessed speeds, 2 also guessed work, 3 the truth.
    pub told: u32,
}

pub const fn rival(name: &'static str, told: u32, makespan: fn(&Scenario) -> f64) -> Policy {
    Policy { name, makespan, ours: false, told }
}

const fn ours(name: &'static str, told: u32, makespan: fn(&Scenario) -> f64) -> Policy {
    Policy { name, makespan, ours: true, told }
}

pub const POLICIES: [Policy; 5] = [
    rival("greedy", 0, greedy),
    ours("ours, uninformed", 0, |world| run(&untold(world, false, false))),
    ours("ours, no hints", 1, |world| run(&untold(world, false, true))),
    ours("ours", 2, run),
    ours("ours, exact", 3, |world| run(&clairvoyant(world))),
];

fn run(world: &Scenario) -> f64 {
    let report = simulation::run(world);
    if report.counts.done == world.tasks.len() as u64 { report.makespan } else { f64::INFINITY }
}

#[derive(Clone, Copy)]
pub struct Case {
    pub node: &'static Node,
    pub count: usize,
    pub shots: Shots,
    pub mishap: Mishap,
}

impl Case {
    pub fn name(&self) -> String {
        format!("{} · {} · {}{}", self.node.name, self.count, self.shots.name(), self.mishap.name())
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Ratios {
    pub mean: f64,
    pub p95: f64,
}

pub fn ratios(case: &Case, policy: &Policy, seeds: u64) -> Ratios {
    let next = AtomicU64::new(0);
    let all = Mutex::new(Vec::new());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return;
            }
            let world = world(case.node, case.count, case.shots, case.mishap, seed);
            let ratio = (policy.makespan)(&world) / simulation::lower_bound(&world);
            all.lock().unwrap_or_else(PoisonError::into_inner).push(ratio);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    all.sort_by(f64::total_cmp);
    let p95 = all[(0.95 * (all.len() - 1) as f64).round() as usize];
    Ratios { mean: all.iter().sum::<f64>() / all.len() as f64, p95 }
}
