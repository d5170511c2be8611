//! The host as a device: the fallback without a GPU, and the reference.

mod barrier;
mod buffer;
mod host;
mod team;

use std::sync::atomic::{AtomicBool, Ordering};

pub use buffer::{ALIGN, Buffer, Rows};
pub use host::{
    PlainNumber, address_space, can_allocate, check_free, free_bytes, reserve, save_address_space, shortage,
    threads, zeros,
};
pub use team::{Team, TeamMember};

use super::{Backend, DeviceSearch, Lane, Queue};
use crate::device::{BackendKind, DeviceInfo};
use crate::error::Result;

/// The device `cpu:0`. Its slots share all threads that the process may use.
pub struct CpuBackend {
    threads: u32,
    /// The threads are those that the process may use.
    counted: bool,
}

impl CpuBackend {
    /// Returns the device. `threads`: total of all slots; `None`: all that the process may use.
    pub fn new(threads: Option<u32>) -> Self {
        CpuBackend { threads: threads.unwrap_or_else(host::threads).max(1), counted: threads.is_none() }
    }

    /// Logs that an OpenMP runtime may have bound the calling thread to one CPU.
    fn warn_of_binding(&self) {
        let names = ["OMP_PROC_BIND", "GOMP_CPU_AFFINITY"];
        let is_set = |name: &&str| {
            std::env::var(name).is_ok_and(|value| !value.is_empty() && !value.eq_ignore_ascii_case("false"))
        };
        let name = names.into_iter().find(is_set);
        static WARNED: AtomicBool = AtomicBool::new(false);
        if let (1, true, Some(name)) = (self.threads, self.counted, name)
            && !WARNED.swap(true, Ordering::Relaxed)
        {
            log::warn!(
                "the CPU device has one thread, and {name} is set: if OpenMP has bound this thread to one CPU, \
                 reset its mask before it creates a scheduler, or set cpu_threads"
            );
        }
    }
}

impl Backend for CpuBackend {
    fn kind(&self) -> BackendKind {
        BackendKind::Cpu
    }

    fn search(&self) -> Result<DeviceSearch> {
        self.warn_of_binding();
        let device = DeviceInfo {
            cpu_threads: Some(self.threads),
            total_bytes: host::total_bytes(),
            free_bytes: host::free_bytes(),
            ..DeviceInfo::new("CPU-0", BackendKind::Cpu, 0, host::name())
        };
        Ok(DeviceSearch { devices: vec![device], ..DeviceSearch::default() })
    }

    fn free_bytes(&self, _ordinal: u32) -> Result<u64> {
        Ok(host::free_bytes())
    }

    /// Divides the threads evenly among the slots; each slot has at least one.
    fn open(&self, _ordinal: u32, slot: u32, slots: u32) -> Result<Box<dyn Queue>> {
        let threads = (self.threads / slots + u32::from(slot < self.threads % slots)).max(1);
        Ok(Box::new(CpuQueue { team: Team::new(threads as usize)? }))
    }
}

/// A slot of the host.
struct CpuQueue {
    team: Team,
}

impl Queue for CpuQueue {
    fn enter(&self) -> Result<()> {
        Ok(())
    }

    /// Returns at once: work on the host is done when its call returns.
    fn finish(&self) -> Result<()> {
        Ok(())
    }

    fn lane(&self) -> Lane<'_> {
        Lane::Cpu(&self.team)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_share_all_threads_evenly_and_have_one_at_least() {
        let of_slots = |threads, slots| -> Vec<usize> {
            let backend = CpuBackend::new(Some(threads));
            let threads_of = |slot| {
                let queue = backend.open(0, slot, slots).unwrap();
                let Lane::Cpu(team) = queue.lane() else { panic!("not the CPU's lane") };
                team.threads()
            };
            (0..slots).map(threads_of).collect()
        };
        assert_eq!(of_slots(7, 3), [3, 2, 2]);
        assert_eq!(of_slots(6, 2), [3, 3]);
        assert_eq!(of_slots(1, 2), [1, 1]);
    }

    #[test]
    fn list_larger_than_memory_is_refused() {
        assert!(reserve::<u64>(1 << 60).is_none());
        assert!(reserve::<u64>(1 << 44).is_none());
        assert!(reserve::<u64>(1000).is_some_and(|list| list.is_empty() && list.capacity() >= 1000));
    }
}
