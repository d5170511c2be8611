//! Kernels: loaded once a context, when the first launch asks, whatever number of threads ask at once.

use std::collections::HashMap;
use std::ffi::{CString, c_char, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys::{CUfunction, CUjit_option, CUmodule};

use super::context::Context;
use super::driver::Driver;
use crate::error::{Error, Result};

/// The names of the two things that a launch is told; a null ends the list.
const PARAMS: *mut c_void = std::ptr::without_provenance_mut(1);
const PARAMS_SIZE: *mut c_void = std::ptr::without_provenance_mut(2);

/// What the driver says of kernels that it does not take, at most.
const LOG: usize = 4096;

/// The text of some kernels, part of the program.
#[derive(Debug, Clone, Copy)]
pub struct Ptx {
    pub name: &'static str,
    pub text: &'static str,
}

/// A kernel of a loaded module.
#[derive(Clone)]
pub struct Function {
    pub(super) handle: CUfunction,
    name: &'static str,
    context: Arc<Context>,
}

// SAFETY: a function's handle may be used by any thread as long as its module is loaded, which it is
// as long as the context is held.
unsafe impl Send for Function {}
// SAFETY: see above.
unsafe impl Sync for Function {}

/// By where the text is.
#[derive(Default)]
pub(super) struct Modules(Mutex<HashMap<usize, Module>>);

struct Module {
    handle: CUmodule,
    functions: HashMap<&'static str, CUfunction>,
}

// SAFETY: handles are numbers to the driver, which any thread may use.
unsafe impl Send for Module {}

impl Context {
    /// The kernel `name` of `ptx`. The context is current.
    ///
    /// A card that does not take the kernels, or whose driver does not, is lost: nothing of the kind can run on it.
    pub(super) fn function(self: &Arc<Self>, ptx: Ptx, name: &'static str) -> Result<Function> {
        let mut modules = self.modules.0.lock().unwrap_or_else(PoisonError::into_inner);
        let module = match modules.entry(ptx.text.as_ptr() as usize) {
            std::collections::hash_map::Entry::Occupied(there) => there.into_mut(),
            std::collections::hash_map::Entry::Vacant(free) => {
                free.insert(Module { handle: self.load(ptx)?, functions: HashMap::new() })
            }
        };
        let handle = match module.functions.get(name) {
            Some(&handle) => handle,
            None => {
                let text = CString::new(name).map_err(|_| Error::Internal(format!("a kernel {name:?}")))?;
                let mut handle = null_mut();
                // SAFETY: the module is loaded, the text ends with a zero, the place is ours.
                let found = unsafe { self.driver().function(&mut handle, module.handle, text.as_ptr()) };
                self.judge(found, || format!("to find the kernel {name}"))?;
                module.functions.insert(name, handle);
                handle
            }
        };
        Ok(Function { handle, name, context: self.clone() })
    }

    fn load(&self, ptx: Ptx) -> Result<CUmodule> {
        let text = CString::new(ptx.text)
            .map_err(|_| Error::Internal(format!("the kernels {} have a zero in their text", ptx.name)))?;
        let mut log = vec![0_u8; LOG];
        let mut options =
            [CUjit_option::CU_JIT_ERROR_LOG_BUFFER, CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        let mut values = [log.as_mut_ptr().cast::<c_void>(), std::ptr::without_provenance_mut(LOG)];
        let mut module = null_mut();
        // SAFETY: a text that ends with a zero; as many values as options, a buffer and its size.
        let loaded = unsafe {
            self.driver().module_load(
                &mut module,
                text.as_ptr().cast(),
                options.len() as u32,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        let Err(failure) = loaded else { return Ok(module) };
        let length = log.iter().position(|&byte| byte == 0).unwrap_or(LOG);
        let says = String::from_utf8_lossy(&log[..length]).trim().to_owned();
        let says = if says.is_empty() { says } else { format!(" ({says})") };
        let version = self.driver().version();
        self.judge(Err(failure), || {
            format!("to load the kernels {}{says}, by a driver for CUDA {version}", ptx.name)
        })
    }
}

impl Modules {
    pub(super) fn unload(&self, driver: &Driver) {
        let modules = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for module in modules.into_values() {
            // SAFETY: loaded, unloaded once, and no function of it is used after the context's end.
            let _ = unsafe { driver.module_unload(module.handle) };
        }
    }
}

impl Function {
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn is_of(&self, context: &Arc<Context>) -> bool {
        Arc::ptr_eq(&self.context, context)
    }

    /// How many blocks of so many threads the card runs at once.
    pub fn blocks_at_once(&self, threads: u32) -> Result<u32> {
        self.context.enter()?;
        let mut blocks = 0;
        // SAFETY: a function of a loaded module; the number is ours.
        let told = unsafe { self.context.driver().occupancy(&mut blocks, self.handle, threads as i32, 0) };
        self.context.judge(told, || format!("to ask how many blocks of {} run at once", self.name))?;
        Ok((blocks.max(1) as u32).saturating_mul(self.context.card().multiprocessors()))
    }
}

/// The parameters of a launch, laid out as the kernel has them.
#[derive(Clone, Copy)]
pub struct Params {
    bytes: [std::mem::MaybeUninit<c_char>; 512],
    len: usize,
    fits: bool,
}

impl Default for Params {
    fn default() -> Self {
        Params::new()
    }
}

impl Params {
    pub fn new() -> Self {
        Params { bytes: [std::mem::MaybeUninit::uninit(); 512], len: 0, fits: true }
    }

    /// The next parameter, by value: a number, an address, or a plain `repr(C)` struct of them.
    pub fn with<T: Copy + 'static>(mut self, value: T) -> Self {
        let begin = self.len.next_multiple_of(align_of::<T>());
        let end = begin + size_of::<T>();
        if end > self.bytes.len() {
            self.fits = false;
            return self;
        }
        // SAFETY: within the buffer, which is for bytes that need not be set.
        unsafe {
            let from = (&raw const value).cast::<std::mem::MaybeUninit<c_char>>();
            self.bytes.as_mut_ptr().add(begin).copy_from_nonoverlapping(from, size_of::<T>());
        }
        self.len = end;
        self
    }

    /// The list by which a launch is told of them; `size` becomes their length, and has to stay where it is until then.
    /// `None`: they are too many.
    pub(super) fn told(&mut self, size: &mut usize) -> Option<[*mut c_void; 5]> {
        *size = self.len;
        let (buffer, size) = (self.bytes.as_mut_ptr().cast(), (&raw mut *size).cast());
        self.fits.then_some([PARAMS, buffer, PARAMS_SIZE, size, null_mut()])
    }
}
