//! What becomes of the card number that an old package passes.

use crate::device::{BackendKind, DeviceInfo};
use crate::error::{Error, Result};
use crate::sched::DeviceMask;

const VARIABLE: &str = "GPUSCHED_LEGACY_DEVICE";

/// The devices that a call with this card number may use: all of them, or with
/// `GPUSCHED_LEGACY_DEVICE=strict` only the card of that number, or the CPU's device where there are no cards.
pub fn allowed(number: i32, devices: &[DeviceInfo]) -> Result<DeviceMask> {
    let mode = std::env::var_os(VARIABLE).unwrap_or_default();
    match mode.to_str() {
        Some("" | "dynamic") => {
            log::debug!("device {number} is taken as a hint; {VARIABLE}=strict would obey it");
            Ok(DeviceMask::ALL)
        }
        Some("strict") => only(number, devices),
        _ => Err(Error::argument(VARIABLE, mode.display(), "dynamic (the default) or strict")),
    }
}

fn only(number: i32, devices: &[DeviceInfo]) -> Result<DeviceMask> {
    let cards = devices.iter().any(|device| device.backend != BackendKind::Cpu);
    let bits = devices
        .iter()
        .take(64)
        .enumerate()
        .filter(|(_, device)| cards == (device.backend != BackendKind::Cpu))
        .filter(|(_, device)| i64::from(device.ordinal) == i64::from(number))
        .fold(0, |bits, (index, _)| bits | 1 << index);
    if bits == 0 {
        let there: Vec<_> = devices.iter().map(DeviceInfo::label).collect();
        return Err(Error::NoDevice {
            what: "a call of cuda_3dfd_1order".into(),
            why: format!(
                "it asks for device {number} and {VARIABLE} is strict; there are: {}",
                there.join(", ")
            ),
        });
    }
    Ok(DeviceMask(bits))
}
