//! Barrier of a team, for many waits per second.
//!
//! A waiter spins first, because the other members usually arrive soon, and then sleeps. The number
//! of spins adapts: a spin without success halves the next one, a successful one doubles it. So a
//! team on a busy machine soon hardly spins.

use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Condvar, Mutex, PoisonError};

/// Number of polls before a waiter sleeps; each takes some tens of nanoseconds.
const SPINS: usize = 2048;
const MIN_SPINS: usize = 16;

pub struct Barrier {
    count: AtomicUsize,
    arrived: AtomicUsize,
    /// Number of times that the barrier has opened.
    generation: AtomicUsize,
    /// Members that have left the work: the barrier will not open again.
    departed: AtomicUsize,
    spins: AtomicUsize,
    sleepers: Mutex<usize>,
    wake: Condvar,
}

/// A member has left the work, so the barrier will not open again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BarrierBroken;

impl Barrier {
    pub fn new(count: usize) -> Self {
        Barrier {
            count: AtomicUsize::new(count),
            arrived: AtomicUsize::new(0),
            generation: AtomicUsize::new(0),
            departed: AtomicUsize::new(0),
            spins: AtomicUsize::new(SPINS),
            sleepers: Mutex::new(0),
            wake: Condvar::new(),
        }
    }

    /// Waits for all members. The last to arrive runs `serial` while the others still wait.
    pub fn wait(&self, serial: impl FnOnce()) -> Result<(), BarrierBroken> {
        // Read before arriving: the barrier can't open without this member.
        let before = self.generation.load(Acquire);
        if self.arrived.fetch_add(1, AcqRel) + 1 == self.count.load(Relaxed) {
            serial();
            self.arrived.store(0, Relaxed);
            self.generation.store(before.wrapping_add(1), SeqCst);
            self.wake_sleepers();
            return Ok(());
        }
        let spins = self.spins.load(Relaxed);
        for _ in 0..spins {
            if let Some(end) = self.poll(before) {
                self.spins.store((spins * 2).min(SPINS), Relaxed);
                return end;
            }
            std::hint::spin_loop();
        }
        self.spins.store((spins / 2).max(MIN_SPINS), Relaxed);
        self.sleep(before)
    }

    /// Reports that a member will not arrive again.
    pub fn leave(&self) {
        self.departed.fetch_add(1, SeqCst);
        self.wake_sleepers();
    }

    /// Prepares the barrier for the next work with `count` members. No member may use it meanwhile.
    pub fn reset(&self, count: usize) {
        self.count.store(count, SeqCst);
        self.arrived.store(0, SeqCst);
        self.departed.store(0, SeqCst);
    }

    /// Returns the result of the wait that began in generation `before`; `None`: it goes on. A
    /// member leaves only after the openings in which it took part, so `departed` is read first.
    fn poll(&self, before: usize) -> Option<Result<(), BarrierBroken>> {
        let departed = self.departed.load(SeqCst);
        if self.generation.load(SeqCst) != before {
            return Some(Ok(()));
        }
        (departed > 0).then_some(Err(BarrierBroken))
    }

    fn sleep(&self, before: usize) -> Result<(), BarrierBroken> {
        let mut sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        *sleepers += 1;
        loop {
            if let Some(end) = self.poll(before) {
                *sleepers -= 1;
                return end;
            }
            sleepers = self.wake.wait(sleepers).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Wakes all sleepers. A waiter polls under the lock before it sleeps, and the caller has
    /// changed the state before this. So a waiter either sees the change or is counted and woken.
    fn wake_sleepers(&self) {
        let sleepers = *self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        if sleepers > 0 {
            self.wake.notify_all();
        }
    }
}
