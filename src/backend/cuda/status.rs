//! Meaning of the driver's status codes for the scheduler: one table, with the reasons.

use cudarc::driver::sys::CUresult;

use super::driver::DriverFailure;
use crate::error::{DeviceFault, Error};

/// The driver's status code for lack of memory.
pub const OUT_OF_MEMORY: u32 = 2;

/// The driver's status code for an unknown cause. The creation of a context returns it if the compute
/// mode excludes all programs.
pub const UNKNOWN: u32 = 999;

/// Consequence of a status code.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StatusClass {
    /// Only the call failed: an error of its caller.
    Plain,
    /// The device has too little memory: free cached memory, run fewer tasks at a time, then use
    /// another device.
    NoMemory,
    /// A launch found too few registers, stacks or queues beside the running ones. Handled like
    /// `NoMemory`.
    Resources,
    /// The context fails all further calls; it is replaced when all tasks have left it.
    Poisoned,
    /// Another process has the device, or it is closed to programs for now.
    Busy,
    /// The driver refuses the kernels for good: no such kernel can run on the device.
    Kernels,
}

use StatusClass::*;

/// Code, CUDA's name, class and message. The list must contain all codes that cudarc knows, or it
/// does not compile.
macro_rules! table {
    ($( $code:literal $name:ident $class:ident $says:literal; )*) => {
        const TABLE: &[(u32, &str, StatusClass, &str)] = &[$( ($code, stringify!($name), $class, $says) ),*];

        const _: () = {
            $( assert!(CUresult::$name as u32 == $code); )*
        };
        const _: fn(CUresult) = |code| match code {
            CUresult::CUDA_SUCCESS $( | CUresult::$name )* => {}
        };
    };
}

table! {
    1 CUDA_ERROR_INVALID_VALUE Plain "an argument was refused";
    2 CUDA_ERROR_OUT_OF_MEMORY NoMemory "out of memory";
    3 CUDA_ERROR_NOT_INITIALIZED Plain "the driver is not initialised; it does not survive a fork";
    4 CUDA_ERROR_DEINITIALIZED Plain "the driver is shutting down, because the process is ending";
    5 CUDA_ERROR_PROFILER_DISABLED Plain "there is no profiler";
    6 CUDA_ERROR_PROFILER_NOT_INITIALIZED Plain "the profiler is not initialised";
    7 CUDA_ERROR_PROFILER_ALREADY_STARTED Plain "the profiler runs already";
    8 CUDA_ERROR_PROFILER_ALREADY_STOPPED Plain "the profiler does not run";
    34 CUDA_ERROR_STUB_LIBRARY Plain
        "this is a toolkit's stub and no driver; remove its directory from LD_LIBRARY_PATH";
    // The compute mode gives the device to one process, and another process has it.
    46 CUDA_ERROR_DEVICE_UNAVAILABLE Busy "it is used by another process, or closed to all";
    100 CUDA_ERROR_NO_DEVICE Plain "there is no device";
    101 CUDA_ERROR_INVALID_DEVICE Plain "there is no such device";
    // A licence may arrive later.
    102 CUDA_ERROR_DEVICE_NOT_LICENSED Busy
        "it has no licence for virtual GPUs; ask its administrator";
    200 CUDA_ERROR_INVALID_IMAGE Kernels "the kernels are damaged";
    // Other code has destroyed the context.
    201 CUDA_ERROR_INVALID_CONTEXT Poisoned "the context is no longer valid";
    202 CUDA_ERROR_CONTEXT_ALREADY_CURRENT Plain "the context is current already";
    205 CUDA_ERROR_MAP_FAILED Plain "memory of a graphics library could not be mapped";
    206 CUDA_ERROR_UNMAP_FAILED Plain "memory of a graphics library could not be unmapped";
    207 CUDA_ERROR_ARRAY_IS_MAPPED Plain "the array is mapped, and can't be destroyed";
    208 CUDA_ERROR_ALREADY_MAPPED Plain "it is mapped already";
    209 CUDA_ERROR_NO_BINARY_FOR_GPU Kernels "the device is too old for the kernels";
    210 CUDA_ERROR_ALREADY_ACQUIRED Plain "the resource is already acquired";
    211 CUDA_ERROR_NOT_MAPPED Plain "it is not mapped";
    212 CUDA_ERROR_NOT_MAPPED_AS_ARRAY Plain "it is not mapped as an array";
    213 CUDA_ERROR_NOT_MAPPED_AS_POINTER Plain "it is not mapped as memory";
    // The memory is damaged, and so are results computed with it.
    214 CUDA_ERROR_ECC_UNCORRECTABLE Poisoned "memory of the device failed, and could not be corrected";
    215 CUDA_ERROR_UNSUPPORTED_LIMIT Plain "the device has no such limit";
    216 CUDA_ERROR_CONTEXT_ALREADY_IN_USE Plain "the context is current on another thread";
    217 CUDA_ERROR_PEER_ACCESS_UNSUPPORTED Plain "the two devices do not support peer access";
    218 CUDA_ERROR_INVALID_PTX Kernels "the kernels could not be compiled";
    219 CUDA_ERROR_INVALID_GRAPHICS_CONTEXT Plain "the context of a graphics library is not valid";
    220 CUDA_ERROR_NVLINK_UNCORRECTABLE Poisoned "a link between devices failed";
    221 CUDA_ERROR_JIT_COMPILER_NOT_FOUND Kernels
        "the driver's compiler, libnvidia-ptxjitcompiler.so.1, is missing; install it";
    222 CUDA_ERROR_UNSUPPORTED_PTX_VERSION Kernels
        "the driver is older than the kernels; install a newer one";
    223 CUDA_ERROR_JIT_COMPILATION_DISABLED Kernels
        "the driver may not compile; unset CUDA_DISABLE_PTX_JIT and CUDA_DISABLE_JIT";
    224 CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY Plain "the device does not support execution affinity";
    225 CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC Plain "a kernel waits for kernels that it has launched";
    // CUDA requires the process to end: the error is contained to its work, but the context is
    // lost.
    226 CUDA_ERROR_CONTAINED Poisoned "an error of the device ended the process's work on it";
    300 CUDA_ERROR_INVALID_SOURCE Plain "a kernel's source is not valid";
    301 CUDA_ERROR_FILE_NOT_FOUND Plain "a file was not found";
    302 CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND Plain
        "a library of the driver has another version; reinstall the driver";
    303 CUDA_ERROR_SHARED_OBJECT_INIT_FAILED Plain
        "a library of the driver could not be initialised; reinstall the driver";
    304 CUDA_ERROR_OPERATING_SYSTEM Plain "the operating system refused a call";
    400 CUDA_ERROR_INVALID_HANDLE Plain "a handle is not valid";
    401 CUDA_ERROR_ILLEGAL_STATE Plain "an object is in the wrong state for this call";
    402 CUDA_ERROR_LOSSY_QUERY Plain "the query would lose information";
    500 CUDA_ERROR_NOT_FOUND Plain "the name was not found";
    600 CUDA_ERROR_NOT_READY Plain "the work has not ended yet";
    // Up to 719: a kernel has failed, and CUDA gives up the whole context.
    700 CUDA_ERROR_ILLEGAL_ADDRESS Poisoned "a kernel used an illegal address";
    // Not sticky: the launch did not begin.
    701 CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES Resources "too few resources for a launch";
    702 CUDA_ERROR_LAUNCH_TIMEOUT Poisoned "a kernel ran longer than the system allows";
    703 CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING Plain "the texturing modes of a launch do not match";
    704 CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED Plain "peer access between the two devices is already enabled";
    705 CUDA_ERROR_PEER_ACCESS_NOT_ENABLED Plain "peer access between the two devices is not enabled";
    708 CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE Plain "the primary context is already active";
    709 CUDA_ERROR_CONTEXT_IS_DESTROYED Poisoned "the context was destroyed";
    710 CUDA_ERROR_ASSERT Poisoned "a kernel's assertion failed";
    711 CUDA_ERROR_TOO_MANY_PEERS Plain "too many devices have peer access";
    712 CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED Plain "the host's memory is pinned already";
    713 CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED Plain "the host's memory is not pinned";
    714 CUDA_ERROR_HARDWARE_STACK_ERROR Poisoned "the stack of a kernel is damaged";
    715 CUDA_ERROR_ILLEGAL_INSTRUCTION Poisoned "a kernel used an illegal instruction";
    716 CUDA_ERROR_MISALIGNED_ADDRESS Poisoned "a kernel used a misaligned address";
    717 CUDA_ERROR_INVALID_ADDRESS_SPACE Poisoned "a kernel used an address of another address space";
    718 CUDA_ERROR_INVALID_PC Poisoned "a kernel's program counter is invalid";
    719 CUDA_ERROR_LAUNCH_FAILED Poisoned "a kernel failed";
    // For kernels whose blocks wait for each other; other running kernels make no difference.
    720 CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE Plain "a launch has more blocks than the device runs at once";
    721 CUDA_ERROR_TENSOR_MEMORY_LEAK Poisoned "a kernel did not release its tensor memory";
    800 CUDA_ERROR_NOT_PERMITTED Plain "it is not permitted";
    801 CUDA_ERROR_NOT_SUPPORTED Plain "the device or its driver does not support this";
    // The service may be starting.
    802 CUDA_ERROR_SYSTEM_NOT_READY Busy
        "the machine is not ready; if it has NVSwitch, start nvidia-fabricmanager";
    803 CUDA_ERROR_SYSTEM_DRIVER_MISMATCH Plain
        "library and kernel module of the driver differ in version; restart the machine";
    804 CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE Plain
        "the compatibility library (cuda-compat) does not support this device; \
         remove its directory from LD_LIBRARY_PATH";
    // A daemon between processes and the device is not ready yet.
    805 CUDA_ERROR_MPS_CONNECTION_FAILED Busy "the MPS daemon does not answer";
    806 CUDA_ERROR_MPS_RPC_FAILURE Busy "the MPS daemon does not answer";
    807 CUDA_ERROR_MPS_SERVER_NOT_READY Busy "the MPS daemon is not ready";
    808 CUDA_ERROR_MPS_MAX_CLIENTS_REACHED Busy "the MPS daemon accepts no more processes";
    809 CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED Busy
        "the MPS daemon accepts no more processes";
    810 CUDA_ERROR_MPS_CLIENT_TERMINATED Poisoned "the MPS daemon ended the process's work on the device";
    811 CUDA_ERROR_CDP_NOT_SUPPORTED Plain "the device does not support launches from kernels";
    812 CUDA_ERROR_CDP_VERSION_MISMATCH Plain "the versions of dynamic parallelism differ";
    // A callback has begun to record its stream as a graph and has not ended that.
    900 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED Plain "the call is not allowed while the stream is captured";
    901 CUDA_ERROR_STREAM_CAPTURE_INVALIDATED Plain "an earlier error ended the stream's capture";
    902 CUDA_ERROR_STREAM_CAPTURE_MERGE Plain "the call would merge two captures";
    903 CUDA_ERROR_STREAM_CAPTURE_UNMATCHED Plain "the stream's capture was begun on another stream";
    904 CUDA_ERROR_STREAM_CAPTURE_UNJOINED Plain
        "the capture ends before another stream has joined it";
    905 CUDA_ERROR_STREAM_CAPTURE_ISOLATION Plain "a captured call would depend on work outside the capture";
    906 CUDA_ERROR_STREAM_CAPTURE_IMPLICIT Plain "a captured call would depend on stream 0";
    907 CUDA_ERROR_CAPTURED_EVENT Plain "the event was recorded in a captured stream";
    908 CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD Plain "the stream's capture was begun by another thread";
    909 CUDA_ERROR_TIMEOUT Plain "timed out";
    910 CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE Plain "a graph differs too much for an update";
    911 CUDA_ERROR_EXTERNAL_DEVICE Poisoned "another device that takes part failed";
    912 CUDA_ERROR_INVALID_CLUSTER_SIZE Plain "the cluster size of a launch is invalid";
    913 CUDA_ERROR_FUNCTION_NOT_LOADED Plain "the kernel is not loaded yet";
    914 CUDA_ERROR_INVALID_RESOURCE_TYPE Plain "the resource is of another type";
    915 CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION Plain "the configuration of the resource is invalid";
    916 CUDA_ERROR_KEY_ROTATION Plain "the keys of an encrypted device could not be changed";
    // The cause is unknown. In practice the context is lost, often with the device.
    999 CUDA_ERROR_UNKNOWN Poisoned "the cause is unknown";
}

/// Codes that only newer drivers have.
const LATER: &[(u32, &str, StatusClass, &str)] =
    &[(36, "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER", Plain, "a newer driver is needed")];

fn entry(code: u32) -> Option<&'static (u32, &'static str, StatusClass, &'static str)> {
    TABLE.iter().chain(LATER).find(|entry| entry.0 == code)
}

/// Returns the class of a code. An unknown code fails only its call, unless
/// [`Context`](super::context::Context) finds that the context reports it again.
pub fn class_of(code: u32) -> StatusClass {
    entry(code).map_or(Plain, |entry| entry.2)
}

/// Returns the class of a code that a call in a live context returned. The MPS server has ended such
/// a context if it does not answer.
pub fn class_in_context(code: u32) -> StatusClass {
    if code == CUresult::CUDA_ERROR_MPS_RPC_FAILURE as u32 { Poisoned } else { class_of(code) }
}

/// Returns true for the codes of an MPS daemon that may not serve the process before it exits.
pub fn is_refused_by_mps(code: u32) -> bool {
    let first = CUresult::CUDA_ERROR_MPS_CONNECTION_FAILED as u32;
    (first..=CUresult::CUDA_ERROR_MPS_SERVER_NOT_READY as u32).contains(&code)
}

/// Returns true if the tables have the code.
pub fn is_known(code: u32) -> bool {
    entry(code).is_some()
}

impl DriverFailure {
    /// Returns a message such as `cuInit: status 100 (CUDA_ERROR_NO_DEVICE): there is no device`.
    pub fn message(&self) -> String {
        match entry(self.code) {
            Some((code, name, _, says)) => {
                format!("{}: status {code} ({name}): {says}", self.call)
            }
            None => format!("{}: status {}, which this library does not know", self.call, self.code),
        }
    }

    /// Returns the error of the device `label`; `what` says what the call was for.
    pub fn error(&self, class: StatusClass, label: &str, what: &str) -> Error {
        let (device, what) = (label.to_owned(), format!("{what} failed: {}", self.message()));
        match class {
            Plain => Error::Driver { device, what },
            NoMemory => Error::NoMemory { what, needed: 0, place: device, there: 0 },
            Resources => Error::Resources { device, what },
            Poisoned => Error::Device { device, what, fault: DeviceFault::Poisoned },
            Busy => Error::Busy { device, what },
            Kernels => Error::Device { device, what, fault: DeviceFault::Lost },
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

    /// A failure that the kernels did not cause must not retire a GPU.
    #[test]
    fn only_refused_kernels_retire_the_gpu() {
        let lost = |code: u32| {
            let failure = DriverFailure { call: "cuModuleLoadDataEx", code };
            let error = failure.error(class_of(code), "cuda:0", "a test");
            matches!(error, Error::Device { fault: DeviceFault::Lost, .. })
        };
        let codes: Vec<u32> = TABLE.iter().map(|entry| entry.0).filter(|&code| lost(code)).collect();
        assert_eq!(codes, [200, 209, 218, 221, 222, 223]);
    }

    #[test]
    fn unknown_codes_are_plain_errors_with_their_number() {
        for code in [47, 917, 1234, u32::MAX] {
            let error = DriverFailure { call: "cuInit", code }.error(class_of(code), "cuda:0", "a test");
            assert!(matches!(error, Error::Driver { .. }), "{error}");
            assert!(error.to_string().contains(&code.to_string()), "{error}");
        }
    }
}
