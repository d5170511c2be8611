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

use std::sync::{Arc, Mutex, PoisonError};
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
use self::probe::DriverState;
use super::{Backend, CpuFallback, Lane, Queue};
use crate::device::{BackendKind, DeviceInfo};
use crate::error::{Error, Result};

/// The GPUs that this process may use. Without a driver the list is empty.
pub struct CudaBackend {
    /// Times after which a driver that is not ready is initialised again.
    backoff: [Duration; 3],
    last_probe: Mutex<LastProbe>,
}

#[derive(Default)]
struct LastProbe {
    primaries: Vec<Arc<PrimaryContext>>,
    notes: Vec<String>,
    driver: DriverState,
}

impl CudaBackend {
    pub fn new(backoff: [Duration; 3]) -> Self {
        CudaBackend { backoff, last_probe: Mutex::default() }
    }

    fn primary(&self, ordinal: u32) -> Result<Arc<PrimaryContext>> {
        let last_probe = self.last_probe();
        let primary = last_probe.primaries.iter().find(|primary| primary.device().info().ordinal == ordinal);
        primary.cloned().ok_or_else(|| {
            let accepted = format!("one of the {} that were found", last_probe.primaries.len());
            Error::argument("the GPU's ordinal", ordinal, accepted)
        })
    }

    fn last_probe(&self) -> std::sync::MutexGuard<'_, LastProbe> {
        self.last_probe.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backend for CudaBackend {
    fn kind(&self) -> BackendKind {
        BackendKind::Cuda
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>> {
        let found = probe::probe(&self.backoff)?;
        let mut infos: Vec<_> = found.devices.iter().map(|device| device.info.clone()).collect();
        let primaries: Vec<_> = match driver::Driver::get() {
            Ok(driver) => {
                found.devices.into_iter().map(|device| PrimaryContext::of(driver, device)).collect()
            }
            Err(_) => Vec::new(),
        };
        for (info, primary) in infos.iter_mut().zip(&primaries) {
            info.context_bytes = primary.device().context_bytes();
        }
        *self.last_probe() = LastProbe { primaries, notes: found.notes, driver: found.driver };
        Ok(infos)
    }

    fn cpu_fallback(&self) -> CpuFallback {
        match self.last_probe().driver {
            _ if parent_uses_gpus() => CpuFallback::Refused,
            DriverState::Usable => CpuFallback::Quiet,
            DriverState::Unusable => CpuFallback::Warned,
            DriverState::NotReady => CpuFallback::Refused,
        }
    }

    fn notes(&self) -> Vec<String> {
        self.last_probe().notes.clone()
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
