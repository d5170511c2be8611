//! Light tasks that a worker runs inside a planned task that waits. If the attempt at the planned task
//! is abandoned because it does not return, the thread that abandons it ends them, too.

use std::sync::Mutex;

use super::Epoch;
use crate::sched::base::{TaskId, lock};

/// The light tasks that a worker runs inside a planned one.
#[derive(Default)]
pub struct NestedTasks(Mutex<NestedStack>);

#[derive(Default)]
struct NestedStack {
    /// The planned task that the worker runs or ran last, and the number of the attempt.
    planned: Option<(TaskId, u32)>,
    abandoned: bool,
    last_index: u64,
    frames: Vec<(u64, NestedTask)>,
}

/// A light task; its id is 0 if it has none.
#[derive(Clone, Copy)]
pub struct NestedTask {
    pub id: TaskId,
    pub epoch: Epoch,
}

impl NestedTasks {
    /// Sets the attempt that the worker runs. It stays set after its end, when the planner abandons it no more.
    pub fn set_planned(&self, bottom: (TaskId, u32)) {
        let mut stack = lock(&self.0);
        stack.planned = Some(bottom);
        stack.abandoned = false;
    }

    pub fn abandon(&self, bottom: (TaskId, u32)) {
        let mut stack = lock(&self.0);
        stack.abandoned |= stack.planned == Some(bottom);
    }

    /// Returns whether the attempt at the planned task was abandoned.
    pub fn is_abandoned(&self) -> bool {
        lock(&self.0).abandoned
    }

    pub fn push(&self, frame: NestedTask) -> u64 {
        let mut stack = lock(&self.0);
        stack.last_index += 1;
        let number = stack.last_index;
        stack.frames.push((number, frame));
        number
    }

    /// Removes a task whose job has returned; `None`: the worker is in no planned task. Returns false if
    /// the task was ended with its abandoned thread.
    pub fn pop(&self, place: Option<u64>) -> bool {
        let Some(number) = place else { return true };
        lock(&self.0).frames.pop_if(|&mut (last, _)| last == number).is_some()
    }

    /// Takes the tasks inside an abandoned attempt. Calls `hold` for each before its thread can find
    /// that it was taken.
    pub fn take_all(&self, bottom: (TaskId, u32), hold: impl Fn(NestedTask)) -> Vec<NestedTask> {
        let mut stack = lock(&self.0);
        if stack.planned != Some(bottom) {
            return Vec::new();
        }
        let frames: Vec<NestedTask> =
            std::mem::take(&mut stack.frames).into_iter().map(|(_, frame)| frame).collect();
        frames.iter().copied().for_each(hold);
        frames
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn abandoned_thread_finds_its_task_held() {
        let nested = NestedTasks::default();
        let bottom = (TaskId(1), 1);
        nested.set_planned(bottom);
        let place = Some(nested.push(NestedTask { id: TaskId(2), epoch: 0 }));
        let (begun, held) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !begun.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                assert!(!nested.pop(place));
                assert!(held.load(Ordering::SeqCst));
            });
            let taken = nested.take_all(bottom, |_| {
                begun.store(true, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(10));
                held.store(true, Ordering::SeqCst);
            });
            assert_eq!(taken.len(), 1);
        });
    }
}
