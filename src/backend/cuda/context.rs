//! The primary context of a card, and what belongs to it: modules, memory kept for reuse, what its queues share.
//!
//! A context ends in one of two ways. In peace, when the last queue and the last block of memory are gone. Or
//! poisoned: from the failure on nothing new is done in it, and nothing in it is given back
//! one by one; when the last task has left it, it is buried as a whole, and the next queue gets a new one.

use std::ffi::{c_int, c_uint};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use cudarc::driver::sys::CUcontext;

use super::card::Card;
use super::driver::{Answer, Driver, Failure};
use super::memory::Pool;
use super::module::Modules;
use super::shared::Shared;
use super::status::{self, Class};
use crate::backend::cpu::forks;
use crate::error::{DeviceFault, Error, Result};

/// Threads that wait for the card sleep.
const BLOCKING_SYNC: c_uint = 4;
/// How long a new queue waits for those to go that still work in a context of no use.
const LEAVING: Duration = Duration::from_secs(10);

pub struct Context {
    card: Arc<Card>,
    handle: CUcontext,
    /// False once it is buried. Handles are destroyed under the read lock, so never after that.
    alive: RwLock<bool>,
    /// No more queues are opened in it.
    stale: AtomicBool,
    /// The driver has said so itself.
    poisoned: AtomicBool,
    /// Queues that are inside a task.
    inside: Mutex<usize>,
    left: Condvar,
    /// Queues that are open.
    pub(super) queues: AtomicUsize,
    pub(super) numbers: AtomicU64,
    pub(super) modules: Modules,
    pub(super) shared: Shared,
    pool: Mutex<Pool>,
    /// How many forks the process had seen: a child has no context.
    forks: u64,
}

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
            alive: RwLock::new(true),
            stale: AtomicBool::new(false),
            poisoned: AtomicBool::new(false),
            inside: Mutex::new(0),
            left: Condvar::new(),
            queues: AtomicUsize::new(0),
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
        if self.poisoned.load(Ordering::SeqCst) || !*self.alive() {
            return Err(Error::Device {
                device: self.card.label(),
                what: "its context is of no use any more since a task failed in it".into(),
                fault: DeviceFault::Poisoned,
            });
        }
        // SAFETY: alive, as seen just now; it is buried only when all have left it.
        self.judge(unsafe { self.driver().set_current(self.handle) }, || "to make its context current".into())
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
    fn error(&self, failure: Failure, what: &str) -> Error {
        let poisons = status::class(failure.code) == Class::Poisoned;
        if poisons && !self.poisoned.swap(true, Ordering::SeqCst) {
            self.retire();
            log::warn!("{}: {}: its context is of no use any more", self.card.label(), failure.words());
        }
        self.card.error(failure, what)
    }

    /// Destroys something of this context, unless that is gone, or as good as gone, already.
    pub(super) fn destroy(&self, free: impl FnOnce(&Driver) -> Answer) {
        let alive = self.alive();
        if !*alive || self.poisoned.load(Ordering::SeqCst) || self.forks != forks() {
            return;
        }
        if let Err(failure) = self.within(free) {
            log::debug!("{}: {}", self.card.label(), failure.words());
        }
    }

    /// Tells whether it is there, and that stays so meanwhile.
    pub(super) fn while_alive(&self, work: impl FnOnce(bool)) {
        let alive = self.alive();
        work(*alive);
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

    fn alive(&self) -> std::sync::RwLockReadGuard<'_, bool> {
        self.alive.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// A queue begins a task in it, or ends one.
    pub(super) fn come(&self) {
        *self.inside() += 1;
    }

    pub(super) fn go(&self) {
        let mut inside = self.inside();
        *inside -= 1;
        if *inside == 0 {
            self.left.notify_all();
        }
    }

    fn inside(&self) -> MutexGuard<'_, usize> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a stale context for good, once all have left it. Called under the lock of its card's `retained`.
    pub(super) fn bury(&self) -> Result<()> {
        let inside = self.inside();
        let waited = self.left.wait_timeout_while(inside, LEAVING, |inside| *inside > 0);
        let (inside, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if *inside > 0 {
            let what = format!("{} tasks are still in a context that is of no use any more", *inside);
            return Err(Error::Busy { device: self.card.label(), what });
        }
        let mut alive = self.alive.write().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut *alive, false) || self.forks != forks() {
            return Ok(());
        }
        if !self.poisoned.load(Ordering::SeqCst) {
            // It lives on if somebody else has it, too: nothing of ours may stay in it.
            let _ = self.within(|driver| {
                self.empty(driver);
                Ok(())
            });
        }
        let (driver, device) = (self.driver(), self.card.device);
        let (mut flags, mut active): (c_uint, c_int) = (0, 0);
        // SAFETY: what was retained once is released once. A poisoned one that lives on is of no use to anybody else
        // in the process either.
        unsafe {
            let released = driver.release(device);
            let there = driver.state(device, &mut flags, &mut active).is_ok() && active != 0;
            if there && self.poisoned.load(Ordering::SeqCst) {
                let _ = driver.reset(device);
            }
            self.pool().forget();
            log::info!("{}: its context is made anew", self.card.label());
            if let Err(failure) = released {
                log::debug!("{}: {}", self.card.label(), failure.words());
            }
        }
        Ok(())
    }

    /// Gives back all that is kept for reuse.
    fn empty(&self, driver: &Driver) {
        self.modules.unload(driver);
        self.pool().free_all(driver);
    }

    /// Memory that is kept for reuse.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.pool().bytes()
    }

    /// Gives back what is kept for reuse and not in use; the calling thread has the context current.
    pub(super) fn give_back(&self) {
        self.shared.sweep();
        self.pool().free_all(self.driver());
    }

    /// As the driver tells it.
    pub(super) fn free_bytes(&self) -> Option<u64> {
        let alive = self.alive();
        if !*alive || self.is_stale() || self.forks != forks() {
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
        let alive = self.alive.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(alive, false) {
            return;
        }
        if self.forks != forks() {
            return self.pool().leak();
        }
        let card = self.card.clone();
        let mut retained = card.retained.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.poisoned.load(Ordering::SeqCst) {
            let _ = self.within(|driver| {
                self.empty(driver);
                Ok(())
            });
        }
        let (driver, device) = (self.driver(), self.card.device);
        let (mut flags, mut active): (c_uint, c_int) = (0, 0);
        // SAFETY: what was retained once is released once; numbers of ours.
        unsafe {
            if let Err(failure) = driver.release(device) {
                log::debug!("{}: {}", self.card.label(), failure.words());
            }
            match driver.state(device, &mut flags, &mut active).is_ok() && active == 0 {
                true => self.pool().forget(),
                false => self.pool().leak(),
            }
        }
        *retained = false;
        card.released.notify_all();
    }
}
