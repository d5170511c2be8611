//! Shots on cards: the same bits as on the CPU, whichever card has them and whatever befalls it.

use std::cell::RefCell;
use std::sync::{Arc, Mutex};

use gpusched::backend::Lane;
use gpusched::fd::model::Model;
use gpusched::fd::plan::{Options, Plan};
use gpusched::fd::shot::{self, Control, Output};
use gpusched::fd::survey::{Gather, Receivers, Shot};
use gpusched::fd::wavelet::Wavelet;
use gpusched::sched::{Exec, Scheduler, TaskId};
use gpusched::{Error, Result};

use crate::cards::*;
use crate::support::golden::Case;
use crate::support::random::{Random, rough, time_step};
use crate::support::shooting::{Shots, fire_with};

/// Rust rounds products and sums twice on a processor that can't fuse them, and a card never does.
fn fused() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    return cfg!(target_arch = "aarch64");
}

#[derive(Default)]
struct Keep(RefCell<Vec<(usize, Vec<f32>)>>, RefCell<Vec<usize>>);

impl Control for Keep {
    fn step(&self, step: usize, _: usize) -> Result<()> {
        self.1.borrow_mut().push(step);
        Ok(())
    }

    fn snapshot(&self, step: usize, field: &[f32]) -> Result<()> {
        self.0.borrow_mut().push((step, field.to_vec()));
        Ok(())
    }
}

fn same(found: &Shots, expected: &Shots, what: &str) {
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert!(expected.record.is_empty() || expected.record.iter().any(|v| *v != 0.0), "{what}: nothing heard");
    assert!(bits(&found.record) == bits(&expected.record), "{what}: the records differ");
    assert_eq!(found.snapshots.len(), expected.snapshots.len(), "{what}: snapshots");
    for (found, expected) in found.snapshots.iter().zip(&expected.snapshots) {
        assert!(found.0 == expected.0 && bits(&found.1) == bits(&expected.1), "{what}: snapshot {}", found.0);
    }
}

fn random_shot(random: &mut Random, n: [usize; 3], nt: usize, receivers: Receivers) -> Shot {
    let samples = (0..nt * 2 / 3).map(|_| random.between(-1.0, 1.0)).collect();
    Shot {
        source: random.cell(n),
        wavelet: Wavelet::from_samples(samples).unwrap(),
        amplitude: 10_000.0,
        nt,
        receivers,
        record_every: 1,
        snapshot_every: None,
        mute: None,
    }
}

/// On the card that the scheduler has.
fn on_card(scheduler: &Scheduler, plan: Arc<Plan>, shot: Shot) -> Result<Shots> {
    let place = Arc::new(Mutex::new(None));
    let to = place.clone();
    run(
        scheduler,
        task(move |stream| {
            let keep = Keep::default();
            let gather = shot::run(&plan, &shot, Lane::Cuda(stream), &keep)?;
            assert_eq!(
                *keep.1.borrow(),
                (0..shot.nt).collect::<Vec<_>>(),
                "every step is told once, in order"
            );
            let snapshots = keep.0.into_inner();
            *to.lock().unwrap() = Some(Shots { record: gather.data, samples: gather.samples, snapshots });
            Ok(())
        }),
    )?;
    Ok(place.lock().unwrap().take().expect("the task ran"))
}

/// Odd sizes; legs that end for their length, for snapshots, and with the shot; samples that fill a leg and that don't.
pub fn shots_have_the_bits_of_the_cpu() {
    if !fused() {
        return;
    }
    let scheduler = scheduler("cuda", 1).unwrap();
    let mut random = Random::new(21);
    let cases = [
        ([1, 1, 1], 8, 20, 1, None),
        ([5, 7, 17], 8, 33, 3, Some(9)),
        ([2, 3, 40], 9, 17, 1, Some(1)),
        ([9, 6, 3], 8, 40, 7, Some(16)),
        ([3, 4, 5], 8, 70, 40, None),
    ];
    for (number, (n, pml, nt, record_every, snapshot_every)) in cases.into_iter().enumerate() {
        let model = rough(n, [10.0, 12.5, 8.0], &mut random);
        let receivers = match number {
            0 => Receivers::List(vec![[0; 3]; 3]),
            4 => Receivers::List((0..7).map(|_| random.cell(n)).collect()),
            _ => Receivers::Plane { iz: n[2] / 2, every: [1, 2] },
        };
        let shot = random_shot(&mut random, n, nt, receivers);
        let shot = Shot { record_every, snapshot_every, ..shot };
        let options = Options { pml, ..Options::default() };
        let expected = fire_with(&model, time_step(&model), &shot, options, 2);
        let plan = Arc::new(Plan::new(model.clone(), time_step(&model), options).unwrap());
        same(&on_card(&scheduler, plan, shot).unwrap(), &expected, &format!("{n:?}"));
    }
    // A shot that nobody listens to.
    let model = rough([3, 3, 3], [10.0; 3], &mut random);
    let deaf = random_shot(&mut random, [3; 3], 20, Receivers::List(Vec::new()));
    let options = Options { pml: 8, ..Options::default() };
    let plan = Arc::new(Plan::new(model.clone(), time_step(&model), options).unwrap());
    assert!(on_card(&scheduler, plan, deaf).unwrap().record.is_empty());
    drop(scheduler);
    assert_nothing_is_left();
}

pub fn numbers_that_are_none_are_found() {
    let scheduler = scheduler("cuda", 1).unwrap();
    let mut random = Random::new(22);
    let model = rough([4, 4, 4], [10.0; 3], &mut random);
    let mut shot = random_shot(&mut random, [4; 3], 80, Receivers::List(vec![[0; 3]]));
    shot.amplitude = f32::MAX;
    let options = Options { pml: 8, ..Options::default() };
    let plan = Arc::new(Plan::new(model.clone(), time_step(&model), options).unwrap());
    let error = on_card(&scheduler, plan, shot).err().expect("an overflow");
    assert!(matches!(&error, Error::Unstable { what, .. } if what.contains("after step 64")), "{error}");
}

/// Where the gathers of a survey go; each must come once.
struct Gathers(Arc<Mutex<Vec<Option<Gather>>>>, usize);

impl Output for Gathers {
    fn snapshot(&self, _: &Exec<'_>, _: usize, _: &[f32]) -> Result<()> {
        Ok(())
    }

    fn finish(&self, _: &Exec<'_>, gather: Gather) -> Result<()> {
        let earlier = self.0.lock().unwrap()[self.1].replace(gather);
        assert!(earlier.is_none(), "shot {} came twice", self.1);
        Ok(())
    }
}

/// The first steps of the old kernel's cases, whose whole records the CPU's propagator is held against elsewhere.
fn survey() -> Vec<(Arc<Model>, f32, Shot)> {
    let mut shots = Vec::new();
    for (name, nt) in [("iso1_multishot", 18), ("iso1_decim5", 20), ("iso1_wtype3", 18), ("iso1_wtype1", 18)]
    {
        let case = Case::load(name);
        shots.extend(
            case.shots()
                .into_iter()
                .map(|shot| (case.model.clone(), case.dt, Shot { nt, snapshot_every: None, ..shot })),
        );
    }
    shots
}

/// Runs the survey on all cards and compares.
fn shoot(scheduler: &Scheduler) {
    let shots = survey();
    let place = Arc::new(Mutex::new(vec![None; shots.len()]));
    let ids: Vec<TaskId> = shots
        .iter()
        .enumerate()
        .map(|(number, (model, dt, shot))| {
            let plan = Arc::new(Plan::new(model.clone(), *dt, Options::default()).unwrap());
            let task = shot::task(plan, shot.clone(), Gathers(place.clone(), number)).unwrap();
            scheduler.submit(task).unwrap()
        })
        .collect();
    for id in ids {
        wait(scheduler, id).unwrap();
    }
    for (number, (model, dt, shot)) in shots.iter().enumerate() {
        let expected = fire_with(model, *dt, shot, Options::default(), 2);
        let gather = place.lock().unwrap()[number].take().expect("every shot has come");
        let found = Shots { record: gather.data, samples: gather.samples, snapshots: Vec::new() };
        if fused() {
            same(&found, &expected, &format!("shot {number}"));
        }
    }
}

pub fn the_old_cases_on_four_cards() {
    let scheduler = scheduler("cuda", 1).unwrap();
    shoot(&scheduler);
    let used = (0..4).filter(|&card| told(card, "contexts_made") > 0).count();
    assert!(used >= 3, "{used} of 4 cards have worked");
    for card in 0..4 {
        assert!(told(card, "module_loads") <= 1);
    }
    drop(scheduler);
    assert_nothing_is_left();
}
