//! A kernel of a context, and the parameters of its launch.

use std::ffi::{c_char, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

use cudarc::driver::sys::CUfunction;

use super::context::Context;
use super::module::Ptx;
use crate::error::Result;

/// The names of the two things that a launch is told; a null ends the list.
const PARAMS: *mut c_void = std::ptr::without_provenance_mut(1);
const PARAMS_SIZE: *mut c_void = std::ptr::without_provenance_mut(2);

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

impl Context {
    /// The kernel `name` of `ptx`. The context is current.
    ///
    /// A card that does not take the kernels, or whose driver does not, is lost: nothing of the kind can run on it.
    pub(super) fn function(self: &Arc<Self>, ptx: Ptx, name: &'static str) -> Result<Function> {
        let handle =
            self.modules.function(self.driver(), ptx, name, &|failure, what| self.error(failure, what))?;
        Ok(Function { handle, name, context: self.clone() })
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
