//! Where the members of a team wait for each other, many times a second.
//!
//! A waiter first spins for a moment, because the others are usually close behind, and
//! then sleeps. How long it spins adapts: a spin that was in vain halves the next, one
//! that was not lengthens it, so a team on a busy machine soon burns next to nothing.

use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Condvar, Mutex, PoisonError};

/// Looks at the barrier before sleeping: some tens of nanoseconds each.
const SPINS: usize = 2048;
const FEWEST_SPINS: usize = 16;

pub struct Barrier {
    count: AtomicUsize,
    arrived: AtomicUsize,
    /// Counts how often the barrier has opened.
    opened: AtomicUsize,
    /// Members that have left the work: who still waits, waits in vain.
    left: AtomicUsize,
    spins: AtomicUsize,
    sleepers: Mutex<usize>,
    wake: Condvar,
}

/// A member has left the work, so the barrier will never open again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Broken;

impl Barrier {
    pub fn new(count: usize) -> Self {
        Barrier {
            count: AtomicUsize::new(count),
            arrived: AtomicUsize::new(0),
            opened: AtomicUsize::new(0),
            left: AtomicUsize::new(0),
            spins: AtomicUsize::new(SPINS),
            sleepers: Mutex::new(0),
            wake: Condvar::new(),
        }
    }

    /// Waits for all. The last to arrive runs `alone` while the others still wait.
    pub fn wait(&self, alone: impl FnOnce()) -> Result<(), Broken> {
        // Read before arriving: the barrier can't open without this member.
        let before = self.opened.load(Acquire);
        if self.arrived.fetch_add(1, AcqRel) + 1 == self.count.load(Relaxed) {
            alone();
            self.arrived.store(0, Relaxed);
            self.opened.store(before.wrapping_add(1), SeqCst);
            self.rouse();
            return Ok(());
        }
        let spins = self.spins.load(Relaxed);
        for _ in 0..spins {
            if let Some(end) = self.look(before) {
                self.spins.store((spins * 2).min(SPINS), Relaxed);
                return end;
            }
            std::hint::spin_loop();
        }
        self.spins.store((spins / 2).max(FEWEST_SPINS), Relaxed);
        self.sleep(before)
    }

    /// A member will not come again.
    pub fn leave(&self) {
        self.left.fetch_add(1, SeqCst);
        self.rouse();
    }

    /// As new, for the next work and so many members. Only while nobody uses it.
    pub fn reset(&self, count: usize) {
        self.count.store(count, SeqCst);
        self.arrived.store(0, SeqCst);
        self.left.store(0, SeqCst);
    }

    /// Whether the wait that began at opening `before` is over, and how. A member leaves
    /// only after the openings that it took part in, so `left` is read first.
    fn look(&self, before: usize) -> Option<Result<(), Broken>> {
        let left = self.left.load(SeqCst);
        if self.opened.load(SeqCst) != before {
            return Some(Ok(()));
        }
        (left > 0).then_some(Err(Broken))
    }

    fn sleep(&self, before: usize) -> Result<(), Broken> {
        let mut sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        *sleepers += 1;
        loop {
            if let Some(end) = self.look(before) {
                *sleepers -= 1;
                return end;
            }
            sleepers = self.wake.wait(sleepers).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A sleeper looks under the lock, and what it looks at was written before this: it
    /// has either seen it, or sleeps already and is woken.
    fn rouse(&self) {
        let sleepers = *self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        if sleepers > 0 {
            self.wake.notify_all();
        }
    }
}
