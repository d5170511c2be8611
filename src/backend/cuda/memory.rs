//! Memory of a card and pinned memory of the host: blocks that give themselves back, and are kept for the next
//! shot, which needs the same. What is kept is given back to the driver when somebody finds no memory.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use super::context::Context;
use super::driver::Driver;
use crate::backend::cpu::has_room;
use crate::error::{Error, Result};

/// Pinned memory is in whole pages.
const PAGE: usize = 4096;
/// A kept block is used again if at most this part of it is too much.
const WASTE: u64 = 8;
/// Every context of the process may copy to it.
const PORTABLE: u32 = 1;
/// The driver's code for no memory.
const OUT_OF_MEMORY: u32 = 2;

/// What the driver takes for so many bytes: large pieces have pages of their own, small ones share one.
/// `None`: more than there can be.
pub fn granted(bytes: u64) -> Option<u64> {
    const SMALL: u64 = 512;
    const LARGE: u64 = 2 << 20;
    bytes.max(1).checked_next_multiple_of(if bytes < LARGE / 2 { SMALL } else { LARGE })
}

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

/// Memory of the host, ours and not the driver's: it stays valid for who holds it when its context goes.
struct HostPiece {
    pointer: NonNull<u8>,
    layout: Layout,
}

// SAFETY: it owns its memory.
unsafe impl Send for HostPiece {}
// SAFETY: as above.
unsafe impl Sync for HostPiece {}

impl HostPiece {
    /// Zeros, in whole pages.
    fn new(bytes: usize) -> Option<Self> {
        let layout = Layout::from_size_align(bytes, PAGE).ok()?;
        // SAFETY: the layout is at least a page.
        let pointer = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(HostPiece { pointer, layout })
    }

    fn start(&self) -> *mut c_void {
        self.pointer.as_ptr().cast()
    }
}

impl Drop for HostPiece {
    /// No context has it pinned any more.
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and not freed before.
        unsafe { dealloc(self.pointer.as_ptr(), self.layout) }
    }
}

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
        let position = self.host.iter().position(|piece| piece.layout.size() == bytes)?;
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
            // SAFETY: pinned in this context, and in no use. What stays pinned is never freed.
            if unsafe { driver.unpin(piece.start()) }.is_err() {
                std::mem::forget(piece);
            }
        }
    }

    /// The context is gone, and what was in it.
    pub fn forget(&mut self) {
        self.pieces.clear();
        self.host.clear();
    }

    /// The context is of no use, and yet somewhere.
    pub fn leak(&mut self) {
        self.pieces.clear();
        self.host.drain(..).for_each(std::mem::forget);
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
        let bytes = bytes.and_then(granted).ok_or_else(|| refused(u64::MAX))?;
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
        let kept = context.pool().take_host(bytes);
        let piece = match kept {
            Some(piece) => piece,
            None => {
                if !has_room(bytes as u64) {
                    return Err(refused(bytes));
                }
                let piece = HostPiece::new(bytes).ok_or_else(|| refused(bytes))?;
                // SAFETY: whole pages of ours, unpinned before they are freed.
                let done = unsafe { context.driver().pin(piece.start(), bytes, PORTABLE) };
                if done.is_err_and(|failure| failure.code == OUT_OF_MEMORY) {
                    return Err(refused(bytes));
                }
                context.judge(done, || format!("to pin {bytes} bytes for {what}"))?;
                piece
            }
        };
        Ok(Pinned { context: context.clone(), piece: Some(piece), len, _values: PhantomData })
    }

    pub(super) fn start(&self) -> *mut c_void {
        self.piece.as_ref().map_or(std::ptr::null_mut(), HostPiece::start)
    }

    fn first(&self) -> *mut T {
        self.piece.as_ref().map_or(NonNull::dangling(), |piece| piece.pointer.cast()).as_ptr()
    }

    /// A copy may still write to it: it is never used again.
    pub(super) fn leak(mut self) {
        std::mem::forget(self.piece.take());
    }
}

impl<T: Number> Deref for Pinned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `len` values, set to zero at first, of which every pattern is one; aligned to pages.
        unsafe { std::slice::from_raw_parts(self.first(), self.len) }
    }
}

impl<T: Number> DerefMut for Pinned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.first(), self.len) }
    }
}

impl<T> Drop for Pinned<T> {
    fn drop(&mut self) {
        if let Some(piece) = self.piece.take() {
            self.context.take_back(piece);
        }
    }
}

impl Context {
    /// For the next, or for the context's end, after which it is only memory.
    fn take_back(&self, piece: HostPiece) {
        self.while_alive(|alive| match alive {
            true => self.pool().host.push(piece),
            false => drop(piece),
        });
    }
}
