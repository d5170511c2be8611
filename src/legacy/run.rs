//! Runs a call of an old function, from the checks to the files.

use std::path::PathBuf;
use std::sync::Arc;

use super::args::Args;
use super::call::Call;
use super::files::{Files, ShotFiles, SnapshotNames};
use super::function::{Function, Snapshots};
use super::step_source::StepSource;
use super::{calls, device};
use crate::error::{Error, Result};
use crate::fd::equation::{by_name, with_absorber};
use crate::fd::grid::Grid;
use crate::fd::model::{DensityAt, Model, Outline, Property};
use crate::fd::plan::{Options, Plan, rounded_down};
use crate::fd::shot;
use crate::io::raw;
use crate::sched::{Scheduler, TaskId, WaitResult};

impl Function {
    /// Computes the shots of a call and writes their record, and snapshots if requested, as the old
    /// function did. The files get their names after all shots have succeeded; after an error none
    /// of them exists. Blocks until the shots have ended.
    ///
    /// The shots run on the devices of [`Scheduler::process_default`]. A child that was forked
    /// after the creation of that scheduler has a scheduler of its own, without GPUs.
    ///
    /// All arguments, and whether the outputs can be written, are checked before anything is
    /// computed. Any number of threads may call this. A call fails if another one writes the same
    /// files.
    ///
    /// A `dt` above the stable limit is accepted with a warning in the log, as in the old library.
    /// A result that is not finite is an error.
    pub fn call(&'static self, args: &Args) -> Result<()> {
        self.run(args).map_err(|error| self.in_its_terms(args, error))
    }

    fn run(&'static self, args: &Args) -> Result<()> {
        let call = Call::new(self, args)?;
        for path in &args.models {
            raw::check(path, call.grid.cells())?;
        }
        self.keep_apart(args)?;
        let scheduler = calls::scheduler(self.name)?;
        let devices = device::allowed(self.name, args.device, scheduler.devices())?;
        let snapshots = call.snapshot_every.map(|_| SnapshotNames {
            prefix: args.snap.clone(),
            between: self.between,
            shots: call.shots.clone(),
            first_step: if let Snapshots::Always(steps) = self.snapshots { steps } else { 0 },
        });
        let files = Arc::new(Files::begin(&args.shot, call.record_stride, snapshots)?);

        let model = Arc::new(self.model(call.grid, &args.models)?);
        let equation = by_name(self.equation)
            .ok_or_else(|| Error::argument("equation", self.equation, "one of the library"))?;
        let equation = with_absorber(equation, self.absorber)?;
        let options = Options { equation, allow_unstable: true, old_rules: true, ..Options::default() };
        warn_if_unstable(&options, &model, args.dt);
        warn_if_reduced(self.name, &model, &call);
        let plan = Arc::new(Plan::new(model, args.dt, options)?);

        // The plan, and its memory on GPUs, is dropped with the last of its shots.
        let (shots, written) = (call.shots.clone(), files.clone());
        let submit = move |number: usize| -> Result<TaskId> {
            let shot = call.shot(number, &plan.model)?;
            let source = self.before_update.then(|| StepSource::new(&shot, plan.model.grid)).transpose()?;
            let output = ShotFiles { files: written.clone(), shot: number, source };
            let mut task = shot::task(plan.clone(), shot, scheduler.cpu_threads(), output)?;
            task.label = format!("{}, shot {number}", args.shot.display());
            task.devices = devices;
            scheduler.submit(task).map_err(|error| plan.advise(error))
        };
        let outcome = run(scheduler, shots.map(submit));
        match outcome {
            Ok(()) => files.commit(),
            Err(error) => {
                files.discard();
                Err(error)
            }
        }
    }

    /// Reads the properties of the medium from their files.
    fn model(&self, grid: Grid, files: &[PathBuf]) -> Result<Model> {
        let read = |(file, (_, property)): (&PathBuf, &(_, Property))| {
            raw::read(file, grid.cells()).map(|values| (*property, values.into()))
        };
        let properties = files.iter().zip(self.models).map(read);
        let model = Model::of(grid, properties.collect::<Result<Vec<_>>>()?)?;
        // The density is not averaged (oddity B21 of docs/legacy.md).
        Ok(model.with_density_at(DensityAt::Cells))
    }

    /// Returns an error if the record would replace a file of the medium.
    fn keep_apart(&self, args: &Args) -> Result<()> {
        let Ok(record) = args.shot.canonicalize() else { return Ok(()) };
        let taken = args.models.iter().any(|model| model.canonicalize().is_ok_and(|m| m == record));
        if taken {
            let names: Vec<_> = self.models.iter().map(|(name, _)| *name).collect();
            let accepted = format!("another file than {}", names.join(", "));
            return Err(Error::argument("shot", args.shot.display(), accepted));
        }
        Ok(())
    }
}

fn warn_if_unstable(options: &Options, model: &Outline, dt: f32) {
    let most = options.dt_max(model);
    if f64::from(dt) > most {
        log::warn!(
            "dt is {dt} s, and this model is stable up to {} s: the result may be wrong",
            rounded_down(most)
        );
    }
}

/// Warns of the first shot that reduces the anisotropy of its model in all cells. Surveys refuse it.
fn warn_if_reduced(function: &str, model: &Outline, call: &Call) {
    let mut shots = call.shots.clone().filter(|_| model.is_anisotropic);
    if let Some(shot) = shots.find(|&shot| call.is_reduced_everywhere(shot)) {
        let [nx, ny, nz] = call.grid.n;
        log::warn!(
            "{function}: all {nx} x {ny} x {nz} cells are nearer than 15 cells to the source of shot {shot}, so none \
             keeps its epsilon and delta; use a larger model, or a survey with anisotropic_source"
        );
    }
}

/// Submits the tasks one after the other and waits for all. The first failure cancels the rest and
/// is returned.
fn run(scheduler: &Scheduler, submitted: impl Iterator<Item = Result<TaskId>>) -> Result<()> {
    let mut ids = Vec::new();
    let mut failure = None;
    for id in submitted {
        match id {
            Ok(id) => ids.push(id),
            Err(error) => {
                failure = Some(error);
                break;
            }
        }
    }
    let cancel = |ids: &[TaskId]| ids.iter().for_each(|&id| drop(scheduler.cancel(id)));
    if failure.is_some() {
        cancel(&ids);
    }
    for &id in &ids {
        let error = match scheduler.wait(id, None) {
            Ok(WaitResult::Done) => continue,
            Ok(WaitResult::Cancelled | WaitResult::Pending) => Error::Cancelled,
            Err(error) => error,
        };
        if failure.is_none() {
            failure = Some(error);
            cancel(&ids);
        }
    }
    for &id in &ids {
        if let Err(error) = scheduler.release(id) {
            log::debug!("release of a shot's task: {error}");
        }
    }
    failure.map_or(Ok(()), Err)
}
