//! Shots on cards, real or virtual, through the scheduler; and whether they are those of the CPU.

use std::cell::RefCell;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gpusched::Result;
use gpusched::fd::model::Model;
use gpusched::fd::plan::{Options, Plan};
use gpusched::fd::shot::{self, Control, Output};
use gpusched::fd::survey::{Gather, Shot};
use gpusched::sched::{Exec, Scheduler, Task, Wait};

use crate::shots::Shots;

/// Longer than a shot of a test may take, on a busy machine too.
const LONG: Option<Duration> = Some(Duration::from_secs(300));

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

/// With its snapshots, on a device that the scheduler has.
pub fn fire_on(scheduler: &Scheduler, plan: Arc<Plan>, shot: Shot) -> Result<Shots> {
    let place = Arc::new(Mutex::new(None));
    let to = place.clone();
    let id = scheduler.submit(Task::new(move |exec: &Exec<'_>| {
        let keep = Keep::default();
        let gather = shot::run(&plan, &shot, exec.lane, &keep)?;
        let mut told = keep.1.into_inner();
        if plan.options.exact_time {
            told.dedup();
        }
        assert_eq!(told, (0..shot.nt).collect::<Vec<_>>(), "every step is told once, in order");
        let snapshots = keep.0.into_inner();
        *to.lock().unwrap() = Some(Shots { record: gather.data, samples: gather.samples, snapshots });
        Ok(())
    }))?;
    assert_ne!(scheduler.wait(id, LONG)?, Wait::Pending, "the shot hangs");
    Ok(place.lock().unwrap().take().expect("the task ran"))
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

/// Model, time step, shot.
pub type Survey = Vec<(Arc<Model>, f32, Shot)>;

/// The gathers of many shots on all devices that the scheduler has, in the order of the shots.
pub fn fire_all(scheduler: &Scheduler, survey: &Survey) -> Vec<Shots> {
    let place = Arc::new(Mutex::new(vec![None; survey.len()]));
    let ids = survey.iter().enumerate().map(|(number, (model, dt, shot))| {
        let plan = Arc::new(Plan::new(model.clone(), *dt, Options::default()).unwrap());
        let task =
            shot::task(plan, shot.clone(), scheduler.cpu_threads(), Gathers(place.clone(), number)).unwrap();
        scheduler.submit(task).unwrap()
    });
    for id in ids.collect::<Vec<_>>() {
        assert_ne!(scheduler.wait(id, LONG).unwrap(), Wait::Pending, "a shot hangs");
    }
    let gathers = std::mem::take(&mut *place.lock().unwrap());
    let shots = gathers.into_iter().map(|gather| {
        let gather = gather.expect("every shot has come");
        Shots { record: gather.data, samples: gather.samples, snapshots: Vec::new() }
    });
    shots.collect()
}
