//! The primary context of a card, and what belongs to it: modules, memory kept for reuse, what its queues share.
//!
//! A context ends in one of two ways. In peace, when the last queue and the last block of memory are gone. Or
//! poisoned: from the failure on nothing new is done in it, and nothing in it is given back
//! one by one; when the last task has left it, it is buried as a whole, and the next queue gets a new one.

use std::ffi::{c_int, c_uint};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::Instant;

use cudarc::driver::sys::{CUcontext, CUstream};

use super::card::Card;
use super::driver::{Answer, Driver, Failure};
use super::life::Life;
use super::module::Modules;
use super::pool::Pool;
use super::shared::Shared;
use super::status::{self, Class};
use crate::error::{DeviceFault, Error, Result};
use crate::fork::forks;

/// Threads that wait for the card sleep.
const BLOCKING_SYNC: c_uint = 4;

pub struct Context {
    card: Arc<Card>,
    handle: CUcontext,
    /// Handles are destroyed under the read lock, so never after its end.
    life: RwLock<Life>,
    /// No more queues are opened in it.
    stale: AtomicBool,
    /// The driver has said so itself.
    poisoned: AtomicBool,
    /// Tasks that are inside it; one on top of another counts, too.
    inside: Mutex<usize>,
    left: Condvar,
    /// Of the queues that are open.
    streams: Mutex<Vec<Handle>>,
    pub(super) numbers: AtomicU64,
    pub(super) modules: Modules,
    pub(super) shared: Shared,
    pool: Mutex<Pool>,
    /// How many forks the process had seen: a child has no context.
    forks: u64,
}

/// Of a stream.
struct Handle(CUstream);

// SAFETY: a handle is a number to the driver, which any thread may use.
unsafe impl Send for Handle {}

// SAFETY: a context's handle may be used by any thread; all that changes is behind locks.
unsafe impl Send for Context {}
// SAFETY: see above.
unsafe impl Sync for Context {}

impl Context {
    pub(super) fn retain(card: &Arc<Card>) -> Result<Arc<Context>> {
        let driver = card.driver;
        let (mut flags, mut active) = (0, 0);
        // SAFETY: numbers of ours. The flags are set only where no context is: another library's stays as it is.
        unsafe {
            if driver.state(card.device, &mut flags, &mut active).is_ok() && active == 0 {
                let _ = driver.set_flags(card.device, flags & !7 | BLOCKING_SYNC);
            }
        }
        let mut handle = null_mut();
        // SAFETY: the place is ours; released in `drop`, or when it is buried.
        unsafe { driver.retain(&mut handle, card.device) }
            .map_err(|failure| card.error_of_retain(failure))?;
        log::debug!("{}: a context is made", card.label());
        Ok(Arc::new(Context {
            card: card.clone(),
            handle,
            life: RwLock::new(Life::Alive),
            stale: AtomicBool::new(false),
            poisoned: AtomicBool::new(false),
            inside: Mutex::new(0),
            left: Condvar::new(),
            streams: Mutex::default(),
            numbers: AtomicU64::new(0),
            modules: Modules::default(),
            shared: Shared::default(),
            pool: Mutex::default(),
            forks: forks(),
        }))
    }

    pub fn card(&self) -> &Arc<Card> {
        &self.card
    }

    pub(super) fn driver(&self) -> &'static Driver {
        self.card.driver
    }

    pub(super) fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_stale(&self) -> bool {
        self.stale.load(Ordering::SeqCst)
    }

    pub(super) fn retire(&self) {
        self.stale.store(true, Ordering::SeqCst);
    }

    /// Makes it current on the calling thread, if it is still of use.
    pub(super) fn enter(&self) -> Result<()> {
        if self.forks != forks() {
            return Err(Error::Forked);
        }
        if self.is_poisoned() || *self.life() != Life::Alive {
            return Err(Error::Device {
                device: self.card.label(),
                what: "its context is of no use any more since a task failed in it".into(),
                fault: DeviceFault::Poisoned,
            });
        }
        // SAFETY: alive, as seen just now; it is buried only when all have left it.
        self.judge(unsafe { self.driver().set_current(self.handle) }, || "to make its context current".into())
    }

    /// Current again for a task that goes on. Also if it is of no use any more: what the task's code does then fails
    /// here, as it should, and not in whatever has become current.
    pub(super) fn resume(&self) {
        let life = self.life();
        if *life == Life::Alive && self.forks == forks() {
            // SAFETY: it is alive.
            let _ = unsafe { self.driver().set_current(self.handle) };
        }
    }

    /// The calling thread has no context any more.
    pub(super) fn leave(&self) {
        if self.forks == forks() {
            // SAFETY: no context is current then.
            let _ = unsafe { self.driver().set_current(null_mut()) };
        }
    }

    /// The end of every call: what failed, and whether that was the end of the context.
    pub(super) fn judge<T>(&self, answer: Answer<T>, what: impl FnOnce() -> String) -> Result<T> {
        answer.map_err(|failure| self.error(failure, &what()))
    }

    #[cold]
    pub(super) fn error(&self, failure: Failure, what: &str) -> Error {
        let poisons = status::class(failure.code) == Class::Poisoned;
        if poisons && !self.poisoned.swap(true, Ordering::SeqCst) {
            self.retire();
            log::warn!("{}: {}: its context is of no use any more", self.card.label(), failure.words());
        }
        self.card.error(failure, what, || self.free_bytes())
    }

    /// Destroys something of this context, unless that is gone, or as good as gone, already.
    pub(super) fn destroy(&self, free: impl FnOnce(&Driver) -> Answer) {
        let life = self.life();
        if *life != Life::Alive || self.is_poisoned() || self.forks != forks() {
            return;
        }
        if let Err(failure) = self.within(free) {
            log::debug!("{}: {}", self.card.label(), failure.words());
        }
    }

    /// Tells what has become of it, and that stays so meanwhile.
    pub(super) fn while_it_is(&self, work: impl FnOnce(Life)) {
        let life = self.life();
        work(*life);
    }

    fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::SeqCst)
    }

    /// With the context current, whatever is current on this thread before and after.
    fn within<T>(&self, work: impl FnOnce(&Driver) -> Answer<T>) -> Answer<T> {
        let driver = self.driver();
        // SAFETY: the context is alive, as the callers have seen.
        unsafe { driver.push(self.handle)? };
        let done = work(driver);
        let mut popped = null_mut();
        // SAFETY: the place is ours, and what is popped was pushed above.
        let _ = unsafe { driver.pop(&mut popped) };
        done
    }

    fn life(&self) -> RwLockReadGuard<'_, Life> {
        self.life.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// What `work` does in it: it is not buried meanwhile.
    pub(super) fn inside<T>(&self, work: impl FnOnce() -> T) -> T {
        self.come();
        let done = work();
        self.go();
        done
    }

    /// A queue begins a task in it, or ends one.
    pub(super) fn come(&self) {
        *self.count() += 1;
    }

    pub(super) fn go(&self) {
        let mut inside = self.count();
        *inside -= 1;
        if *inside == 0 {
            self.left.notify_all();
        }
    }

    fn count(&self) -> MutexGuard<'_, usize> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until all have left it.
    pub(super) fn wait_until_left(&self, until: Instant) -> Result<()> {
        let limit = until.saturating_duration_since(Instant::now());
        let waited = self.left.wait_timeout_while(self.count(), limit, |inside| *inside > 0);
        let (inside, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if *inside == 0 {
            return Ok(());
        }
        let what = format!(
            "{} tasks are still in a context that is of no use any more, and it is made anew when they have ended",
            *inside
        );
        Err(Error::Busy { device: self.card.label(), what })
    }

    /// Ends a stale context for good, if all have left it: false if not. Called under the lock of its card's `retained`.
    pub(super) fn bury(&self, retained: &mut bool) -> Result<bool> {
        let inside = self.count();
        if *inside > 0 {
            return Ok(false);
        }
        // What is shared goes to the pool, as long as it may.
        self.shared.clear();
        let mut life = self.life.write().unwrap_or_else(PoisonError::into_inner);
        if *life != Life::Alive || self.forks != forks() {
            return Ok(true);
        }
        *retained = false;
        *life = self.give_up(true);
        if *life == Life::GivenUp && self.is_poisoned() {
            let what = "a context of no use any more can't be ended, and without that there is no other; the process has to \
                        be started again";
            let (device, fault) = (self.card.label(), DeviceFault::Lost);
            return Err(Error::Device { device, what: what.into(), fault });
        }
        log::info!("{}: its context is made anew", self.card.label());
        Ok(true)
    }

    /// Gives it back to the driver. `anew`: because another is to take its place.
    fn give_up(&self, anew: bool) -> Life {
        let (driver, device) = (self.driver(), self.card.device);
        if !self.is_poisoned() {
            // It lives on if somebody else has it, too: nothing of ours may stay in it.
            let _ = self.within(|driver| {
                for stream in std::mem::take(&mut *self.streams()) {
                    // SAFETY: of this context, destroyed once; its work was waited for.
                    let _ = unsafe { driver.stream_destroy(stream.0) };
                }
                self.modules.unload(driver);
                self.pool().free_all(driver);
                Ok(())
            });
        }
        let told = |answer: Answer| {
            if let Err(failure) = answer {
                log::debug!("{}: {}", self.card.label(), failure.words());
            }
        };
        // SAFETY: what was retained once is released once.
        told(unsafe { driver.release(device) });
        let mut gone = self.is_gone();
        if anew && self.is_poisoned() && !gone {
            // SAFETY: nobody is inside, and it is of no use to anybody else in the process either.
            told(unsafe { driver.reset(device) });
            gone = self.is_gone();
        }
        let life = if gone { Life::Gone } else { Life::GivenUp };
        self.pool().end(life);
        life
    }

    /// Whether the driver has no primary context of the card any more.
    fn is_gone(&self) -> bool {
        let (mut flags, mut active): (c_uint, c_int) = (0, 0);
        // SAFETY: numbers of ours.
        unsafe { self.driver().state(self.card.device, &mut flags, &mut active) }.is_ok() && active == 0
    }

    /// A queue is there.
    pub(super) fn opened(&self, stream: CUstream) {
        self.streams().push(Handle(stream));
    }

    /// A queue is closed, whose work was waited for.
    pub(super) fn close(&self, stream: CUstream) {
        let forget = || {
            let mut streams = self.streams();
            streams.retain(|other| other.0 != stream);
            streams.is_empty()
        };
        self.destroy(|driver| {
            forget();
            // SAFETY: made once, and destroyed once: what the list has at the context's end is destroyed there.
            unsafe { driver.stream_destroy(stream) }
        });
        if forget() {
            self.shared.clear();
        }
    }

    fn streams(&self) -> MutexGuard<'_, Vec<Handle>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives back what is kept for reuse and not in use; the calling thread has the context current.
    pub(super) fn give_back(&self) {
        self.shared.sweep();
        self.pool().free_all(self.driver());
    }

    /// Returns the bytes of the card that could be allocated now, those kept for reuse included.
    pub(super) fn free_bytes(&self) -> u64 {
        let cached = self.pool().bytes();
        self.card.free_bytes(cached, || self.told_free_bytes())
    }

    /// Returns the free bytes that the driver tells; `None` if the context is stale.
    fn told_free_bytes(&self) -> Option<u64> {
        let life = self.life();
        if *life != Life::Alive || self.is_stale() || self.forks != forks() {
            return None;
        }
        let (mut free, mut total) = (0, 0);
        // SAFETY: the numbers are ours.
        self.within(|driver| unsafe { driver.memory_info(&mut free, &mut total) }).ok()?;
        Some(free as u64)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let life = self.life.get_mut().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(life, Life::GivenUp) != Life::Alive {
            return;
        }
        if self.forks != forks() {
            return self.pool().end(Life::GivenUp);
        }
        let card = self.card.clone();
        let mut retained = card.retained.lock().unwrap_or_else(PoisonError::into_inner);
        self.give_up(false);
        *retained = false;
        card.released.notify_all();
    }
}
