//! Models and shots, and the library's results for them: on a team of threads, or on the devices of
//! a scheduler.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gpusched::backend::{Lane, cpu::Team};
use gpusched::fd::control::{Control, State};
use gpusched::fd::equation::{EQUATIONS, Equation, acoustic1::Acoustic1};
use gpusched::fd::grid::Grid;
use gpusched::fd::model::{Model, Property, Values};
use gpusched::fd::plan::{Options, Plan, Stencil};
use gpusched::fd::shot::{self, ShotOutput};
use gpusched::fd::survey::{Effort, Gather, Receivers, Shot};
use gpusched::fd::wavelet::Wavelet;
use gpusched::sched::{Exec, Scheduler, Task, WaitResult};
use gpusched::{Error, Result};
use testkit::Random;

const LONG: Option<Duration> = Some(Duration::from_secs(300));

#[derive(PartialEq)]
pub struct Shots {
    /// `[trace][sample]`.
    pub record: Vec<f32>,
    pub samples: usize,
    /// Step, and the pressure over the model's grid.
    pub snapshots: Vec<(usize, Vec<f32>)>,
}

impl Shots {
    pub fn trace(&self, trace: usize) -> &[f32] {
        &self.record[trace * self.samples..][..self.samples]
    }
}

pub fn homogeneous(n: [usize; 3], h: [f32; 3], vp: f32, rho: f32) -> Arc<Model> {
    let grid = Grid::new(n, h).unwrap();
    Arc::new(Model::new(grid, vec![vp; grid.cells()], Some(vec![rho; grid.cells()])).unwrap())
}

/// Returns a model in which every cell has its own velocity, 1500 to 4500 m/s, and density, 1000 to
/// 2500 kg/m³.
pub fn rough(n: [usize; 3], h: [f32; 3], random: &mut Random) -> Arc<Model> {
    rough_for(EQUATIONS[0], n, h, random)
}

/// Returns a model with all properties of an equation.
pub fn model_for(
    equation: &dyn Equation,
    n: [usize; 3],
    h: [f32; 3],
    mut values: impl FnMut(Property) -> Values,
) -> Arc<Model> {
    let properties = equation.properties();
    let properties = properties.all().map(|property| (property, values(property)));
    Arc::new(Model::of(Grid::new(n, h).unwrap(), properties).unwrap())
}

pub fn rough_for(equation: &dyn Equation, n: [usize; 3], h: [f32; 3], random: &mut Random) -> Arc<Model> {
    model_for(equation, n, h, |property| {
        let [low, high] = match property {
            Property::Vp => [1500.0, 4500.0],
            Property::Rho => [1000.0, 2500.0],
            Property::Epsilon => [0.1, 0.3],
            Property::Delta => [-0.1, 0.1],
            // With larger random differences of the angles waves grow without limit.
            Property::Theta => [0.4, 0.6],
            Property::Phi => [0.7, 0.9],
        };
        Values::Volume((0..n.iter().product()).map(|_| random.between(low, high)).collect())
    })
}

pub fn time_step(model: &Model) -> f32 {
    (0.9 * Acoustic1.dt_max(model, Stencil::Taylor)) as f32
}

/// Amplitude of a source whose velocities are denormal in a [`rough`] medium. If denormal numbers
/// are not flushed, the pressure is a normal number after some steps.
pub const FAINT: f32 = 1e-36;

pub fn plain_shot(source: [usize; 3], samples: Vec<f32>, nt: usize, receivers: Vec<[usize; 3]>) -> Shot {
    Shot {
        source,
        wavelet: Wavelet::from_samples(samples).unwrap(),
        nt,
        receivers: Receivers::List(receivers),
        ..Shot::default()
    }
}

pub fn random_shot(random: &mut Random, n: [usize; 3], nt: usize, receivers: Receivers) -> Shot {
    let samples = (0..nt * 2 / 3).map(|_| random.between(-1.0, 1.0)).collect();
    let source = random.cell(n);
    Shot { receivers, amplitude: 10_000.0, ..plain_shot(source, samples, nt, Vec::new()) }
}

#[derive(Clone)]
pub struct World {
    pub model: Arc<Model>,
    pub dt: f32,
    pub options: Options,
    pub shot: Shot,
}

impl World {
    /// Returns a [`random_shot`] in a [`rough`] model with layers of 8 cells.
    pub fn rough(n: [usize; 3], nt: usize, receivers: Receivers, random: &mut Random) -> World {
        World::rough_for(EQUATIONS[0], n, nt, receivers, random)
    }

    pub fn rough_for(
        equation: &'static dyn Equation,
        n: [usize; 3],
        nt: usize,
        receivers: Receivers,
        random: &mut Random,
    ) -> World {
        let model = rough_for(equation, n, [10.0, 12.5, 8.0], random);
        let (dt, options) = (time_step(&model), Options { equation, pml: 8, ..Options::default() });
        World { dt, options, shot: random_shot(random, n, nt, receivers), model }
    }

    pub fn plan(&self) -> Arc<Plan> {
        Arc::new(Plan::new(self.model.clone(), self.dt, self.options).unwrap())
    }

    pub fn fire(&self) -> Shots {
        fire_with(&self.model, self.dt, &self.shot, self.options, 2)
    }

    pub fn fire_on(&self, scheduler: &Scheduler) -> Result<Shots> {
        fire_on(scheduler, self.plan(), self.shot.clone())
    }
}

struct Recorder {
    steps: RefCell<Vec<usize>>,
    snapshots: RefCell<Vec<(usize, Vec<f32>)>>,
    /// Number of steps after which the shot pauses.
    pause_after: Cell<usize>,
    /// Completed steps, kind and values of the state of a paused shot.
    paused: RefCell<Option<(usize, String, Vec<f32>)>>,
}

impl Recorder {
    fn new() -> Recorder {
        let (steps, snapshots, paused) = Default::default();
        Recorder { steps, snapshots, pause_after: Cell::new(usize::MAX), paused }
    }

    /// # Panics
    /// If the steps were not reported once each, in order.
    fn shots(self, gather: Gather, plan: &Plan, shot: &Shot) -> Shots {
        let steps = self.steps.into_inner();
        assert!(steps.into_iter().eq(0..plan.steps(shot)), "every step is reported once, in order");
        assert_eq!(gather.data.len(), gather.traces * gather.samples);
        Shots { record: gather.data, samples: gather.samples, snapshots: self.snapshots.into_inner() }
    }
}

impl Control for Recorder {
    fn step(&self, step: usize, _: usize) -> Result<()> {
        self.steps.borrow_mut().push(step);
        Ok(())
    }

    fn snapshot(&self, step: usize, field: &[f32]) -> Result<()> {
        self.snapshots.borrow_mut().push((step, field.to_vec()));
        Ok(())
    }

    fn resume(&self, state: &mut dyn State) -> Result<usize> {
        let Some((done, kind, values)) = self.paused.take() else { return Ok(0) };
        assert_eq!((state.kind(), state.values()), (kind, values.len() as u64));
        let mut rest = &values[..];
        state.take(done, &mut |to| {
            let (now, later) = rest.split_at(to.len());
            to.copy_from_slice(now);
            rest = later;
            Ok(())
        })?;
        assert!(rest.is_empty(), "{} values are left over", rest.len());
        Ok(done)
    }

    fn pauses(&self) -> bool {
        self.steps.borrow().last().is_some_and(|step| step + 1 >= self.pause_after.get())
    }

    fn pause(&self, done: usize, state: &mut dyn State) -> Result<()> {
        let mut values = Vec::new();
        state.leave(&mut |piece| {
            values.extend_from_slice(piece);
            Ok(())
        })?;
        assert_eq!(values.len() as u64, state.values());
        *self.paused.borrow_mut() = Some((done, state.kind(), values));
        Ok(())
    }
}

pub fn fire(model: &Arc<Model>, dt: f32, shot: &Shot) -> Shots {
    fire_with(model, dt, shot, Options::default(), 2)
}

pub fn fire_with(model: &Arc<Model>, dt: f32, shot: &Shot, options: Options, threads: usize) -> Shots {
    try_fire(model, dt, shot, options, threads).unwrap()
}

pub fn try_fire(model: &Arc<Model>, dt: f32, shot: &Shot, options: Options, threads: usize) -> Result<Shots> {
    let plan = Plan::new(model.clone(), dt, options)?;
    let team = Team::new(threads)?;
    in_parts(&plan, shot, &[], |_| Lane::Cpu(&team)).map(|(shots, ..)| shots)
}

/// Runs a shot in parts, each on the lane of its number. A part pauses soon after the number of
/// steps in `pauses`. Also returns the steps at the pauses, and the effort of the last part.
pub fn in_parts<'a>(
    plan: &Plan,
    shot: &Shot,
    pauses: &[usize],
    lane: impl Fn(usize) -> Lane<'a>,
) -> Result<(Shots, Vec<usize>, Effort)> {
    let recorder = Recorder::new();
    let mut ends = Vec::new();
    loop {
        recorder.pause_after.set(pauses.get(ends.len()).copied().unwrap_or(usize::MAX));
        match shot::run(plan, shot, lane(ends.len()), &recorder) {
            Ok((gather, effort)) => return Ok((recorder.shots(gather, plan, shot), ends, effort)),
            Err(Error::Cancelled) => {
                let done = recorder.paused.borrow().as_ref().expect("the state of a paused shot").0;
                assert!(ends.len() < pauses.len() && done < shot.nt);
                ends.push(done);
            }
            Err(error) => return Err(error),
        }
    }
}

pub fn on_device<T: Send + 'static>(
    scheduler: &Scheduler,
    code: impl Fn(&Exec<'_>) -> Result<T> + Send + Sync + 'static,
) -> Result<T> {
    let place = Arc::new(Mutex::new(None));
    let to = place.clone();
    let id = scheduler.submit(Task::new(move |exec: &Exec<'_>| {
        *to.lock().unwrap() = Some(code(exec)?);
        Ok(())
    }))?;
    assert_ne!(scheduler.wait(id, LONG)?, WaitResult::Pending, "the task hangs");
    Ok(place.lock().unwrap().take().expect("the task ran"))
}

pub fn fire_on(scheduler: &Scheduler, plan: Arc<Plan>, shot: Shot) -> Result<Shots> {
    on_device(scheduler, move |exec| in_parts(&plan, &shot, &[], |_| exec.lane).map(|(shots, ..)| shots))
}

type Place = Arc<Mutex<Vec<Option<Gather>>>>;

/// Stores the gather of one shot of a survey, which must arrive once. Without a place the gather is
/// dropped.
pub struct Gathers(Option<(Place, usize)>);

pub const NOWHERE: Gathers = Gathers(None);

impl ShotOutput for Gathers {
    fn snapshot(&self, _: &Exec<'_>, _: usize, _: &[f32]) -> Result<()> {
        Ok(())
    }

    fn finish(&self, _: &Exec<'_>, gather: Gather, _: Effort) -> Result<()> {
        if let Some((place, number)) = &self.0 {
            let earlier = place.lock().unwrap()[*number].replace(gather);
            assert!(earlier.is_none(), "shot {number} came twice");
        }
        Ok(())
    }
}

pub type Survey = Vec<(Arc<Plan>, Shot)>;

pub fn fire_all(scheduler: &Scheduler, survey: &Survey) -> Vec<Shots> {
    let place: Place = Arc::new(Mutex::new(vec![None; survey.len()]));
    let ids = survey.iter().enumerate().map(|(number, (plan, shot))| {
        let output = Gathers(Some((place.clone(), number)));
        let task = shot::task(plan.clone(), shot.clone(), scheduler.cpu_threads(), output).unwrap();
        scheduler.submit(task).unwrap()
    });
    for id in ids.collect::<Vec<_>>() {
        assert_ne!(scheduler.wait(id, LONG).unwrap(), WaitResult::Pending, "a shot hangs");
    }
    let gathers = std::mem::take(&mut *place.lock().unwrap());
    let shots = gathers.into_iter().map(|gather| {
        let gather = gather.expect("the gather of every shot");
        Shots { record: gather.data, samples: gather.samples, snapshots: Vec::new() }
    });
    shots.collect()
}
