//! A GPU: its memory and its failures.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex};

use super::{Answer, Context, Driver, code, lock};
use crate::config::{GpuSpec, PROHIBITED};
use crate::faults::Corruption;
use crate::node::Node;
use crate::ptx::{Memory, Region};

/// A bit of every device address, so that a host that dereferences one crashes at once.
pub const TAG: u64 = 1 << 60;

/// Unused bytes between two allocations.
const GUARD: u64 = 1 << 20;
/// Granularities to which the count of used bytes rounds allocations up. Large ones, from half the
/// larger granularity on, have pages of their own.
const GRAINS: [u64; 2] = [512, 2 << 20];
/// New memory is filled with 0xFF (NaN); of a large allocation only this many bytes at both ends.
const POISON: usize = 32 << 20;
/// Largest allocation that is corrupted: larger ones are the copies of a benchmark.
const CORRUPTED: u64 = 64 << 20;

pub struct Gpu {
    pub index: usize,
    pub spec: GpuSpec,
    pub state: Mutex<State>,
    /// Held while the primary context is created or destroyed, so that no new one begins before the
    /// old one has ended.
    pub making: Mutex<()>,
    lost: AtomicBool,
    closed: AtomicBool,
    /// Code of a failed kernel. After the end of its context the process gets no other one.
    barred: AtomicI32,
}

#[derive(Default)]
pub struct State {
    pub pieces: BTreeMap<u64, Piece>,
    next: u64,
    pub used: u64,
    pub peak: u64,
    pub other: u64,
    pub retained: u32,
    pub flags: u32,
    pub context: Option<Arc<Context>>,
    pub contexts_made: u64,
    pub loads: u64,
    pub launches: u64,
    pub graph_launches: u64,
    pub graph_nodes: u64,
    /// Number of runs of each kernel, in graphs or not.
    pub runs: BTreeMap<String, u64>,
    /// Number of kernels that run, and its maximum.
    pub at_work: u64,
    pub together: u64,
    pub allocations: u64,
    /// Corruptions of memory that happen after the next kernel.
    pub corruptions: Vec<Corruption>,
}

/// An allocation, with host memory behind it.
pub struct Piece {
    pub bytes: u64,
    host: usize,
}

impl Drop for Piece {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length and nobody else unmaps it.
        unsafe { libc::munmap(self.host as *mut _, self.bytes as usize) };
    }
}

impl Gpu {
    pub fn new(index: usize, spec: GpuSpec) -> Self {
        let state = State { other: spec.other, ..State::default() };
        let lost = AtomicBool::new(spec.lost);
        let (closed, barred) = (AtomicBool::new(false), AtomicI32::new(0));
        Gpu { index, spec, state: Mutex::new(state), making: Mutex::default(), lost, closed, barred }
    }

    /// Returns the handle of the primary context. A later primary context has the same handle,
    /// which may happen with the real driver, too.
    pub fn handle(&self) -> usize {
        0x7fb0_0000_0000 + 64 * self.index
    }

    pub fn lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    pub fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// Changes the compute mode to prohibited.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Returns the compute mode.
    pub fn mode(&self) -> i32 {
        if self.closed.load(Ordering::Relaxed) { PROHIBITED } else { self.spec.mode }
    }

    pub fn bar(&self, code: i32) {
        self.barred.store(code, Ordering::Relaxed);
    }

    pub fn barred(&self) -> Answer {
        match self.barred.load(Ordering::Relaxed) {
            0 => Ok(()),
            code => Err(code),
        }
    }

    pub fn take(&self, state: &mut State, bytes: u64) -> Answer {
        let limit = self.spec.usable().saturating_sub(state.other);
        let fits = match Node::get() {
            Some(node) => node.take(self.index, bytes, limit),
            None => bytes <= limit.saturating_sub(state.used),
        };
        if !fits {
            return Err(code::OUT_OF_MEMORY);
        }
        state.used += bytes;
        state.peak = state.peak.max(state.used);
        Ok(())
    }

    pub fn give_back(&self, state: &mut State, bytes: u64) {
        state.used -= bytes;
        if let Some(node) = Node::get() {
            node.give(self.index, bytes);
        }
    }

    fn in_use(&self, state: &State) -> u64 {
        Node::get().map_or(state.used, |node| node.in_use(self.index)) + state.other
    }

    pub fn alloc(&self, bytes: u64) -> Answer<u64> {
        let mut state = lock(&self.state);
        let counted = counted(bytes);
        self.take(&mut state, counted)?;
        // SAFETY: a fresh private mapping, checked before use.
        let host = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if host == libc::MAP_FAILED {
            self.give_back(&mut state, counted);
            return Err(code::OUT_OF_MEMORY);
        }
        let (length, ends) = (bytes as usize, POISON.min(bytes as usize));
        // SAFETY: `ends` is at most the length of the mapping.
        unsafe {
            host.cast::<u8>().write_bytes(0xff, ends);
            host.cast::<u8>().add(length - ends).write_bytes(0xff, ends);
        }
        let address = TAG | (self.index as u64) << 48 | (state.next + GUARD);
        state.next = (state.next + GUARD + bytes).next_multiple_of(GRAINS[0]);
        state.allocations += 1;
        state.pieces.insert(address, Piece { bytes, host: host as usize });
        Ok(address)
    }

    pub fn free(&self, address: u64) -> Answer {
        let mut state = lock(&self.state);
        let piece = state.pieces.remove(&address).ok_or(code::INVALID_VALUE)?;
        self.give_back(&mut state, counted(piece.bytes));
        Ok(())
    }

    /// Applies pending corruptions, after a kernel.
    pub fn corrupt(&self) {
        let mut state = lock(&self.state);
        let all = std::mem::take(&mut state.corruptions);
        let small = || state.pieces.values().filter(|piece| piece.bytes <= CORRUPTED);
        let largest = small().map(|piece| piece.bytes).max();
        let pieces: Vec<_> = small().filter(|piece| Some(piece.bytes) == largest).collect();
        for how in all {
            let Some(piece) = pieces.get(how.of_piece(pieces.len())) else { continue };
            // SAFETY: the mapping is that long, and goes only with the piece, which the lock keeps.
            how.apply(unsafe { std::slice::from_raw_parts_mut(piece.host as *mut u8, piece.bytes as usize) });
        }
    }

    /// Returns the host's bytes of a range of device memory, if one allocation contains it.
    pub fn host(&self, address: u64, bytes: u64) -> Answer<*mut u8> {
        let region = self.find(address).ok_or(code::INVALID_VALUE)?;
        if bytes > region.hi - address {
            return Err(code::INVALID_VALUE);
        }
        // SAFETY: the region has the address.
        Ok(unsafe { region.host.add((address - region.lo) as usize) })
    }

    pub fn info(&self) -> (u64, u64) {
        let state = lock(&self.state);
        let total = self.spec.usable();
        (total.saturating_sub(self.in_use(&state)), total)
    }
}

fn counted(bytes: u64) -> u64 {
    bytes.next_multiple_of(GRAINS[usize::from(bytes >= GRAINS[1] / 2)])
}

impl Memory for Gpu {
    fn find(&self, address: u64) -> Option<Region> {
        if address & TAG == 0 {
            // Pinned host memory has the same address for host and GPU.
            let pinned = lock(&Driver::get().pinned);
            let (begin, there) = pinned.range(..=address as usize).next_back()?;
            let (lo, hi) = (*begin as u64, (begin + there.bytes) as u64);
            return (address < hi).then_some(Region { lo, hi, host: *begin as *mut u8, writable: true });
        }
        let state = lock(&self.state);
        let (start, piece) = state.pieces.range(..=address).next_back()?;
        let hi = start + piece.bytes;
        (address < hi).then_some(Region { lo: *start, hi, host: piece.host as *mut u8, writable: true })
    }
}
