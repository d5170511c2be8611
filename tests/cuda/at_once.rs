//! Several small shots at a time on a card: each on a stream of its own, with what their plan has uploaded once.

use std::sync::{Arc, Mutex};

use gpusched::Result;
use gpusched::fd::plan::{Options, Plan};
use gpusched::fd::shot::{self, Output};
use gpusched::fd::survey::{Gather, Receivers, Shot};
use gpusched::sched::{Exec, Scheduler};

use crate::fixtures::*;
use testkit::Random;
use testmodels::bits::fused_or_skip;
use testmodels::media::{rough, shot as random_shot, time_step};
use testmodels::shots::fire_with;

const SLOTS: u32 = 4;
const SHOTS: usize = 8;

type Records = Arc<Mutex<Vec<Vec<f32>>>>;

/// Where the gather of a shot goes.
struct Place(Records, usize);

impl Output for Place {
    fn snapshot(&self, _: &Exec<'_>, _: usize, _: &[f32]) -> Result<()> {
        Ok(())
    }

    fn finish(&self, _: &Exec<'_>, gather: Gather) -> Result<()> {
        self.0.lock().unwrap()[self.1] = gather.data;
        Ok(())
    }
}

/// All shots with one plan; their records.
fn survey(scheduler: &Scheduler, plan: &Arc<Plan>, shots: &[Shot]) -> Vec<Vec<f32>> {
    let records: Records = Arc::new(Mutex::new(vec![Vec::new(); shots.len()]));
    let submit = |(number, shot): (usize, &Shot)| {
        let task = shot::task(plan.clone(), shot.clone(), 0, Place(records.clone(), number)).unwrap();
        scheduler.submit(task).unwrap()
    };
    for id in shots.iter().enumerate().map(submit).collect::<Vec<_>>() {
        wait(scheduler, id).unwrap();
    }
    std::mem::take(&mut *records.lock().unwrap())
}

pub fn small_shots_overlap_and_share_their_plan() {
    let scheduler = scheduler("cuda", SLOTS).unwrap();
    let (n, mut random) = ([3, 2, 4], Random::new(51));
    let model = rough(n, [10.0, 12.5, 8.0], &mut random);
    let options = Options { pml: 8, ..Options::default() };
    let plan = Arc::new(Plan::new(model.clone(), time_step(&model), options).unwrap());
    // Alike in size, so that a later one may have the memory of an earlier.
    let mut one = || Shot {
        source: random.cell(n),
        ..random_shot(&mut random, n, 40, Receivers::Plane { iz: 1, every: [1, 1] })
    };
    let shots: Vec<Shot> = (0..SHOTS).map(|_| one()).collect();
    let records = survey(&scheduler, &plan, &shots);
    for (record, shot) in records.iter().zip(&shots) {
        let expected = fire_with(&model, time_step(&model), shot, options, 2).record;
        assert!(!fused_or_skip() || *record == expected, "the bits of {:?}", shot.source);
    }

    // A kernel of each slot's shot at a time, and none of a stream that others wait for.
    // Modules: what the forms have in common, a step in each of two shapes, the source.
    assert_eq!(told(0, "together"), u64::from(SLOTS), "{}", report());
    assert_eq!(
        (told(0, "contexts_made"), told(0, "streams"), told(0, "module_loads")),
        (1, u64::from(SLOTS), 4)
    );
    // What was promised to shots at a time is more than they took, also when others come after them: what they share
    // is in each promise. The pages into which two legs of each come are few.
    survey(&scheduler, &plan, &shots);
    let promised = plan.shot_bytes(&shots[0], 0).device;
    let (used, context) = (told(0, "peak_bytes"), 8 << 20);
    assert!(used <= context + u64::from(SLOTS) * promised, "{used} bytes, {promised} a shot");
    assert!(report()["pinned"].as_u64() <= Some(6 * u64::from(SLOTS)), "{}", report());
    drop((scheduler, plan));
    assert_nothing_is_left();
}
