//! The devices of a scheduler.

use std::ffi::c_char;

use super::guard::guard_status;
use super::input::{OutParam, OutStruct, VersionedStruct, text_field};
use super::scheduler_handle::{sched_t, with_scheduler};
use super::status::sched_status_t;
use crate::device::{BackendKind, DeviceInfo, Health};
use crate::error::{Error, Result};
use crate::sched::Scheduler;

/// Bit of a backend mask: the CPU device.
pub const SCHED_BACKEND_CPU: u32 = 1;
/// Bit of a backend mask: NVIDIA GPUs.
pub const SCHED_BACKEND_CUDA: u32 = 2;

/// The device can run tasks.
pub const SCHED_HEALTH_GOOD: i32 = 0;
/// The device has failed and runs no more tasks.
pub const SCHED_HEALTH_RETIRED: i32 = 1;
/// The device exists, but is closed to programs or too old for this library.
pub const SCHED_HEALTH_BARRED: i32 = 2;

/// Counts and busy time of one device of a scheduler.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sched_device_stats_t {
    /// sizeof(sched_device_stats_t), set by the caller.
    pub size: usize,
    /// Attempts that succeeded on the device, including those that ended after another attempt at
    /// their task had committed.
    pub done: u64,
    /// Attempts that failed, or stopped on request.
    pub failed: u64,
    /// Time that the slots have spent in attempts that have ended, summed, in nanoseconds.
    pub busy_ns: u64,
    /// Memory that is reserved for running tasks now, in bytes.
    pub leased_bytes: u64,
    /// Largest reserved memory so far, in bytes.
    pub peak_bytes: u64,
    /// Tasks that the device runs at a time.
    pub slots: u32,
    /// SCHED_HEALTH_*.
    pub health: i32,
}

/// A device as it was found. The search creates no context on it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sched_device_info_t {
    /// sizeof(sched_device_info_t), set by the caller.
    pub size: usize,
    /// SCHED_BACKEND_CPU or SCHED_BACKEND_CUDA.
    pub backend: u32,
    /// Number of the device in its backend, valid in this process only.
    pub ordinal: u32,
    /// Identity of the device, the same in all processes and after a reboot.
    pub uuid: [c_char; 64],
    /// PCI address, such as "0000:01:00.0"; "" if the device has none.
    pub pci_bus_id: [c_char; 32],
    /// Product name.
    pub name: [c_char; 128],
    /// Major compute capability; 0 if the device has none.
    pub compute_major: i32,
    /// Minor compute capability, likewise.
    pub compute_minor: i32,
    /// Threads of the CPU device; 0 for a GPU.
    pub cpu_threads: u32,
    /// SCHED_HEALTH_*.
    pub health: i32,
    /// Memory in bytes.
    pub total_bytes: u64,
    /// Memory that was free at the time of the search, in bytes.
    pub free_bytes: u64,
}

// SAFETY: `repr(C)`, `size` first, and numbers.
unsafe impl VersionedStruct for sched_device_stats_t {
    const NAME: &'static str = "sched_device_stats_t";
}
// SAFETY: as above.
unsafe impl VersionedStruct for sched_device_info_t {
    const NAME: &'static str = "sched_device_info_t";
}

pub(super) fn backend_of(kind: BackendKind) -> u32 {
    match kind {
        BackendKind::Cpu => SCHED_BACKEND_CPU,
        BackendKind::Cuda => SCHED_BACKEND_CUDA,
        // A scheduler behind a handle has no simulated device.
        BackendKind::Simulated => 0,
    }
}

fn health_of(health: Health) -> i32 {
    match health {
        Health::Good => SCHED_HEALTH_GOOD,
        Health::Retired => SCHED_HEALTH_RETIRED,
        Health::Barred => SCHED_HEALTH_BARRED,
    }
}

fn no_such_device(index: u32, count: usize) -> Error {
    let accepted = match count {
        0 => "no index: there is no device".to_owned(),
        1 => "0, the only device".to_owned(),
        n => format!("0 to {}", n - 1),
    };
    Error::argument("index of a device", index, accepted)
}

fn info_of(device: &DeviceInfo) -> sched_device_info_t {
    let (major, minor) = device.compute_capability.unwrap_or_default();
    sched_device_info_t {
        size: 0,
        backend: backend_of(device.backend),
        ordinal: device.ordinal,
        uuid: text_field(device.id.as_str()),
        pci_bus_id: text_field(device.pci_bus_id.as_deref().unwrap_or_default()),
        name: text_field(&device.name),
        compute_major: major as i32,
        compute_minor: minor as i32,
        cpu_threads: device.cpu_threads.unwrap_or(0),
        health: health_of(device.health),
        total_bytes: device.total_bytes,
        free_bytes: device.free_bytes,
    }
}

/// Returns the devices of a scheduler of this process.
fn devices_of(scheduler: &Scheduler) -> Result<&[DeviceInfo]> {
    scheduler.runtime.process.check()?;
    Ok(scheduler.devices())
}

/// Fills in the counts of device `index`, counted from 0.
///
/// Errors: SCHED_E_ARGUMENT, SCHED_E_STALE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_device_stats(
    s: *const sched_t,
    index: u32,
    stats: *mut sched_device_stats_t,
) -> sched_status_t {
    guard_status(|| {
        // SAFETY: a pointer as the header requires it; `OutStruct` checks it.
        let out = unsafe { OutStruct::new(stats)? };
        let all = with_scheduler(s, Scheduler::stats)?.devices;
        let one = all.get(index as usize).ok_or_else(|| no_such_device(index, all.len()))?;
        out.fill(sched_device_stats_t {
            size: 0,
            done: one.done,
            failed: one.failed,
            busy_ns: one.busy_ns,
            leased_bytes: one.leased_bytes,
            peak_bytes: one.peak_bytes,
            slots: one.slots,
            health: health_of(one.device.health),
        });
        Ok(())
    })
}

/// Stores the number of devices of a scheduler in `*count`. With NULL: of the devices that the
/// machine has and GPUSCHED_DEVICES allows. Devices are numbered from 0 and keep their numbers.
///
/// Errors: SCHED_E_ARGUMENT, SCHED_E_STALE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_device_count(s: *const sched_t, count: *mut u32) -> sched_status_t {
    guard_status(|| {
        // SAFETY: a pointer as the header requires it; `OutParam` checks it.
        let out = unsafe { OutParam::new("count", count)? };
        out.write(with_scheduler(s, |scheduler| Ok(devices_of(scheduler)?.len()))? as u32);
        Ok(())
    })
}

/// Fills in the properties of device `index`, counted from 0.
///
/// Errors: SCHED_E_ARGUMENT, SCHED_E_STALE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_device_info(
    s: *const sched_t,
    index: u32,
    info: *mut sched_device_info_t,
) -> sched_status_t {
    guard_status(|| {
        // SAFETY: a pointer as the header requires it; `OutStruct` checks it.
        let out = unsafe { OutStruct::new(info)? };
        with_scheduler(s, |scheduler| {
            let devices = devices_of(scheduler)?;
            let device = devices.get(index as usize).ok_or_else(|| no_such_device(index, devices.len()))?;
            out.fill(info_of(device));
            Ok(())
        })
    })
}
