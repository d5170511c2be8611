//! What a worker runs on top of a planned task that waits. If that task's attempt is given up because it does not return,
//! nobody waits for the thread any more, so whoever gives it up ends what is on top of it, too.

use std::sync::Mutex;

use super::epochs::Epoch;
use crate::sched::base::sync::lock;
use crate::sched::base::task_id::TaskId;

/// The light tasks on top of a planned one, if that is what the worker is in.
#[derive(Default)]
pub struct NestedTasks(Mutex<NestedStack>);

#[derive(Default)]
struct NestedStack {
    /// The planned task, and which attempt at it.
    planned: Option<(TaskId, u32)>,
    abandoned: bool,
    last_index: u64,
    frames: Vec<(u64, NestedTask)>,
}

/// A light task; without an id if it is loose.
#[derive(Clone, Copy)]
pub struct NestedTask {
    pub id: TaskId,
    pub epoch: Epoch,
}

/// A frame's number; `None`: there is no planned task below it.
pub type NestedIndex = Option<u64>;

impl NestedTasks {
    pub fn set_planned(&self, bottom: Option<(TaskId, u32)>) {
        let mut pile = lock(&self.0);
        pile.planned = bottom;
        pile.abandoned = false;
    }

    pub fn abandon(&self, bottom: (TaskId, u32)) {
        let mut pile = lock(&self.0);
        pile.abandoned |= pile.planned == Some(bottom);
    }

    /// Whether the planned task's attempt was given up.
    pub fn is_abandoned(&self) -> bool {
        lock(&self.0).abandoned
    }

    pub fn push(&self, frame: NestedTask) -> u64 {
        let mut pile = lock(&self.0);
        pile.last_index += 1;
        let number = pile.last_index;
        pile.frames.push((number, frame));
        number
    }

    /// The frame's code has returned. False: it was given up meanwhile, and has been ended.
    pub fn pop(&self, place: NestedIndex) -> bool {
        let Some(number) = place else { return true };
        lock(&self.0).frames.pop_if(|&mut (last, _)| last == number).is_some()
    }

    /// What is on top of this attempt, to be ended. `stay` is told of each before its thread can find out.
    pub fn take_all(&self, bottom: (TaskId, u32), stay: impl Fn(NestedTask)) -> Vec<NestedTask> {
        let mut pile = lock(&self.0);
        if pile.planned != Some(bottom) {
            return Vec::new();
        }
        let frames: Vec<NestedTask> =
            std::mem::take(&mut pile.frames).into_iter().map(|(_, frame)| frame).collect();
        frames.iter().copied().for_each(stay);
        frames
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_thread_finds_out_that_it_was_given_up_after_its_task_was_told_to_stay() {
        let on_top = NestedTasks::default();
        let bottom = (TaskId(1), 1);
        on_top.set_planned(Some(bottom));
        let place = Some(on_top.push(NestedTask { id: TaskId(2), epoch: 0 }));
        let (begun, told) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !begun.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                assert!(!on_top.pop(place));
                assert!(told.load(Ordering::SeqCst));
            });
            let taken = on_top.take_all(bottom, |_| {
                begun.store(true, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(10));
                told.store(true, Ordering::SeqCst);
            });
            assert_eq!(taken.len(), 1);
        });
    }
}
