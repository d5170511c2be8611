//! Check shots: shots with a known record, which find a device that computes wrong results before a
//! survey does.

use std::sync::Arc;
use std::time::Duration;

use super::control::Control;
use super::grid::Grid;
use super::model::Model;
use super::plan::{Options, Plan};
use super::shot;
use super::survey::{Receivers, Shot};
use super::wavelet::{Shape, Wavelet};
use crate::backend::Lane;
use crate::error::{Error, Result};
use crate::sched::{DeviceMask, Exec, Scheduler, Task, TaskId};

/// Largest accepted relative L2 difference from the expected record. Float32 differs from double
/// precision by 6e-7.
pub const TOLERANCE: f64 = 1e-5;

/// Expected record, `[trace][sample]`, float32, little-endian. It does not come from the propagator
/// or a device: a simple program of the tests computes it in double precision
/// (`tests/numerics/check.rs`).
const EXPECTED: &[u8] = include_bytes!("check.f32");

const N: [usize; 3] = [12, 9, 14];
const DT: f32 = 1e-3;
const STEPS: usize = 48;
/// Cells of the absorbing layer on each side.
pub const PML: usize = 8;

/// Class of check shots, which no equation has. Classes from 0xfd000000 up are the library's own.
const CLASS: u32 = 0xfd00_0003;

/// Time limit of a check shot, after which the device counts as hung. A GPU takes milliseconds, but
/// may have to compile its kernels first.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// Returns a model of many velocities and densities, its time step in s, and a shot with receivers
/// throughout it.
pub fn question() -> Result<(Arc<Model>, f32, Shot)> {
    let grid = Grid::new(N, [10.0, 12.5, 8.0])?;
    let drawn = |i: usize, times: usize| (i * times % 257) as f32;
    let vp = (0..grid.cells()).map(|i| 1500.0 + 6.0 * drawn(i, 97)).collect();
    let rho = (0..grid.cells()).map(|i| 1000.0 + 4.0 * drawn(i, 61)).collect();
    let model = Arc::new(Model::new(grid, vp, Some(rho))?);
    let spread = |i: usize| [i * 5 % N[0], i * 7 % N[1], i * 3 % N[2]];
    let shot = Shot {
        source: [5, 4, 6],
        wavelet: Wavelet::new(Shape::CutRicker, 40.0, DT, STEPS)?,
        amplitude: 10_000.0,
        nt: STEPS,
        receivers: Receivers::List((0..12).map(spread).collect()),
        record_every: 2,
        ..Shot::default()
    };
    Ok((model, DT, shot))
}

/// Runs the check shot on a lane.
///
/// # Errors
/// [`Error::WrongResult`] if the record differs too much or the shot becomes unstable; otherwise
/// the reason why it could not be computed.
pub fn run(lane: Lane<'_>, device: &str, control: &dyn Control) -> Result<()> {
    let (model, dt, shot) = question()?;
    let plan = Plan::new(model, dt, Options { pml: PML, ..Options::default() })?;
    let wrong =
        |how: String| Error::WrongResult { device: device.into(), what: format!("the check shot {how}") };
    let found = match shot::run(&plan, &shot, lane, control) {
        Ok((found, _)) => found.data,
        // Model and time step are sound, so the causes that the error states do not apply.
        Err(Error::Unstable { what, value, .. }) => {
            return Err(wrong(format!("is unstable: {what} is {value}")));
        }
        Err(error) => return Err(error),
    };
    let off = off(&found);
    if off.is_nan() || off > TOLERANCE {
        return Err(wrong(format!(
            "differs by {off:.1e} (relative, L2) from the expected record; rounding explains at most {TOLERANCE:e}"
        )));
    }
    Ok(())
}

/// Returns the relative L2 difference of a record from the expected one; infinite if the lengths
/// differ.
fn off(found: &[f32]) -> f64 {
    let answer = EXPECTED.as_chunks().0.iter().map(|bytes| f64::from(f32::from_le_bytes(*bytes)));
    let (mut apart, mut norm) = (0.0, 0.0);
    for (found, truth) in found.iter().zip(answer) {
        apart += (f64::from(*found) - truth).powi(2);
        norm += truth.powi(2);
    }
    if found.len() == EXPECTED.len() / 4 { (apart / norm).sqrt() } else { f64::INFINITY }
}

/// Makes the check shot for one device.
fn task(device: usize, label: String, threads: u32) -> Result<Task> {
    let (model, dt, shot) = question()?;
    let plan = Plan::new(model, dt, Options { pml: PML, ..Options::default() })?;
    let mut task = Task::new(|exec: &Exec<'_>| run(exec.lane, &exec.device.label(), &CancelControl(exec)));
    task.label = format!("check of {label}");
    task.device_bytes = plan.shot_bytes(&shot, threads).device;
    task.devices = DeviceMask::only(device);
    task.class = CLASS;
    task.deadline = Some(TIME_LIMIT);
    Ok(task)
}

struct CancelControl<'a>(&'a Exec<'a>);

impl Control for CancelControl<'_> {
    fn step(&self, _: usize, _: usize) -> Result<()> {
        if self.0.cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }
}

/// Runs the check shot on every device of a scheduler, on all at the same time. Returns the results
/// in the order of the devices. Retire a device whose check fails ([`Scheduler::retire`]). A device
/// that fails once and passes in a retry has passed; its fault is counted, as after any shot.
///
/// Do not call it from a task of the same scheduler.
pub fn devices(scheduler: &Scheduler) -> Result<Vec<Result<()>>> {
    let threads = scheduler.cpu_threads();
    let labels = scheduler.devices().iter().map(|device| device.label());
    let tasks: Result<Vec<_>> =
        labels.enumerate().map(|(device, label)| task(device, label, threads)).collect();
    let ids: Vec<_> = tasks?.into_iter().map(|task| scheduler.submit(task)).collect();
    let outcome = |id: Result<TaskId>| {
        let id = id?;
        let waited = scheduler.wait(id, None);
        scheduler.release(id)?;
        waited.map(|_| ())
    };
    Ok(ids.into_iter().map(outcome).collect())
}

#[cfg(test)]
mod tests {
    use super::CLASS;
    use crate::fd::equation::{EQUATIONS, WITH_OTHER_LAYER};

    #[test]
    fn shots_of_different_cost_have_classes_of_their_own() {
        let equations = EQUATIONS.into_iter().chain(WITH_OTHER_LAYER);
        let mut classes: Vec<u32> = equations.map(|equation| equation.class()).chain([CLASS]).collect();
        let count = classes.len();
        classes.sort_unstable();
        classes.dedup();
        assert_eq!(classes.len(), count, "{classes:x?}");
    }
}
