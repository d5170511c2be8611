//! Pinned host memory that a context caches for reuse.

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

use super::context_state::ContextState;
use super::driver::Driver;
use crate::backend::cpu::can_allocate;
use crate::fork::ProcessMark;

/// Bytes of a page. Pinned memory consists of whole pages.
pub(super) const PAGE: usize = 4096;
/// A request takes a cached block that is at most this many times as large.
const WASTE: usize = 2;

pub(super) struct PinnedBlock {
    pub pointer: NonNull<u8>,
    bytes: usize,
    pub pinned: bool,
    process: ProcessMark,
}

// SAFETY: the block owns its memory.
unsafe impl Send for PinnedBlock {}
// SAFETY: as above.
unsafe impl Sync for PinnedBlock {}

impl PinnedBlock {
    /// Returns zeros in whole pages; `None` if the host has too little memory.
    ///
    /// A forked child does not get the pages. With copies of them, older kernels would give the
    /// parent new pages at its next write, while the GPU continues to write to the old ones. Newer
    /// kernels would copy all of them at each fork.
    pub fn new(bytes: usize) -> Option<Self> {
        if !can_allocate(bytes as u64) {
            return None;
        }
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping anywhere.
        let start = unsafe { libc::mmap(null_mut(), bytes, access, kind, -1, 0) };
        let pointer = NonNull::new(start.cast()).filter(|_| start != libc::MAP_FAILED)?;
        // SAFETY: the pages that were mapped above.
        unsafe { libc::madvise(start, bytes, libc::MADV_DONTFORK) };
        Some(PinnedBlock { pointer, bytes, pinned: false, process: ProcessMark::here() })
    }

    pub fn start(&self) -> *mut c_void {
        self.pointer.as_ptr().cast()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
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
        // A forked child has other pages there, or none.
        if !self.pinned && self.process.is_here() {
            // SAFETY: mapped with this size and unmapped once; no copy writes to it any more.
            unsafe { libc::munmap(self.start(), self.bytes) };
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

    /// Removes and returns the oldest blocks that exceed the limit when `bytes` more are pinned.
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
        // A block that could not be pinned is not cached.
        if piece.pinned {
            self.pieces.push(piece);
        }
    }

    /// Leaks a block to which a copy may still write.
    pub fn forget(&mut self, piece: PinnedBlock) {
        self.used -= piece.bytes();
        std::mem::forget(piece);
    }

    /// Removes all blocks, to be unpinned and freed.
    pub fn take_all(&mut self) -> Vec<PinnedBlock> {
        std::mem::take(&mut self.pieces)
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
