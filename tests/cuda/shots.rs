//! Shots on cards: the same bits as on the CPU, whichever card has them and whatever befalls it.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use gpusched::fd::plan::{Form, Options, Plan, Stencil, Storage};
use gpusched::fd::shot::{self, Output, Silent};
use gpusched::fd::survey::{Gather, Receivers, Shot};
use gpusched::sched::{AUTO_SLOTS, Exec, Scheduler, Task, TaskId};
use gpusched::{Error, Result};

use crate::fixtures::*;
use testkit::Random;
use testmodels::bits::{fused_or_skip, same};
use testmodels::gate;
use testmodels::golden::Case;
use testmodels::media::{rough, shot as random_shot, time_step};
use testmodels::norms::relative_l2;
use testmodels::pausing::in_parts;
use testmodels::scheduled_shots::{Survey, fire_all, fire_on};
use testmodels::shots::{Shots, fire_with, try_fire};

/// Odd sizes; legs that end for their length, for snapshots, and with the shot; samples that fill a leg and that don't.
pub fn shots_have_the_bits_of_the_cpu() {
    if !fused_or_skip() {
        return;
    }
    let scheduler = scheduler("cuda", 1).unwrap();
    let mut random = Random::new(21);
    let cases = [
        ([1, 1, 1], 8, 20, 1, None),
        ([5, 7, 17], 8, 33, 3, Some(9)),
        ([2, 3, 40], 9, 17, 1, Some(1)),
        ([9, 6, 3], 8, 40, 5, Some(16)),
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
        for form in Form::ALL {
            let stencil = if number % 2 == 1 { Stencil::Optimised } else { Stencil::Taylor };
            let storage = Storage::ALL[number / 2 % 2];
            let options =
                Options { pml, form, stencil, exact_time: number == 3, storage, ..Options::default() };
            let expected = fire_with(&model, time_step(&model), &shot, options, 2);
            let plan = Arc::new(Plan::new(model.clone(), time_step(&model), options).unwrap());
            same(&fire_on(&scheduler, plan, shot.clone()).unwrap(), &expected, &format!("{n:?}, {form:?}"));
        }
    }
    // A shot that nobody listens to.
    let model = rough([3, 3, 3], [10.0; 3], &mut random);
    let deaf = random_shot(&mut random, [3; 3], 20, Receivers::List(Vec::new()));
    let options = Options { pml: 8, ..Options::default() };
    let plan = Arc::new(Plan::new(model.clone(), time_step(&model), options).unwrap());
    assert!(fire_on(&scheduler, plan, deaf).unwrap().record.is_empty());
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
    let error = fire_on(&scheduler, plan, shot).err().expect("an overflow");
    assert!(matches!(&error, Error::Unstable { what, .. } if what.contains("after step 64")), "{error}");
}

/// A shot that ends while its pressure is on its way to infinity.
pub fn a_shot_that_blows_up_is_found() {
    let scheduler = scheduler("cuda", 1).unwrap();
    let mut random = Random::new(24);
    let model = rough([4, 4, 4], [10.0; 3], &mut random);
    let shot = random_shot(&mut random, [4; 3], 20, Receivers::List(vec![[0; 3]]));
    for form in Form::ALL {
        let options = Options { pml: 8, form, allow_unstable: true, ..Options::default() };
        let plan = Arc::new(Plan::new(model.clone(), 2.5 * time_step(&model), options).unwrap());
        let error = fire_on(&scheduler, plan, shot.clone()).err().expect("numbers that are far too large");
        assert!(matches!(error, Error::Unstable { .. }) && !error.is_suspect(), "{error}");
        for words in ["after step 20 ", "times the source", "worst at ", "CFL number", "may be at most"] {
            assert!(error.to_string().contains(words), "{error}");
        }
        if fused_or_skip() {
            let here = try_fire(&model, 2.5 * time_step(&model), &shot, options, 2).err().expect("the same");
            assert_eq!(error.to_string().replace("blown up, after step 20 ", "blown up, "), here.to_string());
        }
    }
}

/// A shot of two steps in a cube, and its plan.
fn cube(n: usize) -> (Arc<Plan>, Shot) {
    let mut random = Random::new(23);
    let model = rough([n; 3], [10.0; 3], &mut random);
    let options = Options { pml: 8, ..Options::default() };
    let plan = Arc::new(Plan::new(model.clone(), time_step(&model), options).unwrap());
    (plan, random_shot(&mut random, [n; 3], 2, Receivers::List(vec![[0; 3]])))
}

/// Submits it as any client does.
fn submit((plan, shot): (Arc<Plan>, Shot), scheduler: &Scheduler) -> gpusched::Result<TaskId> {
    let task = shot::task(plan.clone(), shot, scheduler.cpu_threads(), Nowhere)?;
    scheduler.submit(task).map_err(|error| plan.advise(error))
}

/// Where a gather goes that nobody looks at.
pub struct Nowhere;

impl Output for Nowhere {
    fn snapshot(&self, _: &Exec<'_>, _: usize, _: &[f32]) -> gpusched::Result<()> {
        Ok(())
    }

    fn finish(&self, _: &Exec<'_>, _: Gather) -> gpusched::Result<()> {
        Ok(())
    }
}

/// The size of the cube that is said to fit.
fn advised(error: &Error) -> usize {
    let words = error.to_string();
    let number = words.split("a cube of up to ").nth(1).and_then(|rest| rest.split(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{words}"))
}

/// Whoever follows the advice has a shot that runs, and one cell more is refused before it does.
pub fn what_would_fit_does() {
    let scheduler = scheduler("cuda", 1).unwrap();
    let error = submit(cube(200), &scheduler).unwrap_err();
    assert!(matches!(error, Error::NoMemory { there, .. } if there == 30 << 20), "{error}");
    let n = advised(&error);
    assert!(n > 30, "{error}");
    let id = submit(cube(n), &scheduler).unwrap();
    wait(&scheduler, id).unwrap();
    assert_eq!(advised(&submit(cube(n + 1), &scheduler).unwrap_err()), n);
}

/// Another process takes memory while a shot allocates its own: what is said in the end is of the whole shot.
pub fn a_card_that_gives_less_than_it_promised() {
    let scheduler = scheduler("cuda", 1).unwrap();
    let n = advised(&submit(cube(200), &scheduler).unwrap_err());
    let id = submit(cube(n), &scheduler).unwrap();
    let error = wait(&scheduler, id).unwrap_err();
    // The card's, without its context's 2 MiB and what the other has.
    assert!(matches!(error, Error::NoMemory { there, .. } if there == (30 << 20) - 8_000_000), "{error}");
    let smaller = advised(&error);
    assert!(smaller < n, "{error}");
    let id = submit(cube(smaller), &scheduler).unwrap();
    wait(&scheduler, id).unwrap();
}

/// A card that has room for many runs several at a time, if each by itself leaves it idle: a virtual card's time is a
/// pause of a launch, which those of other slots do not share.
pub fn small_shots_share_a_large_card() {
    let scheduler = scheduler("cuda", AUTO_SLOTS).unwrap();
    let ids: Vec<_> = (0..24).map(|_| submit(cube(5), &scheduler).unwrap()).collect();
    for id in ids {
        wait(&scheduler, id).unwrap();
    }
    let slots = scheduler.stats().unwrap().devices[0].slots;
    assert!((2..=8).contains(&slots), "{slots} slots");
    // Every change of their number makes other queues, and the context stays.
    assert!(told(0, "contexts_made") == 1 && told(0, "streams") > 1, "{}", report());
    drop(scheduler);
    assert_nothing_is_left();
}

/// It stops at the ends of legs, and what it leaves is all that the next part needs.
pub fn a_shot_goes_on_after_a_pause() {
    if !fused_or_skip() {
        return;
    }
    let scheduler = scheduler("cuda", 1).unwrap();
    let mut random = Random::new(29);
    for (form, snapshot_every) in [(Form::OnePass, Some(9)), (Form::OnePass, None), (Form::TwoSweeps, None)] {
        let n = [5, 4, 17];
        let model = rough(n, [10.0, 12.5, 8.0], &mut random);
        let shot = random_shot(&mut random, n, 90, Receivers::Plane { iz: 2, every: [1, 2] });
        let shot = Shot { record_every: 3, snapshot_every, ..shot };
        let options = Options { pml: 8, form, ..Options::default() };
        let expected = fire_with(&model, time_step(&model), &shot, options, 2);
        let plan = Plan::new(model.clone(), time_step(&model), options).unwrap();
        let parts = asked(&scheduler, move |exec| in_parts(&plan, &shot, &[1, 40], |_| exec.lane));
        let (found, ends) = parts.unwrap();
        assert!(ends.len() == 2 && ends[0] <= 32 && ends[1] > 40, "{ends:?}");
        same(&found, &expected, &format!("{form:?}, stopped after {ends:?}"));
    }
    drop(scheduler);
    assert_nothing_is_left();
}

/// Others who come later find the card's memory free.
pub fn a_process_that_sleeps_keeps_no_memory() {
    let scheduler = scheduler("cuda", 1).unwrap();
    let mut random = Random::new(31);
    let model = rough([5, 4, 17], [10.0; 3], &mut random);
    let shot = random_shot(&mut random, [5, 4, 17], 20, Receivers::List(vec![[0; 3]]));
    let options = Options { pml: 8, ..Options::default() };
    let plan = Arc::new(Plan::new(model.clone(), time_step(&model), options).unwrap());
    fire_on(&scheduler, plan, shot).unwrap();
    let begun = Instant::now();
    while told(0, "allocations") > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{}", report());
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(told(0, "contexts"), 1, "{}", report());
}

/// What code says on a card. Its task ends well.
fn asked<T: Send + 'static>(
    scheduler: &Scheduler,
    code: impl Fn(&Exec<'_>) -> Result<T> + Send + Sync + 'static,
) -> Result<T> {
    let told = Arc::new(Mutex::new(None));
    let place = told.clone();
    let task = Task::new(move |exec: &Exec<'_>| {
        *place.lock().unwrap() = Some(code(exec));
        Ok(())
    });
    run(scheduler, task).unwrap();
    told.lock().unwrap().take().expect("a task that has run")
}

/// It is not the card that has too little: the task may be tried again when others of the host have ended.
pub fn a_record_that_the_host_has_no_memory_for() {
    let scheduler = scheduler("cuda", 1).unwrap();
    let mut random = Random::new(23);
    let model = rough([3, 3, 3], [10.0; 3], &mut random);
    // 4 TB.
    let shot = random_shot(&mut random, [3; 3], 30, Receivers::List(vec![[0; 3]; 100_000]));
    let shot = Shot { nt: 10_000_000, ..shot };
    let options = Options { pml: 8, ..Options::default() };
    let plan = Plan::new(model.clone(), time_step(&model), options).unwrap();
    let error = asked(&scheduler, move |exec| shot::run(&plan, &shot, exec.lane, &Silent));
    let error = error.expect_err("too little memory");
    assert!(matches!(&error, Error::NoHostMemory { bytes: 4_000_000_000_000, .. }), "{error}");
}

/// Recorded cases of the old kernel, and the steps that the interpreter has time for: after an edit, and at
/// night, when one case runs as a whole.
const CASES: [(&str, [usize; 2]); 4] = [
    ("iso1_multishot", [8, 24]),
    ("iso1_decim5", [31, 101]),
    ("iso1_wtype3", [8, 24]),
    ("iso1_wtype1", [8, 24]),
];

/// The samples of a shot that ran for some of its steps, against the first of its record.
fn begins_as_recorded(found: &Shots, record: &[f32], what: &str) {
    let samples = record.len() * found.samples / found.record.len();
    let first: Vec<f32> = record.chunks(samples).flat_map(|trace| &trace[..found.samples]).copied().collect();
    let off = relative_l2(&found.record, &first);
    assert!(off <= gate::RECORD, "{what}: the first {} samples are off by {off:e}", found.samples);
}

/// Runs them on all cards: the records are the old kernel's, and those of the CPU to the last bit.
fn shoot(scheduler: &Scheduler) {
    let night = std::env::var("GPUSCHED_TEST_LEVEL").is_ok_and(|level| level == "night");
    let cases: Vec<_> = CASES.map(|(name, nt)| (name, nt[usize::from(night)], Case::load(name))).into();
    let shots = cases.iter().flat_map(|(name, nt, case)| {
        let cut = |shot| Shot { nt: *nt, snapshot_every: None, ..shot };
        case.shots().into_iter().map(cut).enumerate().map(move |(number, shot)| (*name, case, number, shot))
    });
    let shots: Vec<_> = shots.collect();
    let survey: Survey =
        shots.iter().map(|(_, case, _, shot)| (case.model.clone(), case.dt, shot.clone())).collect();
    for (found, (name, case, number, shot)) in fire_all(scheduler, &survey).iter().zip(&shots) {
        let what = format!("{name}, shot {number}");
        begins_as_recorded(found, &case.records()[*number], &what);
        if fused_or_skip() {
            same(found, &fire_with(&case.model, case.dt, shot, Options::default(), 2), &what);
        }
    }
}

pub fn the_old_cases_on_four_cards() {
    let scheduler = scheduler("cuda", 1).unwrap();
    shoot(&scheduler);
    let used = (0..4).filter(|&card| told(card, "contexts_made") > 0).count();
    assert!(used >= 3, "{used} of 4 cards have worked");
    for card in 0..4 {
        assert!(told(card, "module_loads") <= 4);
    }
    drop(scheduler);
    assert_nothing_is_left();
}
