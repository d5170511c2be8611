//! Memory of the host that copies of a card write to by themselves. It is the library's and not the driver's, so it
//! stays valid for who holds it when its context goes.
//!
//! To pin memory takes long, so what is given back is kept for the next, up to as much as was in use at once. Where the
//! system lets nothing be pinned, plain pages do: then whoever starts a copy waits for it.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use super::context::Context;
use super::host_pool::{HostPiece, PAGE};
use super::life::Life;
use super::status::OUT_OF_MEMORY;
use crate::error::{Error, Result};

/// Every context of the process may copy to it.
const PORTABLE: u32 = 1;

/// Numbers of which every pattern of bits is one.
pub trait Number: Copy + Send + Sync + 'static + sealed::Number {}

mod sealed {
    pub trait Number {}
}

macro_rules! numbers {
    ($($number:ty),*) => { $( impl sealed::Number for $number {} impl Number for $number {} )* };
}
numbers!(u8, i32, u32, i64, u64, f32, f64);

/// Values in memory of the host that copies of the card reach by themselves.
pub struct Pinned<T> {
    context: Arc<Context>,
    /// `None` only while it is dropped.
    piece: Option<HostPiece>,
    len: usize,
    _values: PhantomData<T>,
}

impl<T: Number> Pinned<T> {
    /// The context is current. The values are zeros, or what the last user has left.
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
        self.piece.as_ref().map_or(std::ptr::null_mut(), HostPiece::start)
    }

    fn first(&self) -> *const T {
        self.piece.as_ref().map_or(NonNull::dangling(), |piece| piece.pointer.cast()).as_ptr()
    }

    /// A copy may still write to it: it is never used again.
    pub(super) fn leak(mut self) {
        if let Some(piece) = self.piece.take() {
            self.context.pool().host.forget(piece);
        }
    }
}

impl<T: Number> Deref for Pinned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `len` values, set to zero at first, of which every pattern is one; aligned to pages.
        unsafe { std::slice::from_raw_parts(self.first(), self.len) }
    }
}

impl<T> Drop for Pinned<T> {
    /// For the next, or for the context's end.
    fn drop(&mut self) {
        if let Some(piece) = self.piece.take() {
            self.context.while_it_is(|life| match life {
                Life::Alive => self.context.pool().host.take_back(piece),
                Life::Gone => piece.outlived(),
                // Lost, if it is pinned there.
                Life::GivenUp => drop(piece),
            });
        }
    }
}

impl Context {
    /// A fresh piece, pinned if the system lets it. The context is current. `None`: the host has no memory.
    fn pin(&self, bytes: usize, what: &str) -> Result<Option<HostPiece>> {
        let driver = self.driver();
        let surplus = self.pool().host.surplus(bytes);
        surplus.into_iter().for_each(|piece| piece.unpin(driver));
        let make = || {
            HostPiece::new(bytes).or_else(|| {
                self.pool().host.free_all(driver);
                HostPiece::new(bytes)
            })
        };
        let Some(mut piece) = make() else { return Ok(None) };
        // SAFETY: whole pages of ours, unpinned before they are freed.
        let pin = || unsafe { driver.pin(piece.start(), bytes, PORTABLE) };
        let mut done = pin();
        if done.is_err_and(|failure| failure.code == OUT_OF_MEMORY) {
            self.pool().host.free_all(driver);
            done = pin();
        }
        match self.judge(done, || format!("to pin {bytes} bytes for {what}")) {
            Ok(()) => piece.pinned = true,
            Err(error @ Error::Device { .. }) => return Err(error),
            // There is little of such memory on some systems, and none on others.
            Err(error) => log::debug!("copies wait: {error}"),
        }
        Ok(Some(piece))
    }
}
