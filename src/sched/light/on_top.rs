//! What a worker runs on top of a planned task that waits. If that task's attempt is given up because it does not return,
//! nobody waits for the thread any more, so whoever gives it up ends what is on top of it, too.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use super::Phase;
use crate::error::Error;
use crate::sched::common::Shared;
use crate::sched::sync::lock;
use crate::sched::task::TaskId;

/// The light tasks on top of a planned one, if that is what the worker is in.
#[derive(Default)]
pub struct OnTop(Mutex<Pile>);

#[derive(Default)]
struct Pile {
    /// The planned task, and which attempt at it.
    bottom: Option<(TaskId, u32)>,
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
        lock(&self.0).bottom = bottom;
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

    fn take(&self, bottom: (TaskId, u32)) -> Vec<(u64, Frame)> {
        let mut pile = lock(&self.0);
        if pile.bottom == Some(bottom) { std::mem::take(&mut pile.frames) } else { Vec::new() }
    }
}

impl Shared {
    /// An attempt at a planned task is given up: what runs on top of it does not return either.
    pub fn give_up_on_top(self: &Arc<Self>, id: TaskId, attempt: u32, limit_s: f64) {
        for station in self.light.queues.stations() {
            let device = self.devices[station.device].label();
            for (_, Frame { id, phase }) in station.books.on_top.take((id, attempt)).into_iter().rev() {
                station.books.since.store(0, Ordering::Relaxed);
                let what = "the task on top of which it ran".into();
                let outcome = Err(Error::Deadline { what, limit_s, device: device.clone() });
                if id.0 == 0 {
                    self.light.count_end(None, &outcome);
                    self.count_ended(None, phase, 1);
                    continue;
                }
                let (slot, generation) = self.light.slots.place(id);
                slot.stay(generation);
                self.end_light(None, slot, id, phase, outcome, self.clock());
            }
        }
    }
}
