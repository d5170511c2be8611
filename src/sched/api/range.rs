//! Submission of parallel loops; `range/` runs them.

use std::ops;
use std::sync::{Arc, OnceLock};

use super::Scheduler;
use crate::error::{Error, Result};
use crate::sched::base::{Exec, Role, Task, TaskId, WaitResult};
use crate::sched::range::{RangeJob, RangeOwner, RangeRun, length};

/// A parallel loop and its requirements. Start from [`Range::new`] and set the fields that matter.
///
/// The elements of a chunk count as done once the work that it has put on its queue is done. The
/// task's progress is the part of the elements that is done.
pub struct Range {
    pub begin: u64,
    /// Not included.
    pub end: u64,
    /// Elements of a call, at least 1; fewer at the end and where memory is short.
    /// `None`: tuned automatically for each device, so that a call takes about 0.75 ms.
    pub grain: Option<u64>,
    /// Dropped once, after the last chunk.
    pub code: Box<RangeJob>,
    /// The label and the requirements of the range. Its `device_bytes` are those of one element: a
    /// chunk has no more elements than fit beside the other tasks. Its job, `host_bytes`, `work`,
    /// `class`, `retries` and `idempotent` are ignored.
    pub task: Task,
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
            task: Task::new(|_: &Exec<'_>| Ok(())),
        }
    }
}

impl Scheduler {
    /// Submits a range, which has one id and one outcome. A range without elements ends well
    /// without a call. Fails at once if no device could run a single element.
    pub fn submit_range(&self, range: Range) -> Result<TaskId> {
        let runtime = self.runtime()?;
        let Range { begin, end, grain, code, task } = range;
        if begin > end {
            let accepted = format!("at most its end, {end}");
            return Err(Error::argument("the range's begin", begin, accepted));
        }
        if grain == Some(0) {
            return Err(Error::argument("the range's grain", 0, "at least 1 element, or none"));
        }
        let Task { label, device_bytes, priority, devices, backends, .. } = task;
        let Task { deadline, detached, after, ordered, .. } = task;
        let none = Task::new(|_: &Exec<'_>| Ok(()));
        let template = Task { label, device_bytes, priority, devices, backends, ..none };
        let run = RangeRun::new(runtime, begin..end, grain, code, template.clone());
        let role = if begin == end { Role::EmptyRange } else { Role::Range };
        let job = Arc::new(RangeOwner(run));
        self.submit(Task { job, role, deadline, detached, after, ordered, ..template })
    }

    /// Calls `code` for every number of the range in parallel, waits, and returns the results in
    /// order. The first error ends the range.
    pub fn map_range<T: Send + Sync + 'static>(
        &self,
        elements: ops::Range<u64>,
        code: impl Fn(&Exec<'_>, u64) -> Result<T> + Send + Sync + 'static,
    ) -> Result<Vec<T>> {
        let results = Arc::new(allocate::<T>(length(&elements))?);
        let (first, shared) = (elements.start, results.clone());
        let id = self.submit_range(Range::new(elements, move |exec, chunk| {
            for element in chunk {
                let result = code(exec, element)?;
                // A chunk that failed half-way may have set it already.
                let _ = shared[(element - first) as usize].set(result);
            }
            Ok(())
        }))?;
        let waited = self.wait(id, None);
        let _ = self.release(id);
        if waited? != WaitResult::Done {
            return Err(Error::Cancelled);
        }
        // The code, the other owner of the results, is dropped before the end is published.
        let results = Arc::into_inner(results).ok_or_else(|| Error::Internal("results are in use".into()))?;
        let results = results.into_iter().map(|mut result| result.take());
        results.collect::<Option<Vec<T>>>().ok_or_else(|| Error::Internal("a result is missing".into()))
    }
}

/// Allocates space for the results, without which a huge range would abort the process.
fn allocate<T>(count: u64) -> Result<Vec<OnceLock<T>>> {
    let mut results = Vec::new();
    let room = usize::try_from(count).ok().and_then(|count| results.try_reserve_exact(count).ok());
    room.ok_or_else(|| Error::NoHostMemory {
        what: "keeping the results of a range".into(),
        bytes: count.saturating_mul(size_of::<OnceLock<T>>() as u64),
    })?;
    results.extend((0..count).map(|_| OnceLock::new()));
    Ok(results)
}
