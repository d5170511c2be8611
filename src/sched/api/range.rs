//! Submission of parallel loops; `range/` runs them.

use std::ops;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::scheduler::Scheduler;
use crate::device::BackendKind;
use crate::error::{Error, Result};
use crate::sched::base::device_mask::DeviceMask;
use crate::sched::base::exec::Exec;
use crate::sched::base::outcome::WaitResult;
use crate::sched::base::task::{Role, Task};
use crate::sched::base::task_id::TaskId;
use crate::sched::range::partitioner;
use crate::sched::range::work::{RangeJob, RangeOwner, RangeRun, TaskTemplate};

/// A parallel loop and what the scheduler is told of it. Start from [`Range::new`] and set what matters.
///
/// What a piece has put on its queue is waited for before its elements count as done. The task's progress is the
/// part of the elements that is done.
pub struct Range {
    pub begin: u64,
    /// Not included.
    pub end: u64,
    /// Elements of a call, at least 1; fewer at the end of a share and where memory is short. `None`: found by
    /// measuring, for each device, so that a call takes about 0.75 ms.
    pub grain: Option<u64>,
    /// Dropped once, after the last piece.
    pub code: Box<RangeJob>,
    pub label: String,
    /// Device memory that one element takes; a piece takes as many times that as it has elements,
    /// and has no more elements than fit beside what else runs.
    pub device_bytes: u64,
    /// Higher runs earlier.
    pub priority: i32,
    pub devices: DeviceMask,
    /// Empty: every kind of device.
    pub backends: Vec<BackendKind>,
    /// How long the range may take before it is asked to stop. `None`: as long as it takes.
    pub deadline: Option<Duration>,
    /// Nobody will ask for the outcome: the id is released when the range ends.
    pub detached: bool,
    /// Tasks that have to end well before the first piece starts.
    pub after: Vec<TaskId>,
    /// As of a task.
    pub ordered: bool,
}

impl Range {
    pub fn new(
        elements: ops::Range<u64>,
        code: impl Fn(&Exec<'_>, ops::Range<u64>) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        Range {
            begin: elements.start,
            end: elements.end,
            grain: None,
            code: Box::new(code),
            label: String::new(),
            device_bytes: 0,
            priority: 0,
            devices: DeviceMask::ALL,
            backends: Vec::new(),
            deadline: None,
            detached: false,
            after: Vec::new(),
            ordered: false,
        }
    }

    fn check(&self) -> Result<()> {
        if self.begin > self.end {
            let accepted = format!("at most its end, {}", self.end);
            return Err(Error::argument("the range's begin", self.begin, accepted));
        }
        if self.grain == Some(0) {
            return Err(Error::argument("the range's grain", 0, "at least 1 element, or none"));
        }
        Ok(())
    }
}

impl Scheduler {
    /// Takes a range: one id and one outcome for all of it. A range without elements ends well, and its
    /// code is not called. Refused at once if no device could run a single element.
    pub fn submit_range(&self, range: Range) -> Result<TaskId> {
        // Before any lock: in a child of fork it may be held for ever.
        self.check_process()?;
        range.check()?;
        let Range { begin, end, grain, code, deadline, detached, after, ordered, .. } = range;
        let like = TaskTemplate {
            label: range.label,
            device_bytes: range.device_bytes,
            priority: range.priority,
            devices: range.devices,
            backends: range.backends,
        };
        let work = RangeRun::new(self.shared(), begin..end, grain, code, like);
        let role = if begin == end { Role::Nothing } else { Role::Range };
        let host = work.task(RangeOwner(work.clone()), role);
        self.submit(Task { deadline, detached, after, ordered, ..host })
    }

    /// Calls `code` for every number of the range, in parallel, waits, and returns the results in order.
    /// The first error ends it.
    pub fn map_range<T: Send + Sync + 'static>(
        &self,
        elements: ops::Range<u64>,
        code: impl Fn(&Exec<'_>, u64) -> Result<T> + Send + Sync + 'static,
    ) -> Result<Vec<T>> {
        let places = Arc::new(places::<T>(partitioner::length(&elements))?);
        let (first, results) = (elements.start, places.clone());
        let id = self.submit_range(Range::new(elements, move |exec, piece| {
            for element in piece {
                let result = code(exec, element)?;
                // A piece that failed half-way may have left one here already.
                let _ = results[(element - first) as usize].set(result);
            }
            Ok(())
        }))?;
        let waited = self.wait(id, None);
        let _ = self.release(id);
        if waited? != WaitResult::Done {
            return Err(Error::Cancelled);
        }
        // The code, and with it the other owner of the places, went before the end was told.
        let places = Arc::into_inner(places).ok_or_else(|| Error::Internal("results are in use".into()))?;
        let results = places.into_iter().map(|mut place| place.take());
        results.collect::<Option<Vec<T>>>().ok_or_else(|| Error::Internal("a result is missing".into()))
    }
}

fn places<T>(count: u64) -> Result<Vec<OnceLock<T>>> {
    let mut places = Vec::new();
    let room = usize::try_from(count).ok().and_then(|count| places.try_reserve_exact(count).ok());
    room.ok_or_else(|| Error::NoHostMemory {
        what: "keeping the results of a range".into(),
        bytes: count.saturating_mul(size_of::<OnceLock<T>>() as u64),
    })?;
    places.extend((0..count).map(|_| OnceLock::new()));
    Ok(places)
}
