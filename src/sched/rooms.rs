//! Where those sleep who wait for the end of tasks.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use super::sync::lock;
use super::task::TaskId;

/// Stands for a phase of light tasks that drains, and for the end of any planned task.
pub const ALL: TaskId = TaskId(0);
/// Stands for whatever could leave the tasks that wait inside their code without anybody to wait for.
pub const INSIDE: TaskId = TaskId(u64::MAX);

const ROOMS: usize = 16;

type Room = Mutex<Vec<(TaskId, Arc<Bell>)>>;

/// By the task's id. A waiter first puts its bell into the room of each task, then looks, then sleeps; what it waits
/// for is first made visible, then its bells are rung: so it sees the one or hears the other.
#[derive(Default)]
pub struct Rooms {
    rooms: [Room; ROOMS],
    /// Tasks that wait without a time limit and have looked since they were last rung: only these are
    /// known to wait for something that has not happened.
    pub blocked: AtomicUsize,
}

/// One waiter.
#[derive(Default)]
pub struct Bell {
    state: Mutex<Heard>,
    changed: Condvar,
}

#[derive(Default)]
struct Heard {
    rung: bool,
    /// Counted in [`Rooms::blocked`]; never while it is rung.
    blocked: bool,
}

impl Bell {
    /// Sleeps until it is rung, or was since it was last heard. False: the time is up.
    pub fn hear(&self, deadline: Option<Instant>) -> bool {
        let mut state = lock(&self.state);
        while !state.rung {
            let slept = match deadline {
                None => self.changed.wait(state).map_err(|poison| poison.into_inner()),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return false;
                    }
                    let slept = self.changed.wait_timeout(state, left);
                    slept.map(|slept| slept.0).map_err(|poison| poison.into_inner().0)
                }
            };
            state = slept.unwrap_or_else(|state| state);
        }
        state.rung = false;
        true
    }
}

impl Rooms {
    fn room(&self, key: TaskId) -> &Room {
        &self.rooms[(key.0 ^ key.0 >> 7) as usize % ROOMS]
    }

    pub fn enter(&self, keys: &[TaskId], bell: &Arc<Bell>) {
        for &key in keys {
            lock(self.room(key)).push((key, bell.clone()));
        }
    }

    pub fn leave(&self, keys: &[TaskId], bell: &Arc<Bell>) {
        for &key in keys {
            lock(self.room(key)).retain(|(_, other)| !Arc::ptr_eq(other, bell));
        }
    }

    /// Wakes those who wait for this.
    pub fn ring(&self, key: TaskId) {
        let bells: Vec<_> = lock(self.room(key))
            .iter()
            .filter(|(other, _)| *other == key)
            .map(|(_, bell)| bell.clone())
            .collect();
        for bell in bells {
            let mut state = lock(&bell.state);
            state.rung = true;
            self.uncount(&mut state);
            bell.changed.notify_one();
        }
    }

    /// Counts a waiter, which has looked and found nothing, as blocked; false: it was rung meanwhile.
    pub fn block(&self, bell: &Bell) -> bool {
        let mut state = lock(&bell.state);
        if !state.rung && !std::mem::replace(&mut state.blocked, true) {
            self.blocked.fetch_add(1, Ordering::SeqCst);
        }
        state.blocked
    }

    pub fn unblock(&self, bell: &Bell) {
        self.uncount(&mut lock(&bell.state));
    }

    fn uncount(&self, state: &mut Heard) {
        if std::mem::take(&mut state.blocked) {
            self.blocked.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
