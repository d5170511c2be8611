//! Pinned host memory that a context caches for reuse.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::c_void;
use std::ptr::NonNull;

use super::context_state::ContextState;
use super::driver::Driver;
use crate::backend::cpu::can_allocate;

/// Bytes of a page: pinned memory is in whole pages.
pub(super) const PAGE: usize = 4096;
/// A request takes a cached block that is at most this many times as large.
const WASTE: usize = 2;

pub(super) struct PinnedBlock {
    pub pointer: NonNull<u8>,
    layout: Layout,
    pub pinned: bool,
}

// SAFETY: the block owns its memory.
unsafe impl Send for PinnedBlock {}
// SAFETY: as above.
unsafe impl Sync for PinnedBlock {}

impl PinnedBlock {
    /// Returns zeros in whole pages; `None` if the host has too little memory.
    pub fn new(bytes: usize) -> Option<Self> {
        if !can_allocate(bytes as u64) {
            return None;
        }
        let layout = Layout::from_size_align(bytes, PAGE).ok()?;
        // SAFETY: the layout is at least a page.
        let pointer = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(PinnedBlock { pointer, layout, pinned: false })
    }

    pub fn start(&self) -> *mut c_void {
        self.pointer.as_ptr().cast()
    }

    pub fn bytes(&self) -> usize {
        self.layout.size()
    }

    /// Unpins and frees the block. The context is alive and current, and nothing uses the block. A
    /// block that can't be unpinned is never freed.
    pub fn unpin(mut self, driver: &Driver) {
        // SAFETY: pinned in this context and unpinned once.
        self.pinned = self.pinned && unsafe { driver.unpin(self.start()) }.is_err();
    }

    /// Frees a block whose context is destroyed, which has unpinned it.
    pub fn outlived(mut self) {
        self.pinned = false;
    }
}

impl Drop for PinnedBlock {
    fn drop(&mut self) {
        if !self.pinned {
            // SAFETY: allocated with this layout and freed once; no copy writes to it any more.
            unsafe { dealloc(self.pointer.as_ptr(), self.layout) }
        }
    }
}

/// Cached pinned blocks, the last returned one at the end.
#[derive(Default)]
pub(super) struct PinnedPool {
    pieces: Vec<PinnedBlock>,
    /// Bytes in use, and their maximum so far.
    used: usize,
    most: usize,
}

impl PinnedPool {
    pub fn take(&mut self, bytes: usize) -> Option<PinnedBlock> {
        let fits = |piece: &PinnedBlock| (bytes..=bytes.saturating_mul(WASTE)).contains(&piece.bytes());
        let kept = self.pieces.iter().enumerate().filter(|(_, piece)| fits(piece));
        let (position, _) = kept.min_by_key(|(_, piece)| piece.bytes())?;
        Some(self.pieces.remove(position))
    }

    /// Removes and returns the oldest blocks that are too many when `bytes` more are pinned.
    pub fn surplus(&mut self, bytes: usize) -> Vec<PinnedBlock> {
        let most = self.most.max(self.used.saturating_add(bytes));
        let mut kept: usize = self.pieces.iter().map(PinnedBlock::bytes).sum();
        let mut count = 0;
        while kept > most {
            kept -= self.pieces[count].bytes();
            count += 1;
        }
        self.pieces.drain(..count).collect()
    }

    pub fn lend(&mut self, piece: &PinnedBlock) {
        self.used += piece.bytes();
        self.most = self.most.max(self.used);
    }

    pub fn take_back(&mut self, piece: PinnedBlock) {
        self.used -= piece.bytes();
        // A block that could not be pinned is not worth caching.
        if piece.pinned {
            self.pieces.push(piece);
        }
    }

    /// Leaks a block to which a copy may still write.
    pub fn forget(&mut self, piece: PinnedBlock) {
        self.used -= piece.bytes();
        std::mem::forget(piece);
    }

    /// Unpins and frees all blocks. The context is alive and current.
    pub fn free_all(&mut self, driver: &Driver) {
        self.pieces.drain(..).for_each(|piece| piece.unpin(driver));
    }

    /// Drops all blocks after the context's end. Memory that stays pinned in a surviving context is
    /// lost.
    pub fn end(&mut self, life: ContextState) {
        let pieces = self.pieces.drain(..);
        match life {
            ContextState::Destroyed => pieces.for_each(PinnedBlock::outlived),
            ContextState::Alive | ContextState::Released => drop(pieces),
        }
    }
}
