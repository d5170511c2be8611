//! A kernel of a context, and the parameters of its launch.

use std::ffi::{c_char, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

use cudarc::driver::sys::CUfunction;

use super::context::Context;
use super::module::Ptx;
use crate::error::Result;

/// Keys of the two values that a launch passes; a null ends the list.
const PARAMS: *mut c_void = std::ptr::without_provenance_mut(1);
const PARAMS_SIZE: *mut c_void = std::ptr::without_provenance_mut(2);

/// A kernel of a loaded module.
#[derive(Clone)]
pub struct Kernel {
    pub(super) handle: CUfunction,
    name: &'static str,
    context: Arc<Context>,
}

// SAFETY: any thread may use a function's handle while its module is loaded, that is, while the
// context is held.
unsafe impl Send for Kernel {}
// SAFETY: see above.
unsafe impl Sync for Kernel {}

impl Context {
    /// Returns the kernel `name` of `ptx`. The context is current.
    ///
    /// If the GPU or its driver refuses the kernels, the error marks the device as lost: no such
    /// kernel can run on it.
    pub(super) fn function(self: &Arc<Self>, ptx: Ptx, name: &'static str) -> Result<Kernel> {
        let to_error = |failure, what: &str| self.error(failure, what);
        let handle = self.modules.function(self.device(), ptx, name, &to_error)?;
        Ok(Kernel { handle, name, context: self.clone() })
    }
}

impl Kernel {
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn is_of(&self, context: &Arc<Context>) -> bool {
        Arc::ptr_eq(&self.context, context)
    }

    /// Returns the number of blocks of `threads` threads that the GPU runs at the same time.
    pub fn blocks_at_once(&self, threads: u32) -> Result<u32> {
        self.context.enter()?;
        let mut blocks = 0;
        // SAFETY: a function of a loaded module, and a valid place for the number.
        let queried = unsafe { self.context.driver().occupancy(&mut blocks, self.handle, threads as i32, 0) };
        self.context.check(queried, || format!("reading the occupancy of {}", self.name))?;
        Ok((blocks.max(1) as u32).saturating_mul(self.context.device().multiprocessors()))
    }
}

/// The parameters of a launch, in the kernel's layout.
#[derive(Clone, Copy)]
pub struct Params {
    bytes: [std::mem::MaybeUninit<c_char>; Params::BYTES],
    len: usize,
    fits: bool,
}

impl Default for Params {
    fn default() -> Self {
        Params::new()
    }
}

impl Params {
    const BYTES: usize = 640;

    pub fn new() -> Self {
        Params { bytes: [std::mem::MaybeUninit::uninit(); Params::BYTES], len: 0, fits: true }
    }

    /// Appends a parameter by value: a number, an address, or a plain `repr(C)` struct of them.
    pub fn with<T: Copy + 'static>(mut self, value: T) -> Self {
        let begin = self.len.next_multiple_of(align_of::<T>());
        let end = begin + size_of::<T>();
        if end > self.bytes.len() {
            self.fits = false;
            return self;
        }
        // SAFETY: within the buffer, whose bytes may be uninitialised.
        unsafe {
            let from = (&raw const value).cast::<std::mem::MaybeUninit<c_char>>();
            self.bytes.as_mut_ptr().add(begin).copy_from_nonoverlapping(from, size_of::<T>());
        }
        self.len = end;
        self
    }

    /// Returns the list by which a launch passes the parameters; `None` if they are too large.
    /// `size` receives their length and must stay in place until the launch.
    pub(super) fn driver_arguments(&mut self, size: &mut usize) -> Option<[*mut c_void; 5]> {
        *size = self.len;
        let (buffer, size) = (self.bytes.as_mut_ptr().cast(), (&raw mut *size).cast());
        self.fits.then_some([PARAMS, buffer, PARAMS_SIZE, size, null_mut()])
    }
}
