//! The primary context of a GPU, with its modules, cached memory and shared objects.
//!
//! A context ends in one of two ways. It is released with its last queue and its last buffer. Or a
//! failure poisons it: from then on no call uses it and nothing in it is freed one by one. When the
//! last task has left it, it is destroyed as a whole, and the next queue gets a new one.

use std::ffi::{c_int, c_uint};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::Instant;

use cudarc::driver::sys::{CUcontext, CUstream};

use super::context_state::ContextState;
use super::cuda_device::CudaDevice;
use super::driver::{Driver, DriverFailure, DriverResult};
use super::module::ModuleCache;
use super::pool::MemoryPool;
use super::shared_objects::SharedObjects;
use super::status::{self, StatusClass};
use crate::descriptor::OccupiedStreams;
use crate::error::{DeviceFault, Error, RESTART, Result};
use crate::fork::ProcessMark;

/// Flag of contexts: threads that wait for the GPU sleep.
const BLOCKING_SYNC: c_uint = 4;
/// Status codes for memory and other objects that the driver does not know.
const UNKNOWN_OBJECT: [u32; 2] = [1, 400];

pub struct Context {
    device: Arc<CudaDevice>,
    handle: CUcontext,
    /// Flags of the device's primary context before this one set its own; `None` if other code had
    /// created the context.
    flags_before: Option<c_uint>,
    /// Handles are destroyed under the read lock, so never after the context's end.
    state: RwLock<ContextState>,
    /// No more queues are opened in it.
    stale: AtomicBool,
    /// The failure that has poisoned it, as the driver reported it.
    poisoned: OnceLock<String>,
    /// Other code of the process has reset it: the driver has a new context of the same handle.
    replaced: AtomicBool,
    /// Number of tasks that use it, nested ones included.
    running: Mutex<usize>,
    idle: Condvar,
    /// Streams of the open queues.
    streams: Mutex<Vec<StreamHandle>>,
    pub(super) next_stream: AtomicU64,
    pub(super) modules: ModuleCache,
    pub(super) shared: SharedObjects,
    pool: Mutex<MemoryPool>,
    /// Held while cached memory is freed.
    freeing: Mutex<()>,
    /// The process that retained it: a forked child has no context.
    process: ProcessMark,
}

/// Handle of a stream.
struct StreamHandle(CUstream);

// SAFETY: a handle is a number to the driver, which any thread may use.
unsafe impl Send for StreamHandle {}

// SAFETY: any thread may use a context's handle; all mutable state is behind locks.
unsafe impl Send for Context {}
// SAFETY: see above.
unsafe impl Sync for Context {}

impl Context {
    pub(super) fn retain(device: &Arc<CudaDevice>) -> Result<Arc<Context>> {
        let driver = device.driver;
        // The flags are set only if no context exists, so those of another library's context stay.
        let flags_before = inactive_flags(device);
        if let Some(flags) = flags_before {
            // SAFETY: the flags are valid.
            let _ = unsafe { driver.set_flags(device.device, sleeping(flags)) };
        }
        let mut handle = null_mut();
        let _occupied = OccupiedStreams::here();
        // SAFETY: a valid place; the context is released in `drop`, or when it is destroyed.
        let mut retain = || device.prepare(|| unsafe { driver.retain(&mut handle, device.device) });
        let retained = if flags_before.is_some() { device.measure_context(retain) } else { retain() };
        if let Err(failure) = retained {
            restore_flags(device, flags_before);
            return Err(device.retain_error(failure));
        }
        log::debug!("{}: created a context", device.label());
        Ok(Arc::new(Context {
            device: device.clone(),
            handle,
            flags_before,
            state: RwLock::new(ContextState::Alive),
            stale: AtomicBool::new(false),
            poisoned: OnceLock::new(),
            replaced: AtomicBool::new(false),
            running: Mutex::new(0),
            idle: Condvar::new(),
            streams: Mutex::default(),
            next_stream: AtomicU64::new(0),
            modules: ModuleCache::default(),
            shared: SharedObjects::default(),
            pool: Mutex::default(),
            freeing: Mutex::default(),
            process: ProcessMark::here(),
        }))
    }

    pub fn device(&self) -> &Arc<CudaDevice> {
        &self.device
    }

    pub(super) fn driver(&self) -> &'static Driver {
        self.device.driver
    }

    pub(super) fn pool(&self) -> MutexGuard<'_, MemoryPool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_stale(&self) -> bool {
        self.stale.load(Ordering::SeqCst)
    }

    pub(super) fn retire(&self) {
        self.stale.store(true, Ordering::SeqCst);
    }

    /// Makes the context current on the calling thread. Fails if it is poisoned.
    pub(super) fn enter(&self) -> Result<()> {
        if !self.process.is_here() {
            return Err(Error::Forked);
        }
        if self.is_poisoned() || *self.state() != ContextState::Alive {
            let why = self.poisoned.get().map_or("a task failed in it", String::as_str);
            return Err(Error::Device {
                device: self.device.label(),
                what: format!("its context is unusable: {why}"),
                fault: if self.device.is_lost(false) { DeviceFault::Lost } else { DeviceFault::Poisoned },
            });
        }
        // SAFETY: the context is alive, as checked above, and is destroyed only after all tasks
        // have left it.
        self.check(unsafe { self.driver().set_current(self.handle) }, || "making its context current".into())
    }

    /// Makes the context current again for a task that continues, also if it is poisoned: calls of
    /// the task's code then fail here, and not in another context that has become current.
    pub(super) fn resume(&self) {
        let state = self.state();
        if *state == ContextState::Alive && self.process.is_here() {
            // SAFETY: the context is alive.
            let _ = unsafe { self.driver().set_current(self.handle) };
        }
    }

    /// Makes no context current on the calling thread.
    pub(super) fn clear_current(&self) {
        if self.process.is_here() {
            // SAFETY: a null context is valid.
            let _ = unsafe { self.driver().set_current(null_mut()) };
        }
    }

    /// Converts the result of a driver call to a result of the library. If the call has poisoned
    /// the context, marks it. `what` returns the purpose of the call.
    pub(super) fn check<T>(&self, answer: DriverResult<T>, what: impl FnOnce() -> String) -> Result<T> {
        answer.map_err(|failure| self.error(failure, &what()))
    }

    #[cold]
    pub(super) fn error(&self, failure: DriverFailure, what: &str) -> Error {
        let replaced = UNKNOWN_OBJECT.contains(&failure.code) && self.has_unknown_stream();
        let class = match status::is_known(failure.code) {
            true if replaced => StatusClass::Poisoned,
            true => status::class_in_context(failure.code),
            false if self.repeats(failure.code) => StatusClass::Poisoned,
            false => StatusClass::Plain,
        };
        if class == StatusClass::Poisoned && self.poisoned.set(failure.message()).is_ok() {
            self.retire();
            if replaced {
                self.replaced.store(true, Ordering::SeqCst);
            } else {
                self.device.note_poison(failure.code);
            }
            log::warn!("{}: its context is unusable: {}", self.device.label(), failure.message());
        }
        self.device.error(failure, class, what, || self.free_bytes())
    }

    /// Returns true if the driver does not know the oldest stream of the context: other code of the
    /// process has reset the primary context, and has used it again since.
    fn has_unknown_stream(&self) -> bool {
        // Locked until the answer, so that the stream is not destroyed meanwhile.
        let streams = self.streams();
        let Some(oldest) = streams.first() else { return false };
        let mut event = null_mut();
        // SAFETY: a valid place for the event, which is destroyed once. The stream exists, or the
        // driver refuses it.
        let known = self.with_current(|driver| unsafe {
            driver.event_create(&mut event, 0)?;
            let known = driver.event_record(event, oldest.0);
            let _ = driver.event_destroy(event);
            known
        });
        known.is_err_and(|failure| UNKNOWN_OBJECT.contains(&failure.code))
    }

    /// Returns true if a call that can't fail in a sound context fails with this code, too. Newer
    /// drivers have codes for poisoned contexts that the table lacks.
    fn repeats(&self, code: u32) -> bool {
        let (mut free, mut total) = (0, 0);
        // SAFETY: valid places for two numbers.
        let again = self.with_current(|driver| unsafe { driver.memory_info(&mut free, &mut total) });
        again.is_err_and(|failure| failure.code == code)
    }

    /// Destroys an object of this context. Does nothing if the context is destroyed or poisoned.
    pub(super) fn destroy(&self, free: impl FnOnce(&Driver) -> DriverResult) {
        let state = self.state();
        if *state != ContextState::Alive || self.is_poisoned() || !self.process.is_here() {
            return;
        }
        if let Err(failure) = self.with_current(free) {
            log::debug!("{}: {}", self.device.label(), failure.message());
        }
    }

    /// Calls `work` with the state of the context, which does not change meanwhile.
    pub(super) fn with_state(&self, work: impl FnOnce(ContextState)) {
        let state = self.state();
        work(*state);
    }

    fn is_poisoned(&self) -> bool {
        self.poisoned.get().is_some()
    }

    /// Calls `work` with the context current and in the relaxed capture mode, and restores the
    /// previous ones.
    fn with_current<T>(&self, work: impl FnOnce(&Driver) -> DriverResult<T>) -> DriverResult<T> {
        let driver = self.driver();
        let _relaxed = driver.relaxed();
        // SAFETY: the context is alive, as the callers have checked.
        unsafe { driver.push(self.handle)? };
        let done = work(driver);
        let mut popped = null_mut();
        // SAFETY: a valid place; the popped context was pushed above.
        let _ = unsafe { driver.pop(&mut popped) };
        done
    }

    fn state(&self) -> RwLockReadGuard<'_, ContextState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `work`; the context is not destroyed meanwhile.
    pub(super) fn in_use_while<T>(&self, work: impl FnOnce() -> T) -> T {
        self.begin_task();
        let done = work();
        self.end_task();
        done
    }

    /// Counts a task that begins in the context.
    pub(super) fn begin_task(&self) {
        *self.running_tasks() += 1;
    }

    pub(super) fn end_task(&self) {
        let mut running = self.running_tasks();
        *running -= 1;
        if *running == 0 {
            self.idle.notify_all();
        }
    }

    fn running_tasks(&self) -> MutexGuard<'_, usize> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all tasks have left the context.
    pub(super) fn wait_until_idle(&self, until: Instant) -> Result<()> {
        let limit = until.saturating_duration_since(Instant::now());
        let waited = self.idle.wait_timeout_while(self.running_tasks(), limit, |running| *running > 0);
        let (running, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if *running == 0 {
            return Ok(());
        }
        let what = format!(
            "{} tasks are still in its unusable context, which is renewed when they have ended",
            *running
        );
        Err(Error::Busy { device: self.device.label(), what })
    }

    /// Destroys the context if all tasks have left it; returns false if not. The caller holds the
    /// lock of the device's `retained`, and retires the context.
    pub(super) fn destroy_if_idle(&self, retained: &mut bool) -> Result<bool> {
        let running = self.running_tasks();
        if *running > 0 {
            return Ok(false);
        }
        // Shared objects free their memory into the pool if the context is alive.
        self.shared.clear();
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if *state != ContextState::Alive || !self.process.is_here() {
            return Ok(true);
        }
        *retained = false;
        *state = self.release(true);
        if *state == ContextState::Released && self.is_poisoned() {
            let what = format!("its unusable context can't be destroyed, so there is no new one; {RESTART}");
            let (device, fault) = (self.device.label(), DeviceFault::Lost);
            return Err(Error::Device { device, what, fault });
        }
        log::info!("{}: its context has ended", self.device.label());
        Ok(true)
    }

    /// Releases the context to the driver. `replace`: a new context will take its place.
    fn release(&self, replace: bool) -> ContextState {
        let (driver, device) = (self.driver(), self.device.device);
        let _relaxed = driver.relaxed();
        if !self.is_poisoned() {
            // The context lives on if another library has retained it, so no object of this one may
            // stay in it.
            let _ = self.with_current(|driver| {
                for stream in std::mem::take(&mut *self.streams()) {
                    // SAFETY: a stream of this context, destroyed once; its work is done.
                    let _ = unsafe { driver.stream_destroy(stream.0) };
                }
                self.modules.unload(driver);
                let blocks = self.pool().take_all();
                blocks.free(driver);
                Ok(())
            });
        }
        let log_failure = |answer: DriverResult| {
            if let Err(failure) = answer {
                log::debug!("{}: {}", self.device.label(), failure.message());
            }
        };
        // SAFETY: retained once and released once.
        log_failure(unsafe { driver.release(device) });
        let mut destroyed = self.is_destroyed() || self.replaced.load(Ordering::SeqCst);
        if replace && self.is_poisoned() && !destroyed {
            // SAFETY: no task uses the context, and a poisoned one is of no use to other code of
            // the process.
            log_failure(unsafe { driver.reset(device) });
            destroyed = self.is_destroyed();
        }
        restore_flags(&self.device, self.flags_before);
        let state = if destroyed { ContextState::Destroyed } else { ContextState::Released };
        self.pool().end(state);
        state
    }

    /// Returns true if the driver has no primary context of the device.
    fn is_destroyed(&self) -> bool {
        inactive_flags(&self.device).is_some()
    }

    /// Registers the stream of a new queue.
    pub(super) fn add_stream(&self, stream: CUstream) {
        self.streams().push(StreamHandle(stream));
    }

    /// Destroys the stream of a queue whose work is done.
    pub(super) fn close_stream(&self, stream: CUstream) {
        let forget = || {
            let mut streams = self.streams();
            streams.retain(|other| other.0 != stream);
            streams.is_empty()
        };
        self.destroy(|driver| {
            forget();
            // SAFETY: created once and destroyed once: streams still in the list are destroyed with
            // the context.
            unsafe { driver.stream_destroy(stream) }
        });
        if forget() {
            self.shared.clear();
        }
    }

    fn streams(&self) -> MutexGuard<'_, Vec<StreamHandle>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees the cached memory that is not in use. The context is current on the calling thread.
    pub(super) fn free_cached(&self) {
        // Threads that need memory wait here for what another one frees.
        let _freeing = self.freeing.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.drop_unused();
        let blocks = self.pool().take_all();
        blocks.free(self.driver());
    }

    /// Frees the cached memory if no task uses the context. Never waits for work on the GPU, which
    /// may hang. If a task uses the context, its worker frees the memory later.
    pub(super) fn free_cached_if_idle(&self) {
        // Locked until the memory is free, so that no task begins meanwhile.
        let running = self.running_tasks();
        if *running == 0 && self.enter().is_ok() {
            self.free_cached();
        }
    }

    /// Returns the bytes of the GPU that could be allocated now, cached ones included.
    pub(super) fn free_bytes(&self) -> u64 {
        let cached = self.pool().bytes() + self.shared.unused_bytes();
        self.device.free_bytes(cached, || self.driver_free_bytes())
    }

    /// Returns the free bytes that the driver reports; `None` if the context is stale.
    fn driver_free_bytes(&self) -> Option<u64> {
        let state = self.state();
        if *state != ContextState::Alive || self.is_stale() || !self.process.is_here() {
            return None;
        }
        let (mut free, mut total) = (0, 0);
        // SAFETY: valid places for two numbers.
        self.with_current(|driver| unsafe { driver.memory_info(&mut free, &mut total) }).ok()?;
        Some(free as u64)
    }
}

/// Returns the flags of the next primary context; `None` if there is one.
fn inactive_flags(device: &CudaDevice) -> Option<c_uint> {
    let (mut flags, mut active): (c_uint, c_int) = (0, 0);
    // SAFETY: valid places for two numbers.
    unsafe { device.driver.state(device.device, &mut flags, &mut active) }.ok()?;
    (active == 0).then_some(flags)
}

/// Sets the flags that the next primary context had before the library set its own: other code may
/// create it. Flags that other code has set meanwhile stay.
fn restore_flags(device: &CudaDevice, before: Option<c_uint>) {
    if let Some(before) = before
        && inactive_flags(device) == Some(sleeping(before))
    {
        // SAFETY: the flags are those that the driver reported.
        let _ = unsafe { device.driver.set_flags(device.device, before) };
    }
}

/// Returns the flags for threads that sleep while they wait for the GPU.
fn sleeping(flags: c_uint) -> c_uint {
    flags & !7 | BLOCKING_SYNC
}

impl Drop for Context {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(state, ContextState::Released) != ContextState::Alive {
            return;
        }
        if !self.process.is_here() {
            return self.pool().end(ContextState::Released);
        }
        let device = self.device.clone();
        let mut retained = device.retained.lock().unwrap_or_else(PoisonError::into_inner);
        self.release(false);
        *retained = false;
        device.released.notify_all();
    }
}
