//! The primary context of a GPU in this process. The first queue retains it and the last one
//! releases it, whatever schedulers they belong to.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::context::Context;
use super::cuda_device::CudaDevice;
use super::driver::Driver;
use super::probe;
use crate::error::Result;

/// Maximum time for which a new queue waits for the tasks that still use a stale context.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// By ordinal: the process has one primary context for each.
static ALL: Mutex<BTreeMap<u32, Arc<PrimaryContext>>> = Mutex::new(BTreeMap::new());

pub(super) struct PrimaryContext {
    device: Arc<CudaDevice>,
    context: Mutex<Weak<Context>>,
}

impl PrimaryContext {
    /// Returns the primary context of a GPU that was found. Does not block.
    pub fn find(ordinal: u32) -> Option<Arc<PrimaryContext>> {
        ALL.lock().unwrap_or_else(PoisonError::into_inner).get(&ordinal).cloned()
    }

    /// Returns the primary context of a device.
    pub fn of(driver: &'static Driver, found: probe::ProbedDevice) -> Arc<PrimaryContext> {
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(found.info.ordinal)
            .or_insert_with(|| {
                let device = Arc::new(CudaDevice::new(driver, found));
                Arc::new(PrimaryContext { device, context: Mutex::default() })
            })
            .clone()
    }

    pub fn device(&self) -> &CudaDevice {
        &self.device
    }

    /// Returns the bytes that could be allocated now, those cached by the context included.
    pub fn free_bytes(&self) -> u64 {
        // The `Arc` is bound first, so that the lock is released before the context may be dropped.
        let context = self.lock().upgrade();
        context.map_or_else(|| self.device.free_bytes(0, || None), |context| context.free_bytes())
    }

    /// Returns the context, and retains one if there is none. A stale one is destroyed first, when
    /// all tasks have left it.
    pub fn context(&self) -> Result<Arc<Context>> {
        let until = Instant::now() + DRAIN_TIMEOUT;
        // Declared before the lock and so dropped after it: it may be the last reference to a
        // context.
        let mut existing: Option<Arc<Context>>;
        let mut retained = self.retained();
        loop {
            existing = self.lock().upgrade();
            match &existing {
                Some(context) if !context.is_stale() => return Ok(context.clone()),
                Some(context) if !context.destroy_if_idle(&mut retained)? => {
                    // Without the lock, because other threads may wait, too.
                    drop(retained);
                    context.wait_until_idle(until)?;
                    drop(existing.take());
                    retained = self.retained();
                    continue;
                }
                Some(_) => {}
                // The last reference is gone, and the context is about to be released.
                None if *retained => {
                    retained = self.device.released.wait(retained).unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
                None => {}
            }
            let context = Context::retain(&self.device)?;
            *retained = true;
            *self.lock() = Arc::downgrade(&context);
            return Ok(context);
        }
    }

    fn retained(&self) -> MutexGuard<'_, bool> {
        self.device.retained.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Retires the context: no more queues are opened in it.
    pub fn renew(&self) {
        let context = self.lock().upgrade();
        if let Some(context) = context {
            context.retire();
        }
    }

    /// Ends the context if no task uses it. A stale one is left to the next queue, which reports if
    /// it can't be destroyed.
    pub fn end_if_idle(&self) {
        // Declared before the lock and so dropped after it: it may be the last reference.
        let Some(context) = self.lock().upgrade() else { return };
        let mut retained = self.retained();
        if !context.is_stale() && context.destroy_if_idle(&mut retained).is_ok_and(|ended| ended) {
            context.retire();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Weak<Context>> {
        self.context.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
