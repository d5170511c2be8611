//! The propagator's behaviour apart from its numbers: odd grids, bad input, cancelling,
//! instability.

use std::cell::Cell;
use std::sync::{Arc, Mutex, Weak};

use gpusched::backend::{Lane, cpu::Team};
use gpusched::device::BackendKind;
use gpusched::fd::control::{Control, STATE_LAYOUT, Silent, State};
use gpusched::fd::equation::{
    Absorber, EQUATIONS, Equation, WITH_OTHER_LAYER, acoustic1::Acoustic1, by_name, with_absorber,
};
use gpusched::fd::grid::{Grid, layout::Layout};
use gpusched::fd::model::{Model, Property, Values};
use gpusched::fd::plan::{Options, Plan, Stencil, Storage};
use gpusched::fd::shot::{ShotOutput, run, task};
use gpusched::fd::survey::{Effort, Gather, Receivers, Shot, SourceKind};
use gpusched::fd::verify::cells_per_wavelength;
use gpusched::fd::wavelet::{Shape, Wavelet};
use gpusched::sched::{Exec, Scheduler};
use gpusched::{Error, Result};
use testmodels::bits::fused_or_skip;
use testmodels::shots::NOWHERE;

const DT: f32 = 1e-3;

fn model(n: [usize; 3]) -> Arc<Model> {
    let grid = Grid::new(n, [10.0; 3]).unwrap();
    Arc::new(Model::new(grid, vec![2000.0; grid.cells()], None).unwrap())
}

fn plan(n: [usize; 3]) -> Plan {
    Plan::new(model(n), DT, Options::default()).unwrap()
}

fn shot(nt: usize) -> Shot {
    Shot {
        wavelet: Wavelet::new(Shape::CutRicker, 25.0, DT, nt).unwrap(),
        amplitude: 10_000.0,
        nt,
        receivers: Receivers::Plane { iz: 0, every: [1, 1] },
        ..Shot::default()
    }
}

fn go(plan: &Plan, shot: &Shot) -> Result<Gather> {
    Ok(run(plan, shot, Lane::Cpu(&Team::new(2).unwrap()), &Silent)?.0)
}

/// Cancels a shot after a step, and counts its steps.
struct Stop {
    after: usize,
    steps: Cell<usize>,
}

impl Control for Stop {
    fn step(&self, step: usize, _: usize) -> Result<()> {
        self.steps.set(self.steps.get() + 1);
        if step == self.after { Err(Error::Cancelled) } else { Ok(()) }
    }
}

#[test]
fn a_cancelled_shot_ends_at_once_and_the_team_goes_on() {
    let plan = plan([10, 10, 10]);
    let team = Team::new(3).unwrap();
    for stop in [0, 7] {
        let stop = Stop { after: stop, steps: Cell::new(0) };
        let ended = run(&plan, &shot(1_000_000), Lane::Cpu(&team), &stop);
        assert_eq!((ended.unwrap_err(), stop.steps.get()), (Error::Cancelled, stop.after + 1));
    }
    run(&plan, &shot(10), Lane::Cpu(&team), &Silent).unwrap();
}

/// Stops a shot after twenty steps, and hashes the values of its state (FNV-1a).
#[derive(Default)]
struct Saved {
    steps: Cell<usize>,
    hash: Cell<u64>,
}

impl Control for Saved {
    fn pauses(&self) -> bool {
        self.steps.set(self.steps.get() + 1);
        self.steps.get() == 20
    }

    fn pause(&self, _: usize, state: &mut dyn State) -> Result<()> {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        state.leave(&mut |values| {
            for byte in values.iter().flat_map(|value| value.to_le_bytes()) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
            Ok(())
        })?;
        self.hash.set(hash);
        Ok(())
    }
}

/// Otherwise a shot would continue from values that mean something else.
#[test]
fn saved_states_have_the_values_of_their_layout_number() {
    if !fused_or_skip() {
        return;
    }
    let hashes = ["acoustic1", "acoustic2", "vti", "tti"].map(|equation| {
        let grid = Grid::new([9, 8, 10], [10.0; 3]).unwrap();
        let mut properties = vec![(Property::Vp, Values::from(2000.0))];
        if equation == "vti" {
            properties.extend([(Property::Epsilon, 0.2.into()), (Property::Delta, 0.1.into())]);
        }
        let options = Options { equation: by_name(equation).unwrap(), ..Options::default() };
        let plan = Plan::new(Arc::new(Model::of(grid, properties).unwrap()), DT, options).unwrap();
        let (saved, team) = (Saved::default(), Team::new(2).unwrap());
        let shot = Shot { source: [4, 4, 4], ..shot(30) };
        assert_eq!(run(&plan, &shot, Lane::Cpu(&team), &saved).unwrap_err(), Error::Cancelled);
        saved.hash.get()
    });
    let known =
        (3, [0x9d56_0fe9_9b2c_c165, 0xcf41_0183_0de1_9b29, 0x779d_5f69_b96e_b07e, 0xa4c4_3cbd_6d9f_f7e7]);
    assert!(
        (STATE_LAYOUT, hashes) == known,
        "saved states have other values than those of {}: raise gpusched::fd::control::STATE_LAYOUT, or \
         gpusched::fd::NUMERICS if results have other bits, and put these hashes here: {hashes:#x?}",
        known.0
    );
}

#[test]
fn a_shot_states_all_steps_that_it_computes() {
    for (exact_time, every, steps) in [(false, 1, 200), (true, 1, 224), (true, 25, 400)] {
        let options = Options { exact_time, ..Options::default() };
        let plan = Arc::new(Plan::new(model([3, 4, 5]), DT, options).unwrap());
        let task = task(plan.clone(), Shot { record_every: every, ..shot(200) }, 0, NOWHERE).unwrap();
        assert_eq!(task.work, Some((plan.padded_cells() * steps) as f64));
    }
}

#[test]
fn thinned_record_holds_samples_of_the_full_one() {
    let plan = plan([6, 5, 7]);
    let fire = |every| go(&plan, &Shot { record_every: every, ..shot(75) }).unwrap();
    let full = fire(1);
    assert!(full.data.iter().any(|value| *value != 0.0));
    for every in [2, 3, 16, 75, 100] {
        let thin = fire(every);
        assert_eq!((thin.traces, thin.samples), (full.traces, 75usize.div_ceil(every)));
        for (thin, full) in thin.data.chunks(thin.samples).zip(full.data.chunks(75)) {
            assert_eq!(thin, full.iter().copied().step_by(every).collect::<Vec<_>>(), "every {every}");
        }
    }
}

/// A fast cell in a slow medium, for which the step is too large: the instability begins there. The
/// message does not depend on the threads.
#[test]
fn unstable_shot_reports_where_it_begins() {
    let grid = Grid::new([12, 11, 13], [10.0, 10.0, 8.0]).unwrap();
    let mut vp = vec![1500.0; grid.cells()];
    vp[grid.index([7, 3, 9])] = 4000.0;
    // A single cell stays stable at a larger step than a medium of its velocity.
    let dt = 1.6 * Acoustic1.dt_max(&Model::new(grid, vp.clone(), None).unwrap(), Stencil::Taylor) as f32;
    let options = Options { allow_unstable: true, pml: 8, ..Options::default() };
    let plan = Plan::new(Arc::new(Model::new(grid, vp.clone(), None).unwrap()), dt, options).unwrap();
    let shot = Shot {
        source: [7, 3, 7],
        wavelet: Wavelet::new(Shape::CutRicker, 30.0, dt, 50).unwrap(),
        ..shot(5000)
    };
    let told = [1, 2, 3].map(|threads| {
        let team = Team::new(threads).unwrap();
        run(&plan, &shot, Lane::Cpu(&team), &Silent).unwrap_err().to_string()
    });
    assert!(told.iter().all(|words| *words == told[0]), "{told:?}");
    for words in [
        "after step 64 (zero at the start)",
        "more than 1e6 times the source",
        "worst at cell [7, 3, 9] (70 m, 30 m, 72 m), where vp is 4000.0 m/s, rho 1000.0 kg/m³",
        "the CFL number 1.600 (stable: up to 1)",
    ] {
        assert!(told[0].contains(words), "{}", told[0]);
    }
}

/// At a stable step the device may be the cause.
#[test]
fn overflow_at_a_stable_step_is_suspect() {
    let plan = plan([5, 5, 5]);
    let error = go(&plan, &Shot { amplitude: f32::MAX, ..shot(100) }).unwrap_err();
    assert!(error.is_suspect() && !error.is_final(), "{error}");
}

#[test]
fn the_limits_are_named_and_usable() {
    let model = model([4, 4, 4]);
    assert!(
        (Acoustic1.dt_max(&model, Stencil::Taylor) - 10.0 / (1.28631 * 2000.0 * 3f64.sqrt())).abs() < 1e-12
    );
    assert_eq!(cells_per_wavelength(&model, 20.0), 4.0);
    let error = Plan::new(Arc::clone(&model), 3e-3, Options::default()).err().unwrap().to_string();
    let limit = error.split("at most ").nth(1).and_then(|rest| rest.strip_suffix(" s")).unwrap();
    Plan::new(Arc::clone(&model), limit.parse().unwrap(), Options::default()).unwrap();
    let above = limit.parse::<f32>().unwrap().next_up();
    assert!(Plan::new(model, above, Options::default()).is_err());
}

/// `ctests/c/bad_calls.c` and `tests/command/refusals.rs` have the other refusals of `Plan::check`.
#[test]
fn bad_shots_are_refused_with_the_parameter() {
    let n = [4, 5, 6];
    let plan = plan(n);
    let bad = [
        ("nt is 10000001", Shot { nt: 10_000_001, ..shot(5) }),
        ("step in x is 0", Shot { receivers: Receivers::Plane { iz: 0, every: [0, 1] }, ..shot(5) }),
        ("mute steps is 3", Shot { mute: Some(vec![1; 3]), ..shot(5) }),
    ];
    for (words, shot) in bad {
        let error = plan.check(&shot).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        assert_eq!(go(&plan, &shot).unwrap_err().to_string(), error);
    }
    for dt in [0.0, -1e-3, f32::NAN, f32::INFINITY] {
        assert!(Plan::new(model(n), dt, Options::default()).is_err(), "{dt}");
    }
    for pml in [7, 1001, usize::MAX] {
        assert!(Plan::new(model(n), DT, Options { pml, ..Options::default() }).is_err(), "{pml}");
    }
}

#[test]
fn constants_give_the_bits_of_volumes_in_less_memory() {
    let grid = Grid { n: [9, 8, 11], h: [10.0, 12.0, 8.0] };
    let all =
        [(Property::Vp, 2000.0), (Property::Rho, 1800.0), (Property::Epsilon, 0.2), (Property::Delta, 0.1)];
    for (name, properties) in [("acoustic1", &all[..2]), ("vti", &all)] {
        for storage in Storage::ALL {
            let options = Options { equation: by_name(name).unwrap(), storage, ..Options::default() };
            let [constants, volumes] = [true, false].map(|constant| {
                let values = |value| match constant {
                    true => Values::Constant(value),
                    false => Values::Volume(vec![value; grid.cells()]),
                };
                let properties = properties.iter().map(|&(property, value)| (property, values(value)));
                Plan::new(Arc::new(Model::of(grid, properties).unwrap()), DT, options).unwrap()
            });
            for kind in [SourceKind::Pressure, SourceKind::Monopole, SourceKind::ForceX] {
                let shot = Shot { source: [4, 3, 5], kind, ..shot(60) };
                let [constant, whole] = [&constants, &volumes].map(|plan| go(plan, &shot).unwrap());
                let what = format!("{name}, {storage:?}, {:?}", shot.kind);
                assert!(constant == whole && constant.data.iter().any(|value| *value != 0.0), "{what}");
            }
            let bytes = |plan: &Plan| plan.resident_bytes(Lane::Cpu(&Team::new(1).unwrap()), &shot(60));
            let [constant, whole] = [&constants, &volumes].map(bytes);
            assert!(constant < whole, "{name}, {storage:?}: {constant} bytes, {whole} as volumes");
        }
    }
}

#[test]
fn memory_that_is_not_there_is_refused_with_numbers() {
    // One column is 20 MB of model and 1.6 TB of fields.
    let options = Options { pml: 1000, ..Options::default() };
    let plan = Plan::new(model([1, 1, 100_000]), DT, options).unwrap();
    assert!(plan.shot_bytes(&shot(5), 1).device > 6_000_000_000_000);
    assert!(matches!(go(&plan, &shot(5)), Err(Error::NoMemory { .. })));
}

/// A shot on the CPU leases the memory that it allocates at its peak, including that of each
/// thread.
#[test]
fn memory_of_threads_is_leased() {
    let plan = Arc::new(plan([20, 20, 60]));
    let bytes = |threads| plan.shot_bytes(&shot(3), threads).on(BackendKind::Cpu);
    // 59 threads are divided into 20, 20 and 19.
    for (threads, slots, most) in [(20, 1, 20), (128, 1, 128), (59, 3, 20), (1, 3, 1)] {
        let mut builder = Scheduler::builder();
        (builder.devices, builder.cpu_threads, builder.slots) =
            (Some("cpu".into()), Some(threads), Some(slots));
        let scheduler = builder.build().unwrap();
        assert_eq!(scheduler.cpu_threads(), most);
        let task = task(plan.clone(), shot(3), scheduler.cpu_threads(), NOWHERE).unwrap();
        let id = scheduler.submit(task).unwrap();
        scheduler.wait(id, None).unwrap();
        let leased = scheduler.stats().unwrap().devices[0].peak_bytes;
        assert_eq!(leased, bytes(most), "{threads} threads, {slots} slots");
    }
    // With many threads the CPU needs more memory than a GPU.
    assert!(bytes(128) > bytes(0) && bytes(1001) - bytes(1000) > 40_000);
}

/// Records the progress of its shot at each snapshot. The shot resumes after a number of steps.
struct Watcher(Weak<Scheduler>, Arc<Mutex<Vec<f64>>>, usize);

impl ShotOutput for Watcher {
    fn snapshot(&self, exec: &Exec<'_>, _: usize, _: &[f32]) -> Result<()> {
        let progress = self.0.upgrade().unwrap().info(exec.task)?.progress;
        self.1.lock().unwrap().push(progress);
        Ok(())
    }

    fn resume(&self, _: &Exec<'_>, _: &mut dyn State) -> Result<usize> {
        Ok(self.2)
    }

    fn finish(&self, _: &Exec<'_>, _: Gather, _: Effort) -> Result<()> {
        Ok(())
    }
}

#[test]
fn running_shot_reports_its_progress() {
    let mut builder = Scheduler::builder();
    builder.devices = Some("cpu".into());
    let scheduler = Arc::new(builder.build().unwrap());
    // A resumed shot reports the progress of the remaining steps.
    for (resumed, expected) in [(0, &[0.0, 0.25, 0.5, 0.75][..]), (50, &[0.0, 0.5])] {
        let told = Arc::default();
        let watcher = Watcher(Arc::downgrade(&scheduler), Arc::clone(&told), resumed);
        let shot = Shot { snapshot_every: Some(25), ..shot(100) };
        let task = task(Arc::new(plan([8, 8, 8])), shot, scheduler.cpu_threads(), watcher).unwrap();
        let id = scheduler.submit(task).unwrap();
        scheduler.wait(id, None).unwrap();
        let told = told.lock().unwrap();
        // A step is reported after its end, before or after its snapshot.
        let step = 1.1 / (100 - resumed) as f64;
        let is_near = |(found, expected): (&f64, &f64)| (found - expected).abs() <= step;
        assert!(told.len() == expected.len() && told.iter().zip(expected).all(is_near), "{told:?}");
    }
}

/// The advice names the input that needs too much memory.
#[test]
fn advice_names_the_input_that_needs_too_much_memory() {
    let plan = plan([37, 29, 31]);
    let advice = |needed: u64, there: u64| {
        let (what, place) = ("a shot".into(), "cpu:0".into());
        plan.advise(Error::NoMemory { what, needed, place, there }).to_string()
    };
    let long = advice(56_000_000_000, 24_000_000_000);
    assert!(long.contains("fewer receivers") && !long.contains("a cube"), "{long}");
    let large = advice(8_000_000, 5_000_000);
    assert!(large.contains("a cube of up to") && large.contains("the most that cpu:0 has"), "{large}");
    // The process may get less memory than is free.
    let limited = Error::NoMemory { what: "x".into(), needed: 8, place: "the host".into(), there: 9 };
    assert_eq!(limited.to_string(), "x needs 8 B, which the host can't provide, though 9 B are free");
}

#[test]
fn tti_is_computed_in_float32_only() {
    let options =
        Options { equation: by_name("tti").unwrap(), storage: Storage::Bits16, ..Options::default() };
    let why = Plan::new(model([2; 3]), DT, options).err().unwrap().to_string();
    assert!(why.contains("16-bit; accepted: float32"), "{why}");
}

/// Larger models are counted, not made.
#[test]
fn a_pml_of_acoustic2_takes_at_most_16_bytes_a_cell_of_large_grids() {
    let equation = with_absorber(by_name("acoustic2").unwrap(), Absorber::Pml).unwrap();
    let mean = |side: usize| {
        let grid = Grid::new([side; 3], [10.0; 3]).unwrap();
        let uniform = Model::of(grid, [(Property::Vp, 2000.0.into())]).unwrap();
        let plan = Plan::new(Arc::new(uniform), DT, Options { equation, ..Options::default() }).unwrap();
        let layout = Layout::new(grid.n, plan.options.pml);
        let more = 4 * (layout.rows(side * side) - layout.rows(1));
        let uniform = plan.resident_bytes(Lane::Cpu(&Team::new(1).unwrap()), &shot(60));
        (uniform as usize + more) as f64 / plan.padded_cells() as f64
    };
    assert!(mean(470) > 16.0 && (471..=1000).all(|side| mean(side) <= 16.0));
}

/// With a medium that varies, at 160, 200 and 300 cells a side.
#[test]
fn a_gpu_takes_the_documented_bytes_a_padded_cell() {
    let documented = [
        [29.6, 26.6, 23.8],
        [10.4, 10.1, 10.4],
        [49.6, 45.8, 42.8],
        [38.3, 37.9, 39.5],
        [26.5, 22.3, 18.6],
        [47.5, 46.0, 46.3],
    ];
    for (equation, expected) in EQUATIONS.into_iter().chain(WITH_OTHER_LAYER).zip(documented) {
        let options = Options { equation, ..Options::default() };
        let values = |property| (property, if property == Property::Vp { 2000.0 } else { 0.1 }.into());
        let grid = Grid::new([12; 3], [10.0; 3]).unwrap();
        let model = Model::of(grid, equation.properties().all().map(values)).unwrap();
        let material = options.material(&model).unwrap();
        let propagator = (material.factory)(DT, options.scheme());
        let means = [160, 200, 300].map(|side| {
            let cells = Layout::new([side; 3], material.pml).cells();
            propagator.gpu_bytes_of_cells([side; 3]) as f64 / cells as f64
        });
        let are_near = means.iter().zip(expected).all(|(mean, expected)| (mean - expected).abs() < 0.06);
        assert!(are_near, "{equation:?}, {:?}: {means:.2?}", equation.absorber());
    }
}
