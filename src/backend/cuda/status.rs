//! What the driver's codes mean to the scheduler: one table, with the reasons.

use super::driver::Failure;
use crate::error::{DeviceFault, Error};

/// What follows from a code.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Class {
    /// The call failed, and nothing else: the error of who made it.
    Plain,
    /// Memory of the device was short: give back what is cached, fewer at a time, then elsewhere.
    NoMemory,
    /// A launch found too few registers, stacks or queues beside what runs: the same.
    Resources,
    /// The context answers nothing else any more: made anew when all have left it.
    Poisoned,
    /// Somebody else has the device, or keeps programs off it: not now.
    Busy,
}

use Class::*;

/// Code, CUDA's name without `CUDA_ERROR_`, class, and what it says.
const TABLE: &[(u32, &str, Class, &str)] = &[
    (1, "INVALID_VALUE", Plain, "an argument was refused"),
    (2, "OUT_OF_MEMORY", NoMemory, "out of memory"),
    (3, "NOT_INITIALIZED", Plain, "the driver is not initialised; it does not survive a fork"),
    (4, "DEINITIALIZED", Plain, "the driver is shutting down, for the process is ending"),
    (34, "STUB_LIBRARY", Plain, "the library is a toolkit's stub and not a driver's"),
    (36, "CALL_REQUIRES_NEWER_DRIVER", Plain, "a newer driver is needed"),
    // A device that the mode keeps to one process, and another process is there.
    (46, "DEVICE_UNAVAILABLE", Busy, "it is used by another process, or closed to all"),
    (100, "NO_DEVICE", Plain, "there is no device"),
    (101, "INVALID_DEVICE", Plain, "there is no such device"),
    (200, "INVALID_IMAGE", Plain, "the kernels are damaged"),
    // Somebody has destroyed the context that we hold.
    (201, "INVALID_CONTEXT", Poisoned, "the context is not valid any more"),
    (209, "NO_BINARY_FOR_GPU", Plain, "the kernels are not for a device so old"),
    // The memory is damaged, and what is computed with it.
    (214, "ECC_UNCORRECTABLE", Poisoned, "memory of the device failed, and could not be corrected"),
    (218, "INVALID_PTX", Plain, "the kernels could not be compiled"),
    (220, "NVLINK_UNCORRECTABLE", Poisoned, "a link between devices failed"),
    (
        221,
        "JIT_COMPILER_NOT_FOUND",
        Plain,
        "the driver's compiler (libnvidia-ptxjitcompiler.so.1) is missing",
    ),
    (222, "UNSUPPORTED_PTX_VERSION", Plain, "the driver is older than the kernels"),
    // CUDA asks to end the process: the error is contained to its work, but the context is gone.
    (226, "CONTAINED", Poisoned, "an error of the device ended the program on it"),
    (304, "OPERATING_SYSTEM", Plain, "the operating system refused a call"),
    (400, "INVALID_HANDLE", Plain, "a handle is not valid"),
    (500, "NOT_FOUND", Plain, "there is no kernel of that name"),
    (600, "NOT_READY", Plain, "it is not done yet"),
    // What follows up to 719: the kernel has gone wrong, and CUDA gives up the whole context.
    (700, "ILLEGAL_ADDRESS", Poisoned, "a kernel used an address that is not its own"),
    // Not sticky: the launch did not begin.
    (701, "LAUNCH_OUT_OF_RESOURCES", Resources, "too few resources for a launch"),
    (702, "LAUNCH_TIMEOUT", Poisoned, "a kernel ran longer than the system lets it"),
    (709, "CONTEXT_IS_DESTROYED", Poisoned, "the context was destroyed"),
    (710, "ASSERT", Poisoned, "a kernel's assertion failed"),
    (714, "HARDWARE_STACK_ERROR", Poisoned, "the stack of a kernel is damaged"),
    (715, "ILLEGAL_INSTRUCTION", Poisoned, "a kernel has an instruction that the device does not know"),
    (716, "MISALIGNED_ADDRESS", Poisoned, "a kernel used an address that is not aligned"),
    (717, "INVALID_ADDRESS_SPACE", Poisoned, "a kernel used an address of another kind of memory"),
    (718, "INVALID_PC", Poisoned, "a kernel has left its code"),
    (719, "LAUNCH_FAILED", Poisoned, "a kernel failed"),
    (721, "TENSOR_MEMORY_LEAK", Poisoned, "a kernel kept memory of the device"),
    (800, "NOT_PERMITTED", Plain, "it is not permitted"),
    (801, "NOT_SUPPORTED", Plain, "the device or its driver can't do it"),
    // A daemon stands between processes and the device, and is not ready yet.
    (805, "MPS_CONNECTION_FAILED", Busy, "the daemon that shares the device does not answer"),
    (806, "MPS_RPC_FAILURE", Busy, "the daemon that shares the device does not answer"),
    (807, "MPS_SERVER_NOT_READY", Busy, "the daemon that shares the device is not ready"),
    (808, "MPS_MAX_CLIENTS_REACHED", Busy, "the daemon that shares the device takes no more programs"),
    (809, "MPS_MAX_CONNECTIONS_REACHED", Busy, "the daemon that shares the device takes no more programs"),
    (810, "MPS_CLIENT_TERMINATED", Poisoned, "the daemon that shares the device ended the program on it"),
    (911, "EXTERNAL_DEVICE", Poisoned, "another device that takes part failed"),
    // Nobody knows what it is; experience says that the context is gone, often with the device.
    (999, "UNKNOWN", Poisoned, "the driver does not know what happened"),
];

fn entry(code: u32) -> Option<&'static (u32, &'static str, Class, &'static str)> {
    TABLE.iter().find(|entry| entry.0 == code)
}

/// A code that the table does not have is an error of the call, and no more is concluded from it.
pub fn class(code: u32) -> Class {
    entry(code).map_or(Plain, |entry| entry.2)
}

impl Failure {
    /// In words: `cuInit: status 100 (CUDA_ERROR_NO_DEVICE): there is no device`.
    pub fn words(&self) -> String {
        match entry(self.code) {
            Some((code, name, _, says)) => {
                format!("{}: status {code} (CUDA_ERROR_{name}): {says}", self.call)
            }
            None => format!("{}: status {}, which this library does not know", self.call, self.code),
        }
    }

    /// As an error of the device `label`, in doing `what`.
    pub fn error(&self, label: &str, what: &str) -> Error {
        let (device, what) = (label.to_owned(), format!("{what}: {}", self.words()));
        match class(self.code) {
            Plain => Error::Driver { device, what },
            NoMemory => Error::NoMemory { what, needed: 0, place: device, there: 0 },
            Resources => Error::Resources { device, what },
            Poisoned => Error::Device { device, what, fault: DeviceFault::Poisoned },
            Busy => Error::Busy { device, what },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_order_and_once() {
        assert!(TABLE.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn unknown_codes_are_plain_errors_with_their_number() {
        for code in [47, 917, 1234, u32::MAX] {
            let error = Failure { call: "cuInit", code }.error("cuda:0", "a test");
            assert!(matches!(error, Error::Driver { .. }), "{error}");
            assert!(error.to_string().contains(&code.to_string()), "{error}");
        }
    }
}
