//! The driver's library, loaded at run time, and its functions, whose status is a plain number.
//!
//! The types and constants are cudarc's. Its functions are not called, for two reasons. Their
//! status is a Rust enum, and a code that the enum lacks would be undefined behaviour; drivers get
//! new codes each year. And they panic if the library or a symbol is missing, without the loader's
//! message. So this module loads the symbols once, and compares its table with cudarc's
//! declarations at compile time.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use cudarc::driver::sys::{
    self, CUDA_KERNEL_NODE_PARAMS, CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUfunction,
    CUgraph, CUgraphExec, CUgraphNode, CUjit_option, CUmodule, CUresult, CUstream, CUstreamCaptureMode,
    CUuuid,
};
use libloading::Library;

use crate::fork::forks;

/// Name of the installed library. `libcuda.so`, without the number, may be the stub of a toolkit.
pub const LIBRARY: &str = "libcuda.so.1";
/// Variable with further directories that the loader searches.
const SEARCH_PATH: &str = "LD_LIBRARY_PATH";

/// Oldest usable driver: its version number, and in words. The kernels' PTX needs CUDA 9.0; GPUs
/// have UUIDs from 9.2 on.
pub const MIN_VERSION: (i32, &str) = (9020, "9.2 (driver 396)");

const STUB_LIBRARY: u32 = 34;

const FORKED: &str = "this process was forked after its parent had searched for GPUs, and NVIDIA's driver does not survive a \
                      fork; fork before the first use, start the child with exec, or select cpu";

/// Returns true in a forked child of the process that called this first. Drivers do not survive a
/// fork, and locks stay as other threads held them, so a child must not use the driver at all.
pub fn is_forked_child() -> bool {
    static FIRST: AtomicU64 = AtomicU64::new(u64::MAX);
    let now = forks();
    let first = FIRST.compare_exchange(u64::MAX, now, Ordering::Relaxed, Ordering::Relaxed);
    first.is_err_and(|first| first != now)
}

/// State of this process's search for GPUs, for its forked children.
static GPU_SEARCH: AtomicU8 = AtomicU8::new(NO_GPUS);
/// No search has begun, or the machine has no GPU for this process.
const NO_GPUS: u8 = 0;
/// The driver is loaded, and the search has not ended.
const SEARCHING: u8 = 1;
const FOUND: u8 = 2;

/// Records that the loaded driver is going to be initialised.
pub fn begin_search() {
    let _ = GPU_SEARCH.compare_exchange(NO_GPUS, SEARCHING, Ordering::Relaxed, Ordering::Relaxed);
}

/// Records the end of a search. `has_gpus`: it has found GPUs, or a driver that is not ready. After
/// that a search without a result changes nothing.
pub fn end_search(has_gpus: bool) {
    if has_gpus {
        GPU_SEARCH.store(FOUND, Ordering::Relaxed);
    } else {
        let _ = GPU_SEARCH.compare_exchange(SEARCHING, NO_GPUS, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Returns true in a forked child of a process that had found GPUs or a driver that was not ready, or
/// was searching: the child can't use them.
pub fn parent_uses_gpus() -> bool {
    // In this order: a process that does not search for GPUs must not count as the driver's first.
    GPU_SEARCH.load(Ordering::Relaxed) != NO_GPUS && is_forked_child()
}

/// Why there is no driver: a message for users.
pub enum NoDriver {
    /// None is installed, or a forked child must not use it.
    Missing(String),
    Unusable(String),
}

/// A driver call that failed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DriverFailure {
    pub call: &'static str,
    pub code: u32,
}

pub type DriverResult<T = ()> = Result<T, DriverFailure>;

pub struct Driver {
    table: Table,
    graphs: Option<GraphApi>,
    captures: Option<CaptureApi>,
    /// CUDA version of the driver: 12090 is 12.9.
    version: i32,
}

impl Driver {
    /// Returns the driver. It is loaded at the first success and never unloaded.
    pub fn get() -> Result<&'static Driver, NoDriver> {
        static DRIVER: OnceLock<Result<Driver, String>> = OnceLock::new();
        if is_forked_child() {
            return Err(NoDriver::Missing(FORKED.into()));
        }
        let library = library().map_err(NoDriver::Missing)?;
        let driver = DRIVER.get_or_init(|| Driver::of(library));
        driver.as_ref().map_err(|why| NoDriver::Unusable(why.clone()))
    }

    fn of(library: &Library) -> Result<Driver, String> {
        let mut version = 0;
        // SAFETY: the function of that name has had this type since the first drivers.
        let status = unsafe {
            type Ask = unsafe extern "C" fn(*mut c_int) -> c_uint;
            symbol::<Ask>(library, &["cuDriverGetVersion"]).map(|ask| ask(&mut version))?
        };
        if status == STUB_LIBRARY {
            return Err(format!(
                "the {LIBRARY} that was found is a toolkit's stub; remove its directory from {SEARCH_PATH}"
            ));
        }
        if status != 0 {
            return Err(format!(
                "{LIBRARY} does not report its version (status {status}); install NVIDIA's driver"
            ));
        }
        if version < MIN_VERSION.0 {
            return Err(format!(
                "the driver is for CUDA {}; the kernels need one for CUDA {} or newer",
                format_version(version),
                MIN_VERSION.1
            ));
        }
        let graphs = GraphTable::of(library).ok().map(|table| GraphApi { table });
        let captures = CaptureTable::of(library).ok().map(|table| CaptureApi { table });
        Ok(Driver { table: Table::of(library)?, graphs, captures, version })
    }

    /// Returns the functions for graphs, if the driver has all of them.
    pub fn graphs(&self) -> Option<&GraphApi> {
        self.graphs.as_ref()
    }

    /// Lets a worker's thread make any call from now on while other code of the process captures a
    /// graph. In the driver's default mode many calls fail then, and invalidate that capture.
    pub fn relax_worker(&self) {
        self.exchange_capture_mode(RELAXED);
        IS_RELAXED.set(true);
    }

    /// As [`relax_worker`](Driver::relax_worker), on any thread until the result is dropped.
    pub fn relaxed(&self) -> RelaxedCaptures<'_> {
        let before = if IS_RELAXED.get() { None } else { self.exchange_capture_mode(RELAXED) };
        RelaxedCaptures { driver: self, before }
    }

    /// Returns the previous mode; `None` if the driver has no modes.
    fn exchange_capture_mode(&self, mut mode: c_uint) -> Option<c_uint> {
        // SAFETY: a valid place for a number, also for a mode that cudarc's enum lacks.
        let exchanged = unsafe { self.captures.as_ref()?.exchange((&raw mut mode).cast()) };
        exchanged.ok().map(|()| mode)
    }

    /// Returns the CUDA version of the driver, for messages: `12.9`.
    pub fn version(&self) -> String {
        format_version(self.version)
    }

    pub fn is_older_than(&self, version: i32) -> bool {
        self.version < version
    }
}

/// Loads the library, which has threads and callbacks, so it is never unloaded.
fn library() -> Result<&'static Library, String> {
    static LOADED: OnceLock<Library> = OnceLock::new();
    if let Some(library) = LOADED.get() {
        return Ok(library);
    }
    // SAFETY: NVIDIA's library is made to be loaded at run time.
    let library = unsafe { Library::new(LIBRARY) }.map_err(|why| {
        format!(
            "{LIBRARY} was not found ({}); install NVIDIA's driver, or put the file's directory into {SEARCH_PATH}",
            loader_message(&why)
        )
    })?;
    // If another thread has loaded it, too, dropping this handle unloads nothing.
    Ok(LOADED.get_or_init(|| library))
}

fn format_version(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// Returns the loader's own message.
fn loader_message(error: &libloading::Error) -> String {
    let source = std::error::Error::source(error);
    source.map_or_else(|| error.to_string(), |source| source.to_string())
}

/// Returns the first of the symbols that the library has.
///
/// # Safety
/// The functions of these names have the type `F`.
unsafe fn symbol<F: Copy>(library: &Library, names: &[&str]) -> Result<F, String> {
    names
        .iter()
        // SAFETY: by the caller's promise.
        .find_map(|name| unsafe { library.get::<F>(name.as_bytes()) }.ok().map(|symbol| *symbol))
        .ok_or_else(|| {
            format!("{LIBRARY} has no {}: install a driver for CUDA {} or newer", names[0], MIN_VERSION.1)
        })
}

const RELAXED: c_uint = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED as c_uint;

thread_local! {
    /// True on a worker's thread, whose capture mode is not restored.
    static IS_RELAXED: Cell<bool> = const { Cell::new(false) };
}

/// Restores the thread's capture mode when it is dropped.
pub struct RelaxedCaptures<'a> {
    driver: &'a Driver,
    before: Option<c_uint>,
}

impl Drop for RelaxedCaptures<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.before.take() {
            self.driver.exchange_capture_mode(before);
        }
    }
}

/// Functions that drivers for CUDA 10.1 (418) or newer have.
struct CaptureApi {
    table: CaptureTable,
}

/// Functions that drivers for CUDA 11.4 (470) or newer have.
pub struct GraphApi {
    table: GraphTable,
}

/// Defines the functions of an owner's table: `method = symbol (| name in older drivers)
/// (arguments)`.
macro_rules! table {
    ($owner:ident $table:ident $( $method:ident = $symbol:ident $(| $older:literal)? ($($arg:ident: $ty:ty),*); )*) => {
        struct $table {
            $( $method: unsafe extern "C" fn($($ty),*) -> c_uint, )*
        }

        impl $table {
            fn of(library: &Library) -> Result<Self, String> {
                // SAFETY: the types are those that cudarc declares, see below.
                unsafe {
                    Ok($table { $( $method: symbol(library, &[stringify!($symbol), $($older)?])?, )* })
                }
            }
        }

        #[allow(clippy::too_many_arguments)] // CUDA's own
        impl $owner {
            $(
                /// # Safety
                #[doc = concat!("As CUDA asks of the callers of `", stringify!($symbol), "`.")]
                pub unsafe fn $method(&self, $($arg: $ty),*) -> DriverResult {
                    // SAFETY: by the caller's promise.
                    match unsafe { (self.table.$method)($($arg),*) } {
                        0 => Ok(()),
                        code => Err(DriverFailure { call: stringify!($symbol), code }),
                    }
                }
            )*
        }

        /// Compares the arguments with those that cudarc declares.
        const _: () = {
            $( let _: unsafe fn($($ty),*) -> CUresult = sys::$symbol; )*
        };
    };
}

table! {
    Driver Table

    init = cuInit(flags: c_uint);
    device_count = cuDeviceGetCount(count: *mut c_int);
    device = cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
    device_name = cuDeviceGetName(name: *mut c_char, room: c_int, device: CUdevice);
    device_uuid = cuDeviceGetUuid_v2 | "cuDeviceGetUuid" (uuid: *mut CUuuid, device: CUdevice);
    parent_uuid = cuDeviceGetUuid(uuid: *mut CUuuid, device: CUdevice);
    device_pci = cuDeviceGetPCIBusId(id: *mut c_char, room: c_int, device: CUdevice);
    device_memory = cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice);
    device_attribute = cuDeviceGetAttribute(value: *mut c_int, which: CUdevice_attribute, device: CUdevice);

    retain = cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
    release = cuDevicePrimaryCtxRelease_v2 | "cuDevicePrimaryCtxRelease" (device: CUdevice);
    reset = cuDevicePrimaryCtxReset_v2 | "cuDevicePrimaryCtxReset" (device: CUdevice);
    state = cuDevicePrimaryCtxGetState(device: CUdevice, flags: *mut c_uint, active: *mut c_int);
    set_flags = cuDevicePrimaryCtxSetFlags_v2 | "cuDevicePrimaryCtxSetFlags" (device: CUdevice, flags: c_uint);
    set_current = cuCtxSetCurrent(context: CUcontext);
    push = cuCtxPushCurrent_v2(context: CUcontext);
    pop = cuCtxPopCurrent_v2(context: *mut CUcontext);

    memory_info = cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    alloc = cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize);
    free = cuMemFree_v2(address: CUdeviceptr);
    pin = cuMemHostRegister_v2(pointer: *mut c_void, bytes: usize, flags: c_uint);
    unpin = cuMemHostUnregister(pointer: *mut c_void);
    upload = cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream);
    download = cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream);
    copy = cuMemcpyDtoDAsync_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream);
    fill = cuMemsetD8Async(to: CUdeviceptr, value: c_uchar, bytes: usize, stream: CUstream);

    stream_create = cuStreamCreate(stream: *mut CUstream, flags: c_uint);
    stream_destroy = cuStreamDestroy_v2(stream: CUstream);
    stream_synchronize = cuStreamSynchronize(stream: CUstream);
    stream_wait = cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint);
    event_create = cuEventCreate(event: *mut CUevent, flags: c_uint);
    event_destroy = cuEventDestroy_v2(event: CUevent);
    event_record = cuEventRecord(event: CUevent, stream: CUstream);
    event_synchronize = cuEventSynchronize(event: CUevent);
    event_elapsed = cuEventElapsedTime(milliseconds: *mut f32, begin: CUevent, end: CUevent);

    module_load = cuModuleLoadDataEx(
        module: *mut CUmodule, image: *const c_void, count: c_uint, options: *mut CUjit_option,
        values: *mut *mut c_void
    );
    module_unload = cuModuleUnload(module: CUmodule);
    function = cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
    occupancy = cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int, function: CUfunction, threads: c_int, shared: usize
    );
    launch = cuLaunchKernel(
        function: CUfunction, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint,
        shared: c_uint, stream: CUstream, params: *mut *mut c_void, extra: *mut *mut c_void
    );
}

table! {
    GraphApi GraphTable

    create = cuGraphCreate(graph: *mut CUgraph, flags: c_uint);
    // Only the newer function reads the last two fields of the parameters.
    add_kernel = cuGraphAddKernelNode_v2 | "cuGraphAddKernelNode" (
        node: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize,
        kernel: *const CUDA_KERNEL_NODE_PARAMS
    );
    instantiate = cuGraphInstantiateWithFlags(exec: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong);
    destroy = cuGraphDestroy(graph: CUgraph);
    launch = cuGraphLaunch(exec: CUgraphExec, stream: CUstream);
    destroy_exec = cuGraphExecDestroy(exec: CUgraphExec);
}

table! {
    CaptureApi CaptureTable

    exchange = cuThreadExchangeStreamCaptureMode(mode: *mut CUstreamCaptureMode);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_written_with_a_point() {
        assert_eq!(
            [format_version(12_090), format_version(11_040), format_version(10_000)],
            ["12.9", "11.4", "10.0"]
        );
    }
}
