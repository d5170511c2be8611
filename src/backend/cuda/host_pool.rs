//! Pinned memory of the host that a context keeps for reuse.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::c_void;
use std::ptr::NonNull;

use super::driver::Driver;
use super::life::Life;
use crate::backend::cpu::has_room;

/// Bytes of a page: pinned memory is in whole pages.
pub(super) const PAGE: usize = 4096;
/// A request takes a kept piece that is at most this many times as large.
const WASTE: usize = 2;

pub(super) struct HostPiece {
    pub pointer: NonNull<u8>,
    layout: Layout,
    pub pinned: bool,
}

// SAFETY: it owns its memory.
unsafe impl Send for HostPiece {}
// SAFETY: as above.
unsafe impl Sync for HostPiece {}

impl HostPiece {
    /// Returns zeros in whole pages; `None` if the host has no room for them.
    pub fn new(bytes: usize) -> Option<Self> {
        if !has_room(bytes as u64) {
            return None;
        }
        let layout = Layout::from_size_align(bytes, PAGE).ok()?;
        // SAFETY: the layout is at least a page.
        let pointer = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(HostPiece { pointer, layout, pinned: false })
    }

    pub fn start(&self) -> *mut c_void {
        self.pointer.as_ptr().cast()
    }

    pub fn bytes(&self) -> usize {
        self.layout.size()
    }

    /// Unpins and frees the piece. The context is alive and current, and nothing uses the piece. If it can't be unpinned,
    /// it is never freed.
    pub fn unpin(mut self, driver: &Driver) {
        // SAFETY: pinned in this context, and unpinned once.
        self.pinned = self.pinned && unsafe { driver.unpin(self.start()) }.is_err();
    }

    /// Frees a piece whose context is gone, and with it the pinning.
    pub fn outlived(mut self) {
        self.pinned = false;
    }
}

impl Drop for HostPiece {
    fn drop(&mut self) {
        if !self.pinned {
            // SAFETY: allocated with this layout, freed once, and no copy comes here by itself.
            unsafe { dealloc(self.pointer.as_ptr(), self.layout) }
        }
    }
}

/// Pinned pieces that are kept for reuse, the last returned one at the end.
#[derive(Default)]
pub(super) struct HostPool {
    pieces: Vec<HostPiece>,
    /// Bytes that are in use, and the most that were at once.
    used: usize,
    most: usize,
}

impl HostPool {
    pub fn take(&mut self, bytes: usize) -> Option<HostPiece> {
        let fits = |piece: &HostPiece| (bytes..=bytes.saturating_mul(WASTE)).contains(&piece.bytes());
        let kept = self.pieces.iter().enumerate().filter(|(_, piece)| fits(piece));
        let (position, _) = kept.min_by_key(|(_, piece)| piece.bytes())?;
        Some(self.pieces.remove(position))
    }

    /// Removes the oldest pieces that are too many when `bytes` more are pinned, and returns them.
    pub fn surplus(&mut self, bytes: usize) -> Vec<HostPiece> {
        let most = self.most.max(self.used.saturating_add(bytes));
        let mut kept: usize = self.pieces.iter().map(HostPiece::bytes).sum();
        let mut count = 0;
        while kept > most {
            kept -= self.pieces[count].bytes();
            count += 1;
        }
        self.pieces.drain(..count).collect()
    }

    pub fn lend(&mut self, piece: &HostPiece) {
        self.used += piece.bytes();
        self.most = self.most.max(self.used);
    }

    pub fn take_back(&mut self, piece: HostPiece) {
        self.used -= piece.bytes();
        // Pages that are not pinned are no better than others.
        if piece.pinned {
            self.pieces.push(piece);
        }
    }

    /// A copy may still write to the piece: it is never used again.
    pub fn forget(&mut self, piece: HostPiece) {
        self.used -= piece.bytes();
        std::mem::forget(piece);
    }

    /// Unpins and frees all pieces. The context is alive and current.
    pub fn free_all(&mut self, driver: &Driver) {
        self.pieces.drain(..).for_each(|piece| piece.unpin(driver));
    }

    /// Drops all pieces after the context's end. Memory that stays pinned in a context that lives on is lost.
    pub fn end(&mut self, life: Life) {
        let pieces = self.pieces.drain(..);
        match life {
            Life::Gone => pieces.for_each(HostPiece::outlived),
            Life::Alive | Life::GivenUp => drop(pieces),
        }
    }
}
