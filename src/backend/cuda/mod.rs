//! NVIDIA GPUs, through their driver, which is loaded at run time.
//!
//! | file | contents |
//! |---|---|
//! | `driver` | the driver's library and its functions |
//! | `status` | meaning of each status code for the scheduler |
//! | `nvml`, `probe` | lists the GPUs without creating a context |
//! | `cuda_device` | a GPU: its properties, and what failures mean on it |
//! | `context_state`, `host_pool`, `pool`, `module`, `shared_objects` | parts of a context |
//! | `context`, `primary` | a context, and the one that the process has on a GPU |
//! | `kernel`, `device_buffer`, `pinned`, `event` | objects of a context |
//! | `stream` | the queue of a slot, with the operations that a propagator needs |
//! | `graph` | repeated launches, combined into one |

mod context;
mod context_state;
mod cuda_device;
mod device_buffer;
mod driver;
mod event;
mod graph;
mod host_pool;
mod kernel;
mod module;
mod nvml;
mod pinned;
mod pool;
mod primary;
mod probe;
mod shared_objects;
mod status;
mod stream;

use std::sync::Arc;
use std::time::Duration;

pub use cuda_device::CudaDevice;
pub use device_buffer::{DeviceBuffer, allocation_bytes};
pub use driver::parent_uses_gpus;
pub use event::{Download, Event};
pub use graph::{Graphs, Launches};
pub use kernel::{Kernel, Params};
pub use module::Ptx;
pub use pinned::Pinned;
pub use shared_objects::SharedObject;
pub use stream::Stream;

use self::primary::PrimaryContext;
use self::probe::ProbeResult;
use super::{Backend, CpuFallback, DeviceSearch, Lane, Queue};
use crate::device::{BackendKind, DeviceInfo};
use crate::error::{Error, Result};

/// The GPUs that this process may use. Without a driver the list is empty.
pub struct CudaBackend {
    /// Times after which a driver that is not ready is initialised again.
    backoff: [Duration; 3],
}

impl CudaBackend {
    pub fn new(backoff: [Duration; 3]) -> Self {
        CudaBackend { backoff }
    }

    fn primary(&self, ordinal: u32) -> Result<Arc<PrimaryContext>> {
        let unknown = || Error::argument("the GPU's ordinal", ordinal, "that of a GPU that was found");
        PrimaryContext::find(ordinal).ok_or_else(unknown)
    }
}

impl Backend for CudaBackend {
    fn kind(&self) -> BackendKind {
        BackendKind::Cuda
    }

    fn search(&self) -> Result<DeviceSearch> {
        let ProbeResult { devices: probed, notes, cpu_fallback } = probe::probe(&self.backoff)?;
        let mut devices = Vec::new();
        if let Ok(driver) = driver::Driver::get() {
            for device in probed {
                let info = device.info.clone();
                let context_bytes = PrimaryContext::of(driver, device).device().context_bytes();
                devices.push(DeviceInfo { context_bytes, ..info });
            }
        }
        let cpu_fallback = if parent_uses_gpus() { CpuFallback::Refused } else { cpu_fallback };
        Ok(DeviceSearch { devices, notes, cpu_fallback })
    }

    fn free_bytes(&self, ordinal: u32) -> Result<u64> {
        Ok(self.primary(ordinal)?.free_bytes())
    }

    fn context_bytes(&self, ordinal: u32) -> u64 {
        self.primary(ordinal).map_or(0, |primary| primary.device().context_bytes())
    }

    fn since_preparation(&self, ordinal: u32) -> Option<Duration> {
        self.primary(ordinal).ok()?.device().since_preparation()
    }

    fn open(&self, ordinal: u32, _slot: u32, _slots: u32) -> Result<Box<dyn Queue>> {
        Ok(Box::new(Stream::open(&*self.primary(ordinal)?)?))
    }

    fn renew(&self, ordinal: u32) {
        if let Ok(primary) = self.primary(ordinal) {
            primary.renew();
        }
    }

    fn end_context_if_idle(&self, ordinal: u32) {
        if let Ok(primary) = self.primary(ordinal) {
            primary.end_if_idle();
        }
    }
}

impl Queue for Stream {
    /// Counts the task and makes the context current. A nested task is counted separately, because
    /// the outer task still uses the context after it.
    fn enter(&self) -> Result<()> {
        self.context.begin_task();
        self.context.enter().inspect_err(|_| self.context.end_task())
    }

    fn finish(&self) -> Result<()> {
        let done = Stream::finish(self);
        self.context.end_task();
        done
    }

    fn is_stale(&self) -> bool {
        self.context.is_stale()
    }

    fn resume(&self) {
        self.context.resume();
    }

    fn lane(&self) -> Lane<'_> {
        Lane::Cuda(self)
    }

    fn relieve(&self) {
        Stream::relieve(self);
    }

    fn relieve_if_idle(&self) {
        self.context.free_cached_if_idle();
    }
}
