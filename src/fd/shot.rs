//! Runs one shot, and wraps a shot as a task of the scheduler.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::control::{Control, State};
use super::exact_time;
use super::plan::Plan;
use super::survey::{Effort, Gather, Shot};
use crate::backend::Lane;
use crate::backend::cpu::can_allocate;
use crate::device::BackendKind;
use crate::error::{Error, Result};
use crate::sched::{Exec, Task};

/// Runs a shot on a lane.
///
/// # Errors
/// A shot that does not fit the plan, no memory, a pressure that is not finite or far too large,
/// and the errors that `control` returns.
pub fn run(plan: &Plan, shot: &Shot, lane: Lane<'_>, control: &dyn Control) -> Result<(Gather, Effort)> {
    plan.check(shot)?;
    let (mut gather, effort) = if plan.options.exact_time {
        let bytes = exact_time::bytes(shot);
        if !can_allocate(bytes) {
            return Err(Error::NoHostMemory { what: "the exact time of a shot".into(), bytes });
        }
        let nt = plan.steps(shot);
        let longer = shot.with_source(shot.kind.clone(), exact_time::warped_wavelet(shot)?, nt)?;
        let (gather, effort) = plan.run(&longer, lane, control)?;
        (exact_time::corrected(gather, shot, lane)?, effort)
    } else {
        plan.run(shot, lane, control)?
    };
    let muted = shot.mute.iter().flatten();
    for (trace, &step) in gather.data.chunks_exact_mut(gather.samples.max(1)).zip(muted) {
        let count = (step as usize).div_ceil(shot.record_every).min(trace.len());
        trace[..count].fill(0.0);
    }
    Ok((gather, effort))
}

/// Receives a shot's results, on a worker's thread. A retried shot calls again, and two copies of a
/// shot may call at the same time; `exec` identifies the attempt.
pub trait ShotOutput: Send + Sync {
    fn snapshot(&self, exec: &Exec<'_>, step: usize, field: &[f32]) -> Result<()>;
    /// Called once the attempt has committed: it cannot be cancelled any more, and no other copy
    /// calls this.
    fn finish(&self, exec: &Exec<'_>, gather: Gather, effort: Effort) -> Result<()>;
    /// See [`Control::resume`].
    fn resume(&self, _exec: &Exec<'_>, _state: &mut dyn State) -> Result<usize> {
        Ok(0)
    }
    /// See [`Control::pauses`].
    fn pauses(&self) -> bool {
        false
    }
    /// See [`Control::pause`].
    fn pause(&self, _exec: &Exec<'_>, _done: usize, _state: &mut dyn State) -> Result<()> {
        Ok(())
    }
}

/// Retries of a shot after a driver call has failed temporarily. They do not apply to an unstable
/// shot. The scheduler repeats that once if its time step is stable, because the device may be the
/// cause.
const RETRIES: u32 = 2;

/// Makes a task of a shot, with its memory and work (padded cells times steps). `threads`: threads
/// of the scheduler's CPU device for it
/// ([`Scheduler::cpu_threads`](crate::sched::Scheduler::cpu_threads)). A shot without snapshots is
/// idempotent, so copies of it may run: only one attempt passes on its gather.
///
/// # Errors
/// A shot that does not fit the plan.
pub fn task(plan: Arc<Plan>, shot: Shot, threads: u32, output: impl ShotOutput + 'static) -> Result<Task> {
    plan.check(&shot)?;
    let bytes = plan.shot_bytes(&shot, threads);
    let cpu_only = plan.needs_cpu("").is_some();
    let (class, idempotent) = (plan.options.equation.class(), shot.snapshot_every.is_none());
    let work = plan.padded_cells() as f64 * plan.steps(&shot) as f64;
    let mut task = Task::new(move |exec: &Exec<'_>| {
        let (gather, effort) =
            run(&plan, &shot, exec.lane, &Reporter { exec, output: &output, begun: AtomicUsize::new(0) })
                .map_err(|error| plan.starved(error, &shot, exec.lane))?;
        exec.commit()?;
        output.finish(exec, gather, effort)
    });
    task.device_bytes = bytes.device;
    task.host_bytes = bytes.host;
    task.work = Some(work);
    task.class = class;
    if cpu_only {
        task.backends = vec![BackendKind::Cpu];
    }
    task.idempotent = idempotent;
    task.retries = RETRIES;
    Ok(task)
}

/// Passes the callbacks of a running shot to its task and output.
struct Reporter<'a> {
    exec: &'a Exec<'a>,
    output: &'a dyn ShotOutput,
    /// Steps in the state from which the shot resumes. Its progress is that of the others.
    begun: AtomicUsize,
}

impl Control for Reporter<'_> {
    fn step(&self, step: usize, nt: usize) -> Result<()> {
        let begun = self.begun.load(Ordering::Relaxed);
        self.exec.report((step + 1 - begun) as f64 / (nt - begun) as f64);
        if self.exec.cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }

    fn snapshot(&self, step: usize, field: &[f32]) -> Result<()> {
        self.output.snapshot(self.exec, step, field)
    }

    fn resume(&self, state: &mut dyn State) -> Result<usize> {
        let begun = self.output.resume(self.exec, state)?;
        self.begun.store(begun, Ordering::Relaxed);
        Ok(begun)
    }

    fn pauses(&self) -> bool {
        self.output.pauses()
    }

    fn finding(&self, subject: &str) -> Option<String> {
        self.exec.finding(subject)
    }

    fn found(&self, subject: &str, finding: &str) {
        self.exec.record_finding(subject, finding);
    }

    fn pause(&self, done: usize, state: &mut dyn State) -> Result<()> {
        self.output.pause(self.exec, done, state)
    }
}
