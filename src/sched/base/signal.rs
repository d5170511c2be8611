//! Stop requests, commit and progress of a task: the atomics shared by its job and its observers.

use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::WaitResult;
use crate::error::{Error, Result};

/// A planned task's signal and outcome. Waiting threads hold it beyond the release of the task's
/// id.
#[derive(Debug, Default)]
pub(crate) struct Completion {
    signal: Signal,
    /// Set once, under the planner lock, when the task ends.
    pub outcome: OnceLock<Result<WaitResult>>,
}

impl Deref for Completion {
    type Target = Signal;

    fn deref(&self) -> &Signal {
        &self.signal
    }
}

/// The stop requests to a task's attempts, and the progress that they report.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    /// [`OPEN`], [`CANCELLED`], or [`COMMITTED`] plus the attempt. A cancel and the commits of the
    /// attempts race for this word; the first one wins.
    claim: AtomicU64,
    /// Attempts up to this one are asked to stop.
    stop: AtomicU32,
    /// From 0 to 1, as the bits of an `f64`.
    progress: AtomicU64,
}

/// The claim of a task while another one runs nested on it.
pub(crate) struct SavedClaim(u64);

const OPEN: u64 = 0;
const CANCELLED: u64 = 1;
/// Plus the attempt.
const COMMITTED: u64 = 1 << 32;

impl Signal {
    /// Prepares the signal for another task.
    pub fn reset(&self) {
        self.claim.store(OPEN, Ordering::Release);
        self.stop.store(0, Ordering::Release);
        self.progress.store(0, Ordering::Relaxed);
    }

    /// Returns true if the whole task was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.claim.load(Ordering::Acquire) == CANCELLED
    }

    /// Returns true if the task was cancelled or an attempt has committed.
    pub fn is_decided(&self) -> bool {
        self.claim.load(Ordering::Acquire) != OPEN
    }

    /// Returns true if this attempt should stop.
    pub fn is_stopped(&self, attempt: u32) -> bool {
        match self.claim.load(Ordering::Acquire) {
            OPEN => attempt <= self.stop.load(Ordering::Acquire),
            claim => claim != COMMITTED + u64::from(attempt),
        }
    }

    /// Returns true if another attempt than this has committed.
    pub fn is_lost(&self, attempt: u32) -> bool {
        let claim = self.claim.load(Ordering::Acquire);
        claim > CANCELLED && claim != COMMITTED + u64::from(attempt)
    }

    pub fn cancel(&self) {
        let _ = self.claim.compare_exchange(OPEN, CANCELLED, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Opens the claim for a nested task that shares the signal, and returns the claim for
    /// [`Signal::end_nested`]. `stopping` returns true once all tasks are being cancelled.
    pub fn begin_nested(&self, stopping: impl Fn() -> bool) -> SavedClaim {
        let below = self.claim.load(Ordering::Acquire);
        if below > CANCELLED {
            self.set_claim(OPEN, stopping);
        }
        SavedClaim(below)
    }

    /// Restores the claim when the nested task has returned.
    pub fn end_nested(&self, SavedClaim(below): SavedClaim, stopping: impl Fn() -> bool) {
        if self.claim.load(Ordering::Acquire) != below {
            self.set_claim(below, stopping);
        }
    }

    fn set_claim(&self, claim: u64, stopping: impl Fn() -> bool) {
        self.claim.swap(claim, Ordering::SeqCst);
        // `stopping` is set before the signals are cancelled, so a cancel that the swap has
        // overwritten is seen here.
        if stopping() {
            self.cancel();
        }
    }

    /// Asks this attempt and all before it to stop.
    pub fn stop(&self, attempt: u32) {
        self.stop.fetch_max(attempt, Ordering::AcqRel);
    }

    /// Commits an attempt; again is no error. Returns [`Error::Cancelled`] if the task was
    /// cancelled or another attempt has committed.
    pub fn commit(&self, attempt: u32) -> Result<()> {
        let mine = COMMITTED + u64::from(attempt);
        match self.claim.compare_exchange(OPEN, mine, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(()),
            Err(claim) if claim == mine => Ok(()),
            Err(_) => Err(Error::Cancelled),
        }
    }

    /// Revokes the commit of an attempt that will be retried, and its progress. A cancel stays.
    pub fn reopen(&self, attempt: u32) {
        let mine = COMMITTED + u64::from(attempt);
        let _ = self.claim.compare_exchange(mine, OPEN, Ordering::AcqRel, Ordering::Acquire);
        self.report(0.0);
    }

    /// Sets the progress, clamped to 0 to 1. Ignores NaN.
    pub fn report(&self, done: f64) {
        if !done.is_nan() {
            self.progress.store(done.clamp(0.0, 1.0).to_bits(), Ordering::Relaxed);
        }
    }

    pub fn progress(&self) -> f64 {
        f64::from_bits(self.progress.load(Ordering::Relaxed))
    }
}
