//! Memory of the host that copies of a card write to by themselves. It is the library's and not the driver's, so it
//! stays valid for who holds it when its context goes.
//!
//! To pin memory takes long, so what is given back is kept for the next, up to as much as was in use at once. Where the
//! system lets nothing be pinned, plain pages do: then whoever starts a copy waits for it.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use super::context::{Context, Life};
use super::driver::Driver;
use super::memory::OUT_OF_MEMORY;
use crate::backend::cpu::has_room;
use crate::error::{Error, Result};

/// Pinned memory is in whole pages.
const PAGE: usize = 4096;
/// A kept piece is used again for what needs at least this part of it.
const WASTE: usize = 2;
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

struct Piece {
    pointer: NonNull<u8>,
    layout: Layout,
    pinned: bool,
}

// SAFETY: it owns its memory.
unsafe impl Send for Piece {}
// SAFETY: as above.
unsafe impl Sync for Piece {}

impl Piece {
    /// Zeros, in whole pages; `None` if the host has no room for them.
    fn new(bytes: usize) -> Option<Self> {
        if !has_room(bytes as u64) {
            return None;
        }
        let layout = Layout::from_size_align(bytes, PAGE).ok()?;
        // SAFETY: the layout is at least a page.
        let pointer = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Piece { pointer, layout, pinned: false })
    }

    fn start(&self) -> *mut c_void {
        self.pointer.as_ptr().cast()
    }

    fn bytes(&self) -> usize {
        self.layout.size()
    }

    /// The context is alive and current, and the piece in no use. What can't be unpinned is never freed.
    fn unpin(mut self, driver: &Driver) {
        // SAFETY: pinned in this context, and unpinned once.
        self.pinned = self.pinned && unsafe { driver.unpin(self.start()) }.is_err();
    }

    /// Its context has gone, and has nothing pinned any more.
    fn outlived(mut self) {
        self.pinned = false;
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if !self.pinned {
            // SAFETY: allocated with this layout, freed once, and no copy comes here by itself.
            unsafe { dealloc(self.pointer.as_ptr(), self.layout) }
        }
    }
}

/// What is kept for reuse: pinned pieces, that which was given back last at the end.
#[derive(Default)]
pub(super) struct HostPool {
    pieces: Vec<Piece>,
    /// Bytes that are in use, and the most that were at once.
    used: usize,
    most: usize,
}

impl HostPool {
    fn take(&mut self, bytes: usize) -> Option<Piece> {
        let fits = |piece: &Piece| (bytes..=bytes.saturating_mul(WASTE)).contains(&piece.bytes());
        let kept = self.pieces.iter().enumerate().filter(|(_, piece)| fits(piece));
        let (position, _) = kept.min_by_key(|(_, piece)| piece.bytes())?;
        Some(self.pieces.remove(position))
    }

    /// Before so many bytes more are pinned: the oldest pieces, as far as too much is kept.
    fn surplus(&mut self, bytes: usize) -> Vec<Piece> {
        let most = self.most.max(self.used.saturating_add(bytes));
        let mut kept: usize = self.pieces.iter().map(Piece::bytes).sum();
        let mut count = 0;
        while kept > most {
            kept -= self.pieces[count].bytes();
            count += 1;
        }
        self.pieces.drain(..count).collect()
    }

    fn lend(&mut self, piece: &Piece) {
        self.used += piece.bytes();
        self.most = self.most.max(self.used);
    }

    fn take_back(&mut self, piece: Piece) {
        self.used -= piece.bytes();
        // Pages that are not pinned are no better than others.
        if piece.pinned {
            self.pieces.push(piece);
        }
    }

    /// The context is alive and current.
    pub fn free_all(&mut self, driver: &Driver) {
        self.pieces.drain(..).for_each(|piece| piece.unpin(driver));
    }

    /// The context has come to its end: what is pinned in one that lives on is lost.
    pub fn end(&mut self, life: Life) {
        let pieces = self.pieces.drain(..);
        match life {
            Life::Gone => pieces.for_each(Piece::outlived),
            Life::Alive | Life::GivenUp => drop(pieces),
        }
    }
}

/// Values in memory of the host that copies of the card reach by themselves.
pub struct Pinned<T> {
    context: Arc<Context>,
    /// `None` only while it is dropped.
    piece: Option<Piece>,
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
        self.piece.as_ref().map_or(std::ptr::null_mut(), Piece::start)
    }

    fn first(&self) -> *const T {
        self.piece.as_ref().map_or(NonNull::dangling(), |piece| piece.pointer.cast()).as_ptr()
    }

    /// A copy may still write to it: it is never used again.
    pub(super) fn leak(mut self) {
        if let Some(piece) = self.piece.take() {
            self.context.pool().host.used -= piece.bytes();
            std::mem::forget(piece);
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
    fn pin(&self, bytes: usize, what: &str) -> Result<Option<Piece>> {
        let driver = self.driver();
        let surplus = self.pool().host.surplus(bytes);
        surplus.into_iter().for_each(|piece| piece.unpin(driver));
        let make = || {
            Piece::new(bytes).or_else(|| {
                self.pool().host.free_all(driver);
                Piece::new(bytes)
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
