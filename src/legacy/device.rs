//! Maps the GPU number that an old package passes to devices.

use crate::device::{BackendKind, DeviceInfo};
use crate::error::{Error, Result};
use crate::sched::DeviceMask;

const VARIABLE: &str = "GPUSCHED_LEGACY_DEVICE";

/// Returns the devices that a call may use. By default these are all devices. With
/// `GPUSCHED_LEGACY_DEVICE=strict` it is the GPU with this number, or the CPU device if the machine
/// has no GPU.
pub fn allowed(function: &str, number: i32, devices: &[DeviceInfo]) -> Result<DeviceMask> {
    let mode = std::env::var_os(VARIABLE).unwrap_or_default();
    match mode.to_str() {
        Some("" | "dynamic") => {
            log::debug!("device {number} is ignored; {VARIABLE}=strict selects it");
            Ok(DeviceMask::ALL)
        }
        Some("strict") => only(function, number, devices),
        _ => Err(Error::argument(VARIABLE, mode.display(), "dynamic (the default) or strict")),
    }
}

fn only(function: &str, number: i32, devices: &[DeviceInfo]) -> Result<DeviceMask> {
    let gpus = devices.iter().any(|device| device.backend != BackendKind::Cpu);
    let bits = devices
        .iter()
        .take(64)
        .enumerate()
        .filter(|(_, device)| gpus == (device.backend != BackendKind::Cpu))
        .filter(|(_, device)| i64::from(device.ordinal) == i64::from(number))
        .fold(0, |bits, (index, _)| bits | 1 << index);
    if bits == 0 {
        let there: Vec<_> = devices.iter().map(DeviceInfo::label).collect();
        return Err(Error::NoDevice {
            what: format!("a call of {function}"),
            why: format!(
                "it asks for device {number} and {VARIABLE} is strict; there are: {}",
                there.join(", ")
            ),
        });
    }
    Ok(DeviceMask(bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn devices(labels: &[(BackendKind, u32)]) -> Vec<DeviceInfo> {
        let device =
            |&(backend, ordinal)| DeviceInfo::new(&format!("{backend}-{ordinal}"), backend, ordinal, "");
        labels.iter().map(device).collect()
    }

    #[test]
    fn strict_number_names_a_gpu_where_there_are_gpus_and_the_cpu_elsewhere() {
        use BackendKind::{Cpu, Cuda};
        // The order is that of the selection.
        let mixed = devices(&[(Cpu, 0), (Cuda, 1), (Cuda, 0)]);
        assert_eq!(only("f", 0, &mixed), Ok(DeviceMask(0b100)));
        assert_eq!(only("f", 1, &mixed), Ok(DeviceMask(0b010)));
        for number in [2, -1, i32::MIN, i32::MAX] {
            let refused = only("f", number, &mixed).unwrap_err().to_string();
            assert!(refused.contains(&format!("it asks for device {number} and")), "{refused}");
            assert!(refused.ends_with("there are: cpu:0, cuda:1, cuda:0"), "{refused}");
        }
        let host = devices(&[(Cpu, 0)]);
        assert_eq!(only("f", 0, &host), Ok(DeviceMask(0b1)));
        assert!(matches!(only("f", 1, &host), Err(Error::NoDevice { .. })));
    }
}
