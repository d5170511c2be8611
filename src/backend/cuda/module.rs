//! Kernel modules that a context has loaded. The first launch that needs a module loads it, once
//! for all threads. Loading compiles, which takes seconds, so only threads that need the same
//! module wait for it.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::{CUfunction, CUjit_option, CUmodule};

use super::cuda_device::CudaDevice;
use super::driver::{Driver, DriverFailure};
use crate::error::{Error, Result};

/// Maximum bytes of the driver's log about refused kernels.
const LOG: usize = 4096;
/// Maximum number of characters of it in an error.
const SHOWN: usize = 400;

/// The PTX text of some kernels, part of the program.
#[derive(Debug, Clone, Copy)]
pub struct Ptx {
    pub name: &'static str,
    pub text: &'static str,
}

/// The loaded modules, by the address of their text.
#[derive(Default)]
pub(super) struct ModuleCache(Mutex<HashMap<usize, ModuleCell>>);

/// Locked while the module is loaded.
type ModuleCell = Arc<Mutex<Option<LoadedModule>>>;

struct LoadedModule {
    handle: CUmodule,
    functions: HashMap<&'static str, CUfunction>,
}

// SAFETY: handles are numbers to the driver, which any thread may use.
unsafe impl Send for LoadedModule {}

/// Converts a failed call to the context's error. The text is the purpose of the call.
type ToError<'a> = &'a dyn Fn(DriverFailure, &str) -> Error;

impl ModuleCache {
    /// Returns the kernel `name` of `ptx` and loads the module if it is not loaded. The context is
    /// current.
    pub fn function(
        &self,
        device: &CudaDevice,
        ptx: Ptx,
        name: &'static str,
        to_error: ToError<'_>,
    ) -> Result<CUfunction> {
        let cell = self.cells().entry(ptx.text.as_ptr() as usize).or_default().clone();
        let mut module = cell.lock().unwrap_or_else(PoisonError::into_inner);
        let module = match &mut *module {
            Some(module) => module,
            empty => {
                let handle = device.prepare(|| load(device.driver, ptx, to_error))?;
                empty.insert(LoadedModule { handle, functions: HashMap::new() })
            }
        };
        if let Some(&handle) = module.functions.get(name) {
            return Ok(handle);
        }
        let text = CString::new(name).map_err(|_| Error::Internal(format!("a kernel {name:?}")))?;
        let mut handle = null_mut();
        // SAFETY: the module is loaded, the text ends with a zero, and the place is valid.
        let found =
            device.prepare(|| unsafe { device.driver.function(&mut handle, module.handle, text.as_ptr()) });
        found.map_err(|failure| to_error(failure, &format!("finding the kernel {name}")))?;
        module.functions.insert(name, handle);
        Ok(handle)
    }

    /// Unloads all modules. The context is current.
    pub fn unload(&self, driver: &Driver) {
        let cells = std::mem::take(&mut *self.cells());
        for cell in cells.into_values() {
            if let Some(module) = cell.lock().unwrap_or_else(PoisonError::into_inner).take() {
                // SAFETY: loaded once, unloaded once, and no function of it is used after the
                // context's end.
                let _ = unsafe { driver.module_unload(module.handle) };
            }
        }
    }

    fn cells(&self) -> MutexGuard<'_, HashMap<usize, ModuleCell>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn load(driver: &Driver, ptx: Ptx, to_error: ToError<'_>) -> Result<CUmodule> {
    let text = CString::new(ptx.text)
        .map_err(|_| Error::Internal(format!("the kernels {} have a zero in their text", ptx.name)))?;
    let mut log = vec![0_u8; LOG];
    let mut options =
        [CUjit_option::CU_JIT_ERROR_LOG_BUFFER, CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    let mut values = [log.as_mut_ptr().cast::<c_void>(), std::ptr::without_provenance_mut(LOG)];
    let mut module = null_mut();
    // SAFETY: a text that ends with a zero; as many values as options, a buffer and its size.
    let loaded = unsafe {
        driver.module_load(
            &mut module,
            text.as_ptr().cast(),
            options.len() as u32,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    let Err(failure) = loaded else { return Ok(module) };
    let length = log.iter().position(|&byte| byte == 0).unwrap_or(LOG);
    let says = String::from_utf8_lossy(&log[..length]);
    // One line, which leaves room for the status in the error's message.
    let says: String = says.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(SHOWN).collect();
    let says = if says.is_empty() { says } else { format!(" ({says})") };
    let version = driver.version();
    let what = format!("loading the kernels {}{says} with a driver for CUDA {version}", ptx.name);
    Err(to_error(failure, &what))
}
