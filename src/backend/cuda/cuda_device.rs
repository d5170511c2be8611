//! A GPU as this process sees it: its properties, and the meaning of its failures.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cudarc::driver::sys::CUdevice;

use super::driver::{Driver, DriverFailure, DriverResult};
use super::status::{self, StatusClass};
use super::{nvml, probe};
use crate::device::DeviceInfo;
use crate::error::{DeviceFault, Error, RESTART, human};

/// Status codes that a lost GPU causes, too.
const SUSPICIOUS: [u32; 5] = [4, 46, 100, 101, status::UNKNOWN];
const INVALID_DEVICE: u32 = 101;
/// First CUDA version with a separate status code for a GPU that another process uses exclusively.
const UNAVAILABLE_SINCE: i32 = 11070;
/// Free bytes that suffice for any context, which takes 60 to 700 MB.
const ROOM_FOR_A_CONTEXT: u64 = 1 << 30;

/// A context of this process was poisoned, on any GPU.
static FAILED: AtomicBool = AtomicBool::new(false);

pub struct CudaDevice {
    pub(super) driver: &'static Driver,
    pub(super) device: CUdevice,
    info: DeviceInfo,
    multiprocessors: u32,
    listed: bool,
    integrated: bool,
    /// A context is retained. The mutex is held while a context is created or released, which may
    /// take long.
    pub(super) retained: Mutex<bool>,
    pub(super) released: Condvar,
    /// Bytes that the process's context took when it was created last; 0: not known.
    context_bytes: AtomicU64,
    /// Status code that poisoned a context of this process last; 0 if none did.
    poisoned_by: AtomicU32,
    /// Number of threads in [`prepare`](CudaDevice::prepare), and when one last returned from it.
    preparation: Mutex<(u32, Option<Instant>)>,
}

impl CudaDevice {
    pub(super) fn new(driver: &'static Driver, found: probe::ProbedDevice) -> CudaDevice {
        let probe::ProbedDevice { info, device, multiprocessors, listed, integrated } = found;
        CudaDevice {
            driver,
            device,
            info,
            multiprocessors,
            listed,
            integrated,
            retained: Mutex::new(false),
            released: Condvar::new(),
            context_bytes: AtomicU64::new(0),
            poisoned_by: AtomicU32::new(0),
            preparation: Mutex::default(),
        }
    }

    /// Calls `work`, which creates a context or loads kernels. A driver may take a minute to
    /// compile them.
    pub(super) fn prepare<T>(&self, work: impl FnOnce() -> T) -> T {
        self.preparation().0 += 1;
        let result = work();
        let mut preparation = self.preparation();
        *preparation = (preparation.0 - 1, Some(Instant::now()));
        result
    }

    /// Calls `create`, which creates the process's context, and measures the memory that it takes.
    /// Uses the bytes that NVML reports for this process, because other processes change the free
    /// memory meanwhile.
    pub(super) fn measure_context(&self, create: impl FnOnce() -> DriverResult) -> DriverResult {
        let listed = self.listed && !self.integrated;
        let own = || listed.then(|| nvml::own_bytes(self.info.id.as_str(), self.pci())).flatten();
        let before = own().unwrap_or(0);
        create()?;
        if let Some(now) = own() {
            self.context_bytes.store(now.saturating_sub(before), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Returns the bytes that the process's context took when it was created last; 0: not known.
    pub fn context_bytes(&self) -> u64 {
        self.context_bytes.load(Ordering::Relaxed)
    }

    /// Returns how long ago a thread last was in [`prepare`](CudaDevice::prepare).
    pub(super) fn since_preparation(&self) -> Option<Duration> {
        match *self.preparation() {
            (0, last) => last.map(|last| last.elapsed()),
            _ => Some(Duration::ZERO),
        }
    }

    fn preparation(&self) -> MutexGuard<'_, (u32, Option<Instant>)> {
        self.preparation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the properties that the first probe found.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    pub fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    /// Returns a label such as `cuda:0`.
    pub fn label(&self) -> String {
        self.info.label()
    }

    /// Returns the bytes that could be allocated now: those that NVML reports as free, and those
    /// `cached` by this process. Without NVML the context reports the free bytes. Without a context
    /// the library uses nothing of the GPU, and all bytes count as free.
    pub(super) fn free_bytes(&self, cached: u64, context_reports: impl FnOnce() -> Option<u64>) -> u64 {
        let free = self.reported_bytes().or_else(context_reports).unwrap_or(self.info.total_bytes);
        probe::usable_free_bytes(free, self.integrated).saturating_add(cached).min(self.info.total_bytes)
    }

    /// Returns the bytes that NVML reports as free.
    fn reported_bytes(&self) -> Option<u64> {
        let memory = self.listed.then(|| nvml::memory(self.info.id.as_str(), self.pci())).flatten();
        memory.map(|memory| memory.free)
    }

    /// Returns the error of a driver failure: the GPU may be lost, or belong to another process.
    /// `free` returns the [`free_bytes`](CudaDevice::free_bytes).
    pub(super) fn error(
        &self,
        failure: DriverFailure,
        class: StatusClass,
        what: &str,
        free: impl FnOnce() -> u64,
    ) -> Error {
        let error = failure.error(class, &self.label(), what);
        let of_device = matches!(error, Error::Device { .. });
        let suspected = SUSPICIOUS.contains(&failure.code);
        if (of_device || suspected) && self.is_lost(suspected) {
            let what = format!("{what} failed: {}; NVML reports that the GPU is lost", failure.message());
            return Error::Device { device: self.label(), what, fault: DeviceFault::Lost };
        }
        match error {
            Error::NoMemory { what, needed, place, .. } => {
                Error::NoMemory { what, needed, place, there: free() }
            }
            error => error,
        }
    }

    /// Records that a context is poisoned.
    pub(super) fn note_poison(&self, code: u32) {
        self.poisoned_by.store(code, Ordering::SeqCst);
        FAILED.store(true, Ordering::SeqCst);
    }

    /// Returns true if a context of this process was poisoned.
    pub(super) fn has_failed_context(&self) -> bool {
        self.poisoned_by.load(Ordering::SeqCst) != 0
    }

    /// [`error`](CudaDevice::error) for a context that could not be retained.
    ///
    /// Once a kernel has failed, a driver may give the process no context of the GPU again, and
    /// return the kernel's status code instead: the GPU is lost to this process, and a new process
    /// may use it. If no context has failed before, a new process would fare no better. An MPS server
    /// that has seen a failure on any GPU serves nobody until all its processes have exited, so this
    /// one must not wait for it.
    ///
    /// Drivers before CUDA 11.7 have no status code for a GPU whose compute mode excludes this
    /// process.
    pub(super) fn retain_error(&self, failure: DriverFailure) -> Error {
        let what = "creating a context";
        let poisoned_by = self.poisoned_by.load(Ordering::SeqCst);
        let by_mps = FAILED.load(Ordering::SeqCst) && status::is_refused_by_mps(failure.code);
        let barred = by_mps || poisoned_by == failure.code;
        let class = if barred { StatusClass::Poisoned } else { status::class_of(failure.code) };
        match self.error(failure, class, what, || self.free_bytes(0, || None)) {
            Error::Device { device, what, fault: DeviceFault::Poisoned }
                if failure.code == status::UNKNOWN && poisoned_by == 0 && self.is_prohibited() =>
            {
                Error::Busy { device, what: format!("{what}; its compute mode is prohibited") }
            }
            Error::Device { device, mut what, fault: DeviceFault::Poisoned } => {
                if by_mps || poisoned_by != 0 {
                    what += "; after a kernel's failure the driver gives this process no context of the GPU again: ";
                    what += RESTART;
                }
                Error::Device { device, what, fault: DeviceFault::Lost }
            }
            Error::Driver { device, what }
                if failure.code == INVALID_DEVICE && self.driver.is_older_than(UNAVAILABLE_SINCE) =>
            {
                Error::Busy { device, what }
            }
            Error::NoMemory { what, place: device, there, .. }
                if self.reported_bytes().is_some_and(|free| free >= ROOM_FOR_A_CONTEXT) =>
            {
                let free = human(there);
                let what = format!(
                    "{what}; {free} are free, so the host lacks memory, or this process address space (ulimit -v)"
                );
                Error::NoContext { device, what }
            }
            // Other processes have the memory, if this one has no context.
            Error::NoMemory { what, place: device, there, .. } => {
                Error::Busy { device, what: format!("{what}; {} are free", human(there)) }
            }
            error => error,
        }
    }

    /// Returns true if NVML reports that the GPU is lost. `suspected`: also if it can't query it.
    pub(super) fn is_lost(&self, suspected: bool) -> bool {
        self.listed && nvml::is_lost(self.info.id.as_str(), self.pci(), suspected)
    }

    /// Returns true if NVML reports that the compute mode excludes all programs.
    fn is_prohibited(&self) -> bool {
        self.listed && nvml::is_prohibited(self.info.id.as_str(), self.pci())
    }

    fn pci(&self) -> Option<&str> {
        self.info.pci_bus_id.as_deref()
    }
}
