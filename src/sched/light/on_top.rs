//! What a worker runs on top of a planned task that waits. If that task's attempt is given up because it does not return,
//! nobody waits for the thread any more, so whoever gives it up ends what is on top of it, too.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use super::Phase;
use crate::error::Error;
use crate::sched::common::Shared;
use crate::sched::rooms::INSIDE;
use crate::sched::sync::lock;
use crate::sched::task::TaskId;

/// The light tasks on top of a planned one, if that is what the worker is in.
#[derive(Default)]
pub struct OnTop(Mutex<Pile>);

#[derive(Default)]
struct Pile {
    /// The planned task, and which attempt at it.
    bottom: Option<(TaskId, u32)>,
    given_up: bool,
    begun: u64,
    frames: Vec<(u64, Frame)>,
}

/// A light task; without an id if it is loose.
#[derive(Clone, Copy)]
pub struct Frame {
    pub id: TaskId,
    pub phase: Phase,
}

/// A frame's number; `None`: there is no planned task below it.
pub type Place = Option<u64>;

impl OnTop {
    pub fn set_bottom(&self, bottom: Option<(TaskId, u32)>) {
        let mut pile = lock(&self.0);
        pile.bottom = bottom;
        pile.given_up = false;
    }

    fn give_up(&self, bottom: (TaskId, u32)) {
        let mut pile = lock(&self.0);
        pile.given_up |= pile.bottom == Some(bottom);
    }

    /// Whether the planned task's attempt was given up.
    pub fn is_given_up(&self) -> bool {
        lock(&self.0).given_up
    }

    pub fn push(&self, frame: Frame) -> u64 {
        let mut pile = lock(&self.0);
        pile.begun += 1;
        let number = pile.begun;
        pile.frames.push((number, frame));
        number
    }

    /// The frame's code has returned. False: it was given up meanwhile, and has been ended.
    pub fn pop(&self, place: Place) -> bool {
        let Some(number) = place else { return true };
        lock(&self.0).frames.pop_if(|&mut (last, _)| last == number).is_some()
    }

    /// What is on top of this attempt, to be ended. `stay` is told of each before its thread can find out.
    fn take(&self, bottom: (TaskId, u32), stay: impl Fn(Frame)) -> Vec<Frame> {
        let mut pile = lock(&self.0);
        if pile.bottom != Some(bottom) {
            return Vec::new();
        }
        let frames: Vec<Frame> =
            std::mem::take(&mut pile.frames).into_iter().map(|(_, frame)| frame).collect();
        frames.iter().copied().for_each(stay);
        frames
    }
}

impl Shared {
    /// Nobody waits any more for the threads of these attempts. None of them counts as blocked from now on, for it does not count
    /// as awake either.
    pub fn give_up(&self, attempts: &[(TaskId, u32, f64)]) {
        for &(id, attempt, _) in attempts {
            self.light.queues.each_station(|station| station.books.on_top.give_up((id, attempt)));
            self.rooms.ring(id);
            self.rooms.ring(INSIDE);
        }
        self.crew.give_up(attempts.len());
    }

    /// An attempt at a planned task is given up: what runs on top of it does not return either.
    pub fn give_up_on_top(self: &Arc<Self>, id: TaskId, attempt: u32, limit_s: f64) {
        for station in self.light.queues.stations() {
            let device = self.devices[station.device].label();
            let stay = |frame: Frame| {
                if frame.id.0 != 0 {
                    let (slot, generation) = self.light.slots.place(frame.id);
                    slot.stay(generation);
                }
            };
            for Frame { id, phase } in station.books.on_top.take((id, attempt), stay).into_iter().rev() {
                station.books.since.store(0, Ordering::Relaxed);
                let what = "the task on top of which it ran".into();
                let outcome = Err(Error::Deadline { what, limit_s, device: device.clone() });
                if id.0 == 0 {
                    self.light.count_end(None, &outcome);
                    self.count_ended(None, phase, 1);
                    continue;
                }
                let (slot, _) = self.light.slots.place(id);
                self.end_light(None, slot, id, phase, outcome, self.clock());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_thread_finds_out_that_it_was_given_up_after_its_task_was_told_to_stay() {
        let on_top = OnTop::default();
        let bottom = (TaskId(1), 1);
        on_top.set_bottom(Some(bottom));
        let place = Some(on_top.push(Frame { id: TaskId(2), phase: 0 }));
        let (begun, told) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !begun.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                assert!(!on_top.pop(place));
                assert!(told.load(Ordering::SeqCst));
            });
            let taken = on_top.take(bottom, |_| {
                begun.store(true, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(10));
                told.store(true, Ordering::SeqCst);
            });
            assert_eq!(taken.len(), 1);
        });
    }
}
