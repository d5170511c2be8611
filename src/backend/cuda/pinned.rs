//! Pinned host memory, to which a GPU copies without the CPU. The library allocates it, not the
//! driver, so it stays valid after the end of its context.
//!
//! Pinning takes long, so returned memory is cached, up to as much as was in use at the same time.
//! If the system refuses to pin, unpinned pages are used, and starting a copy blocks until it is
//! done.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use super::context::Context;
use super::context_state::ContextState;
use super::host_pool::{PAGE, PinnedBlock};
use super::status::OUT_OF_MEMORY;
use crate::backend::cpu::PlainNumber;
use crate::error::{Error, Result};

/// Every context of the process may copy to the memory.
const PORTABLE: u32 = 1;

/// Values in pinned host memory.
pub struct Pinned<T> {
    context: Arc<Context>,
    /// `None` only while it is dropped.
    piece: Option<PinnedBlock>,
    len: usize,
    _values: PhantomData<T>,
}

impl<T: PlainNumber> Pinned<T> {
    /// Allocates `len` values: zeros, or those of the previous user. The context is current.
    pub(super) fn new(context: &Arc<Context>, len: usize, what: &str) -> Result<Self> {
        let refused = |bytes: usize| Error::NoHostMemory { what: what.into(), bytes: bytes as u64 };
        let bytes = len.checked_mul(size_of::<T>()).and_then(|n| n.max(1).checked_next_multiple_of(PAGE));
        let bytes = bytes.ok_or_else(|| refused(usize::MAX))?;
        let kept = context.pool().host.take(bytes);
        let piece = match kept {
            Some(piece) => piece,
            None => context.pin(bytes, what)?.ok_or_else(|| refused(bytes))?,
        };
        context.pool().host.lend(&piece);
        Ok(Pinned { context: context.clone(), piece: Some(piece), len, _values: PhantomData })
    }

    pub(super) fn start(&self) -> *mut c_void {
        self.piece.as_ref().map_or(std::ptr::null_mut(), PinnedBlock::start)
    }

    fn first(&self) -> *const T {
        self.piece.as_ref().map_or(NonNull::dangling(), |piece| piece.pointer.cast()).as_ptr()
    }

    /// Leaks memory to which a copy may still write.
    pub(super) fn leak(mut self) {
        if let Some(piece) = self.piece.take() {
            self.context.pool().host.forget(piece);
        }
    }
}

impl<T: PlainNumber> Deref for Pinned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `len` initialised values; every bit pattern is valid, and the address is aligned
        // to pages.
        unsafe { std::slice::from_raw_parts(self.first(), self.len) }
    }
}

impl<T> Drop for Pinned<T> {
    /// Returns the memory to the pool, or frees it after the context's end.
    fn drop(&mut self) {
        if let Some(piece) = self.piece.take() {
            self.context.with_state(|life| match life {
                ContextState::Alive => self.context.pool().host.take_back(piece),
                ContextState::Destroyed => piece.outlived(),
                // Leaked if it is still pinned in the surviving context.
                ContextState::Released => drop(piece),
            });
        }
    }
}

impl Context {
    /// Allocates a block and pins it if the system allows. The context is current. `None`: the host
    /// has too little memory.
    fn pin(&self, bytes: usize, what: &str) -> Result<Option<PinnedBlock>> {
        let driver = self.driver();
        // Done without the pool's lock, because the driver may wait for work of the context.
        let unpin = |pieces: Vec<PinnedBlock>| pieces.into_iter().for_each(|piece| piece.unpin(driver));
        let surplus = self.pool().host.surplus(bytes);
        unpin(surplus);
        let free_all = || {
            let pieces = self.pool().host.take_all();
            unpin(pieces);
        };
        let make = || {
            PinnedBlock::new(bytes).or_else(|| {
                free_all();
                PinnedBlock::new(bytes)
            })
        };
        let Some(mut piece) = make() else { return Ok(None) };
        // SAFETY: whole pages of the block, unpinned before they are freed.
        let pin = || unsafe { driver.pin(piece.start(), bytes, PORTABLE) };
        let mut done = pin();
        if done.is_err_and(|failure| failure.code == OUT_OF_MEMORY) {
            free_all();
            done = pin();
        }
        match self.check(done, || format!("pinning {bytes} bytes for {what}")) {
            Ok(()) => piece.pinned = true,
            Err(error @ Error::Device { .. }) => return Err(error),
            // Some systems allow little pinned memory, some none.
            Err(error) => log::debug!("memory is not pinned, so copies block: {error}"),
        }
        Ok(Some(piece))
    }
}
