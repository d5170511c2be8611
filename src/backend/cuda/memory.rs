//! Memory of a card and pinned memory of the host: blocks that give themselves back, and are kept for the next
//! shot, which needs the same. What is kept is given back to the driver when somebody finds no memory.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use super::context::Context;
use super::driver::Driver;
use crate::error::{Error, Result};

/// Sizes are rounded up to this, as the driver does.
const GRAIN: u64 = 512;
/// A kept block is used again if at most this part of it is too much.
const WASTE: u64 = 8;
/// Every context of the process may copy to it.
const PORTABLE: u32 = 1;
/// The driver's code for no memory.
const OUT_OF_MEMORY: u32 = 2;

/// Numbers of which every pattern of bits is one.
pub trait Number: Copy + Send + Sync + 'static + sealed::Number {}

mod sealed {
    pub trait Number {}
}

macro_rules! numbers {
    ($($number:ty),*) => { $( impl sealed::Number for $number {} impl Number for $number {} )* };
}
numbers!(u8, i32, u32, i64, u64, f32, f64);

/// What is kept for reuse.
#[derive(Default)]
pub(super) struct Pool {
    pieces: Vec<Piece>,
    host: Vec<HostPiece>,
}

struct Piece {
    address: u64,
    bytes: u64,
    /// The queue on which work may still use it: only that one may have it before it is done.
    stream: Option<u64>,
}

struct HostPiece {
    pointer: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: memory that nobody uses.
unsafe impl Send for HostPiece {}

impl Pool {
    fn take(&mut self, bytes: u64, stream: u64) -> Option<Piece> {
        let fits = |piece: &&Piece| {
            (bytes..=bytes + bytes / WASTE).contains(&piece.bytes)
                && piece.stream.is_none_or(|other| other == stream)
        };
        let smallest = self.pieces.iter().filter(fits).min_by_key(|piece| piece.bytes)?.address;
        let position = self.pieces.iter().position(|piece| piece.address == smallest)?;
        Some(self.pieces.swap_remove(position))
    }

    fn take_host(&mut self, bytes: usize) -> Option<HostPiece> {
        let position = self.host.iter().position(|piece| piece.bytes == bytes)?;
        Some(self.host.swap_remove(position))
    }

    /// All that was put on the queue is done.
    pub fn settle(&mut self, stream: u64) {
        for piece in self.pieces.iter_mut().filter(|piece| piece.stream == Some(stream)) {
            piece.stream = None;
        }
    }

    pub fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes).sum()
    }

    /// To the driver, which waits for the work that may still use it. The context is current.
    pub fn free_all(&mut self, driver: &Driver) {
        for piece in self.pieces.drain(..) {
            // SAFETY: allocated in this context, freed once, used by nobody who comes later.
            let _ = unsafe { driver.free(piece.address) };
        }
        for piece in self.host.drain(..) {
            // SAFETY: as above.
            let _ = unsafe { driver.free_host(piece.pointer.as_ptr()) };
        }
    }
}

/// Values on a card. Dropped, its memory goes to the next who needs as much on the same queue, or on
/// any when the queue's work is done.
pub struct Block<T> {
    context: Arc<Context>,
    stream: u64,
    address: u64,
    bytes: u64,
    len: usize,
    _values: PhantomData<fn(T)>,
}

impl<T: Copy + 'static> Block<T> {
    /// On the queue of that number, in a context that is current. The values are undefined.
    pub(super) fn new(context: &Arc<Context>, stream: u64, len: usize, what: &str) -> Result<Self> {
        let card = context.card();
        let refused = |needed: u64| Error::NoMemory {
            what: what.into(),
            needed,
            place: card.label(),
            there: card.free_bytes(),
        };
        let bytes = (len as u64).checked_mul(size_of::<T>() as u64);
        let bytes = bytes.and_then(|bytes| bytes.max(1).checked_next_multiple_of(GRAIN));
        let bytes = bytes.ok_or_else(|| refused(u64::MAX))?;
        let kept = context.pool().take(bytes, stream);
        let piece = match kept {
            Some(piece) => piece,
            None => {
                let mut address = 0;
                // SAFETY: the place is ours.
                let mut alloc = || unsafe { context.driver().alloc(&mut address, bytes as usize) };
                let mut done = alloc();
                if done.is_err_and(|failure| failure.code == OUT_OF_MEMORY) {
                    context.give_back();
                    done = alloc();
                }
                if done.is_err_and(|failure| failure.code == OUT_OF_MEMORY) {
                    return Err(refused(bytes));
                }
                context.judge(done, || format!("to allocate {bytes} bytes for {what}"))?;
                Piece { address, bytes, stream: None }
            }
        };
        let Piece { address, bytes, .. } = piece;
        Ok(Block { context: context.clone(), stream, address, bytes, len, _values: PhantomData })
    }

    /// Where it begins, as kernels have it.
    pub fn address(&self) -> u64 {
        self.address
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that it has of the card.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn is_of(&self, context: &Arc<Context>) -> bool {
        Arc::ptr_eq(&self.context, context)
    }
}

impl<T> Drop for Block<T> {
    fn drop(&mut self) {
        let piece = Piece { address: self.address, bytes: self.bytes, stream: Some(self.stream) };
        self.context.destroy(|_| {
            self.context.pool().pieces.push(piece);
            Ok(())
        });
    }
}

/// Values in memory of the host that copies of the card reach by themselves.
pub struct Pinned<T> {
    context: Arc<Context>,
    pointer: NonNull<c_void>,
    bytes: usize,
    len: usize,
    _values: PhantomData<T>,
}

// SAFETY: it owns its memory, and gives out references by the rules of `&` and `&mut`.
unsafe impl<T: Number> Send for Pinned<T> {}
// SAFETY: as above.
unsafe impl<T: Number> Sync for Pinned<T> {}

impl<T: Number> Pinned<T> {
    /// The context is current. The values are whatever the memory has.
    pub(super) fn new(context: &Arc<Context>, len: usize, what: &str) -> Result<Self> {
        let refused = |bytes| Error::NoHostMemory { what: what.into(), bytes };
        let bytes =
            len.checked_mul(size_of::<T>()).and_then(|n| n.max(1).checked_next_multiple_of(GRAIN as usize));
        let bytes = bytes.ok_or_else(|| refused(u64::MAX))?;
        let kept = context.pool().take_host(bytes);
        let pointer = match kept {
            Some(piece) => piece.pointer,
            None => {
                let mut pointer = std::ptr::null_mut();
                // SAFETY: the place is ours.
                let done = unsafe { context.driver().alloc_host(&mut pointer, bytes, PORTABLE) };
                if done.is_err_and(|failure| failure.code == OUT_OF_MEMORY) {
                    return Err(refused(bytes as u64));
                }
                context.judge(done, || format!("to allocate {bytes} pinned bytes for {what}"))?;
                NonNull::new(pointer).ok_or_else(|| refused(bytes as u64))?
            }
        };
        Ok(Pinned { context: context.clone(), pointer, bytes, len, _values: PhantomData })
    }

    pub(super) fn pointer(&self) -> *mut c_void {
        self.pointer.as_ptr()
    }
}

impl<T: Number> Deref for Pinned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `len` values of which every pattern is one; the driver aligns to pages.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr().cast(), self.len) }
    }
}

impl<T: Number> DerefMut for Pinned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr().cast(), self.len) }
    }
}

impl<T> Drop for Pinned<T> {
    fn drop(&mut self) {
        let piece = HostPiece { pointer: self.pointer, bytes: self.bytes };
        self.context.destroy(|_| {
            self.context.pool().host.push(piece);
            Ok(())
        });
    }
}
