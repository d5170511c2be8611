//! Shots on GPUs: the same bits as on the CPU on every GPU and after every failure.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use gpusched::device::BackendKind;
use gpusched::error::human;
use gpusched::fd::equation::{Absorber, EQUATIONS, Equation, WITH_OTHER_LAYER, by_name, with_absorber};
use gpusched::fd::grid::Grid;
use gpusched::fd::model::Model;
use gpusched::fd::plan::{Options, Plan, Stencil, Storage};
use gpusched::fd::shot::ShotOutput;
use gpusched::fd::survey::{Effort, Gather, Receivers, Shot, SourceKind};
use gpusched::fd::{control::Silent, shot};
use gpusched::sched::{AUTO_SLOTS, Exec, Scheduler, TaskId};
use gpusched::{Error, Result};

use crate::fixtures::*;
use testkit::Random;
use testmodels::bits::{fused_or_skip, same};
use testmodels::shots::{NOWHERE, Survey, World, fire_all, in_parts, on_device, try_fire};

fn one_trace(n: [usize; 3], nt: usize, seed: u64) -> World {
    World::rough(n, nt, Receivers::List(vec![[0; 3]]), &mut Random::new(seed))
}

/// Odd sizes; batches that end at their full length, at snapshots, and with the shot; samples that fill a batch or do not.
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
    let equations = EQUATIONS.into_iter().chain(WITH_OTHER_LAYER);
    let cases = equations.flat_map(|equation| cases.map(|case| (equation, case))).enumerate();
    for (number, (equation, (n, pml, nt, record_every, snapshot_every))) in cases {
        let receivers = match number % 5 {
            0 => Receivers::List(vec![[0; 3]; 3]),
            4 => Receivers::List((0..7).map(|_| random.cell(n)).collect()),
            _ => Receivers::Plane { iz: n[2] / 2, every: [1, 2] },
        };
        let mut world = World::rough_for(equation, n, nt, receivers, &mut random);
        let kind = SourceKind::NAMED[(number + number / 5) % 5].1.clone();
        world.shot = Shot { record_every, snapshot_every, kind, ..world.shot };
        let stencil = if number % 2 == 1 { Stencil::Optimised } else { Stencil::Taylor };
        let storage = if equation.name() == "tti" { Storage::Float32 } else { Storage::ALL[number / 2 % 2] };
        world.options = Options { pml, stencil, exact_time: number % 5 == 0, storage, ..world.options };
        same(&world.fire_on(&scheduler).unwrap(), &world.fire(), &format!("{equation:?}, {n:?}"));
    }
    let without_receivers = World::rough([3; 3], 20, Receivers::List(Vec::new()), &mut random);
    assert!(without_receivers.fire_on(&scheduler).unwrap().record.is_empty());
}

/// The shot ends while its pressure grows without limit.
pub fn a_shot_that_blows_up_is_found() {
    let scheduler = scheduler("cuda", 1).unwrap();
    let mut world = one_trace([4; 3], 20, 24);
    world.dt *= 2.5;
    world.options = Options { pml: 8, allow_unstable: true, ..Options::default() };
    let error = world.fire_on(&scheduler).err().expect("numbers that are far too large");
    assert!(matches!(error, Error::Unstable { .. }) && !error.is_suspect(), "{error}");
    let words = ["after step 20 ", "times the source", "worst at ", "CFL number", "may be at most"];
    assert!(words.iter().all(|words| error.to_string().contains(words)), "{error}");
    if fused_or_skip() {
        let on_cpu = try_fire(&world.model, world.dt, &world.shot, world.options, 2).err().expect("the same");
        assert_eq!(error.to_string().replace("blown up, after step 20 ", "blown up, "), on_cpu.to_string());
    }
}

fn has_context() -> bool {
    let mut context = 0_usize;
    cu!(cuCtxGetCurrent(&mut context => &mut usize)) == 0 && context != 0
}

struct FindsContext;

impl ShotOutput for FindsContext {
    fn snapshot(&self, _: &Exec<'_>, _: usize, _: &[f32]) -> Result<()> {
        assert!(has_context(), "at a snapshot");
        Ok(())
    }

    fn finish(&self, _: &Exec<'_>, _: Gather, _: Effort) -> Result<()> {
        assert!(has_context(), "at the end");
        Ok(())
    }
}

/// The shot closes its second stream at its end.
pub fn context_is_current_after_a_shot() {
    let scheduler = scheduler("cuda", 1).unwrap();
    let (plan, shot) = cube(5);
    let shot = Shot { snapshot_every: Some(1), ..shot };
    let task = shot::task(plan.clone(), shot.clone(), 1, FindsContext).unwrap();
    let id = scheduler.submit(task).unwrap();
    wait(&scheduler, id).unwrap();
    let after = on_device(&scheduler, move |exec| {
        shot::run(&plan, &shot, exec.lane, &Silent)?;
        Ok(has_context())
    });
    assert_eq!(after, Ok(true));
}

fn cube(n: usize) -> (Arc<Plan>, Shot) {
    cube_for(EQUATIONS[0], n)
}

fn cube_for(equation: &'static dyn Equation, n: usize) -> (Arc<Plan>, Shot) {
    let receivers = Receivers::List(vec![[0; 3]]);
    let world = World::rough_for(equation, [n; 3], 2, receivers, &mut Random::new(23));
    (world.plan(), world.shot)
}

fn submit((plan, shot): (Arc<Plan>, Shot), scheduler: &Scheduler) -> gpusched::Result<TaskId> {
    let task = shot::task(plan.clone(), shot, scheduler.cpu_threads(), NOWHERE)?;
    scheduler.submit(task).map_err(|error| plan.advise(error))
}

fn advised(error: &Error) -> usize {
    let words = error.to_string();
    let number = words.split("a cube of up to ").nth(1).and_then(|rest| rest.split(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{words}"))
}

/// A shot of the advised size runs, and one cell more is refused.
pub fn shot_of_the_advised_size_fits() {
    let scheduler = scheduler("cuda", 1).unwrap();
    for equation in EQUATIONS.into_iter().chain(WITH_OTHER_LAYER) {
        let error = submit(cube_for(equation, 200), &scheduler).unwrap_err();
        assert!(matches!(error, Error::NoMemory { there, .. } if there == 30 << 20), "{error}");
        let n = advised(&error);
        assert!(n > 30, "{error}");
        let id = submit(cube_for(equation, n), &scheduler).unwrap();
        wait(&scheduler, id).unwrap();
        assert_eq!(advised(&submit(cube_for(equation, n + 1), &scheduler).unwrap_err()), n);
    }
}

/// A kernel computes positions in 32 bits, so the shot is refused when it is submitted and not when it begins on the GPU.
pub fn a_field_of_too_many_values_needs_the_cpu() {
    let n = [1, 1, 80];
    let model = Model::new(Grid { n, h: [10.0; 3] }, vec![2000.0; 80], None).unwrap();
    let options = Options { pml: 1000, ..Options::default() };
    let plan = Arc::new(Plan::new(model.into(), 1e-3, options).unwrap());
    let shot = Shot { nt: 1, ..Shot::default() };
    let task = shot::task(plan.clone(), shot.clone(), 1, NOWHERE).unwrap();
    assert_eq!(task.backends, [BackendKind::Cpu]);
    let error = submit((plan, shot), &scheduler("cuda", 1).unwrap()).unwrap_err();
    let words = ["a field has 8328322112 values", "at most 4294967295", "add cpu to GPUSCHED_DEVICES"];
    assert!(words.iter().all(|words| error.to_string().contains(words)), "{error}");
}

/// Another process takes memory while a shot allocates its own. The message counts the whole shot.
pub fn a_gpu_that_gives_less_than_it_promised() {
    let scheduler = scheduler("cuda", 1).unwrap();
    let n = advised(&submit(cube(200), &scheduler).unwrap_err());
    let id = submit(cube(n), &scheduler).unwrap();
    let error = wait(&scheduler, id).unwrap_err();
    // The GPU's memory, without the context's 2 MiB and the other process's share.
    assert!(matches!(error, Error::NoMemory { there, .. } if there == (30 << 20) - 8_000_000), "{error}");
    let smaller = advised(&error);
    assert!(smaller < n, "{error}");
    let id = submit(cube(smaller), &scheduler).unwrap();
    wait(&scheduler, id).unwrap();
}

/// A shot that an empty GPU would hold fails with the numbers and the reason, not with advice about its size.
pub fn a_gpu_whose_memory_others_hold() {
    let scheduler = scheduler("cuda", 1).unwrap();
    let id = submit(cube(5), &scheduler).unwrap();
    let error = wait(&scheduler, id).unwrap_err();
    let Error::NoMemory { needed, there, .. } = error else { panic!("{error}") };
    assert!(there < needed && there == (30 << 20) - 31_200_000, "{error}");
    let words =
        [&human(needed), "others hold all but 251.25 KiB of the 32.00 MiB of cuda:0", "another device"];
    assert!(words.iter().all(|words| error.to_string().contains(words)), "{error}");
    assert!(!error.to_string().contains("one cell"), "{error}");
}

/// A virtual GPU's time is a pause of a launch, which launches of other slots do not share.
pub fn small_shots_share_a_large_gpu() {
    let scheduler = scheduler("cuda", AUTO_SLOTS).unwrap();
    let ids: Vec<_> = (0..24).map(|_| submit(cube(5), &scheduler).unwrap()).collect();
    ids.into_iter().for_each(|id| _ = wait(&scheduler, id).unwrap());
    let slots = scheduler.stats().unwrap().devices[0].slots;
    assert!((2..=8).contains(&slots), "{slots} slots");
    // Every change of their number makes other queues, and the context stays.
    assert!(driver_count(0, "contexts_made") == 1 && driver_count(0, "streams") > 1, "{}", report());
}

/// Shots on one plan, each on a stream of its own, share what the plan uploads.
pub fn small_shots_overlap_and_share_their_plan() {
    const SLOTS: u32 = 4;
    let scheduler = scheduler("cuda", SLOTS).unwrap();
    let mut random = Random::new(51);
    let world = World::rough([3, 2, 4], 40, Receivers::Plane { iz: 1, every: [1, 1] }, &mut random);
    let plan = world.plan();
    // All shots have one size, so a later one may reuse the memory of an earlier one.
    let mut elsewhere = || Shot { source: random.cell([3, 2, 4]), ..world.shot.clone() };
    let survey: Survey = (0..8).map(|_| (plan.clone(), elsewhere())).collect();
    for (found, (_, shot)) in fire_all(&scheduler, &survey).iter().zip(&survey) {
        let expected = World { shot: shot.clone(), ..world.clone() }.fire();
        assert!(!fused_or_skip() || *found == expected, "the bits of {:?}", shot.source);
    }

    // A kernel of each slot's shot at a time, and none of a stream that others wait for.
    // Modules: snapshot and peak, the step, the source.
    assert_eq!(driver_count(0, "together"), u64::from(SLOTS), "{}", report());
    let made = ["contexts_made", "streams", "module_loads"].map(|what| driver_count(0, what));
    assert_eq!(made, [1, u64::from(SLOTS), 3]);
    // The promise to each shot counts what they share. Two batches of each in flight use few pinned pages.
    fire_all(&scheduler, &survey);
    let promised = plan.shot_bytes(&survey[0].1, 0).device;
    let (used, context) = (driver_count(0, "peak_bytes"), 8 << 20);
    assert!(used <= context + u64::from(SLOTS) * promised, "{used} bytes, {promised} a shot");
    assert!(report()["pinned"].as_u64() <= Some(6 * u64::from(SLOTS)), "{}", report());
}

/// The shot stops at the ends of batches, and its state has all that the next part needs.
pub fn a_shot_goes_on_after_a_pause() {
    if !fused_or_skip() {
        return;
    }
    let scheduler = scheduler("cuda", 1).unwrap();
    let mut random = Random::new(29);
    let cases = [("acoustic1", Some(9)), ("acoustic1", None), ("acoustic2", Some(9))];
    let anisotropic = [("vti", Some(9)), ("tti", Some(9)), ("old tti", Some(9))];
    for (number, (equation, snapshot_every)) in cases.into_iter().chain(anisotropic).enumerate() {
        let equation = match equation {
            "old tti" => with_absorber(by_name("tti").unwrap(), Absorber::Pml).unwrap(),
            name => by_name(name).unwrap(),
        };
        let receivers = Receivers::Plane { iz: 2, every: [1, 2] };
        // In a long model, tiles at the far end are at rest at the first pause.
        let n = if number == 1 { [50, 4, 5] } else { [5, 4, 17] };
        let mut world = World::rough_for(equation, n, 90, receivers, &mut random);
        world.shot.source = if number == 1 { [0; 3] } else { world.shot.source };
        let kind = SourceKind::NAMED[number % SourceKind::NAMED.len()].1.clone();
        world.shot = Shot { record_every: 3, snapshot_every, kind, ..world.shot };
        let (plan, shot) = (world.plan(), world.shot.clone());
        let parts = on_device(&scheduler, move |exec| in_parts(&plan, &shot, &[1, 40], |_| exec.lane));
        let (found, ends, _) = parts.unwrap();
        assert!(ends.len() == 2 && ends[0] <= 32 && ends[1] > 40, "{ends:?}");
        same(&found, &world.fire(), &format!("stopped after {ends:?}"));
    }
}

/// Returns the share of computed cells in the last part of a shot, and the steps at its pauses.
fn share(scheduler: &Scheduler, world: &World, nt: usize, pauses: &'static [usize]) -> (f64, Vec<usize>) {
    let (plan, shot) = (world.plan(), Shot { nt, ..world.shot.clone() });
    let parts = on_device(scheduler, move |exec| in_parts(&plan, &shot, pauses, |_| exec.lane));
    let (_, ends, effort) = parts.unwrap();
    (effort.computed, ends)
}

/// The parts of a shot compute as many cells as the whole shot.
pub fn share_of_computed_cells_is_that_of_the_steps() {
    let scheduler = scheduler("cuda", 1).unwrap();
    let mut random = Random::new(37);
    for equation in EQUATIONS.into_iter().chain(WITH_OTHER_LAYER) {
        let mut world = |n, wavelet: &[f32]| {
            let mut world = World::rough_for(equation, n, 40, Receivers::List(Vec::new()), &mut random);
            world.shot.source = [0; 3];
            world.shot.wavelet.samples = wavelet.to_vec();
            world
        };
        assert_eq!(share(&scheduler, &world([3; 3], &[1.0]), 2, &[]).0, 1.0, "{equation:?}");
        // Blocks compute 16 rows of x each: those with the source and those beside them.
        let [updated, computed] = [106 + 2 * 4, 2 * 16].map(f64::from);
        let silent = share(&scheduler, &world([106, 2, 4], &[0.0]), 3, &[]).0;
        assert!((silent - computed / updated).abs() < 1e-12, "{equation:?}: {silent}");
        let world = world([106, 2, 4], &[1.0]);
        let (last, ends) = share(&scheduler, &world, 40, &[1]);
        let [whole, first] = [40, ends[0]].map(|nt| share(&scheduler, &world, nt, &[]).0);
        let parts = first * ends[0] as f64 + last * (40 - ends[0]) as f64;
        assert!((40.0 * whole - parts).abs() < 1e-9, "{equation:?}: {whole}, {first} and {last}");
        assert!(computed / updated < first && first < last && last < 1.0, "{equation:?}: {first}, {last}");
    }
}

/// Later processes find the GPU's memory free while the plan exists.
pub fn idle_plan_caches_no_memory() {
    let scheduler = scheduler("cuda", 1).unwrap();
    let (plan, shot) = cube(5);
    wait(&scheduler, submit((plan.clone(), shot), &scheduler).unwrap()).unwrap();
    let begun = Instant::now();
    while driver_count(0, "allocations") > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{}", report());
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!((driver_count(0, "contexts"), Arc::strong_count(&plan)), (1, 1), "{}", report());
}

/// Without other processes, plans share a GPU that has room for the coefficients of one.
pub fn plans_make_room_for_others() {
    let scheduler = scheduler("cuda", 1).unwrap();
    let n = advised(&submit(cube(200), &scheduler).unwrap_err());
    let plans = [cube(n), cube(n)];
    for (plan, shot) in plans.iter().cycle().take(4) {
        wait(&scheduler, submit((plan.clone(), shot.clone()), &scheduler).unwrap()).unwrap();
    }
    assert_eq!(scheduler.stats().unwrap().counts.retried, 0);
}

/// The host's memory is too little, not the GPU's: the task may be retried when other programs have ended.
pub fn a_record_that_the_host_has_no_memory_for() {
    let scheduler = scheduler("cuda", 1).unwrap();
    let mut world = one_trace([3; 3], 30, 23);
    // 4 TB.
    let receivers = Receivers::List(vec![[0; 3]; 100_000]);
    world.shot = Shot { nt: 10_000_000, receivers, ..world.shot };
    let plan = world.plan();
    let result =
        on_device(&scheduler, move |exec| Ok(shot::run(&plan, &world.shot, exec.lane, &Silent))).unwrap();
    let error = result.expect_err("too little memory");
    assert!(matches!(&error, Error::NoHostMemory { bytes: 4_000_000_000_000, .. }), "{error}");
}
