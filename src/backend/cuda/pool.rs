//! Memory that a context caches for reuse: blocks of the GPU, and pinned blocks of the host.

use super::context_state::ContextState;
use super::driver::Driver;
use super::host_pool::{PinnedBlock, PinnedPool};

/// A request takes a cached block that is larger by at most 1/`WASTE` of the request.
const WASTE: u64 = 8;

#[derive(Default)]
pub(super) struct MemoryPool {
    pieces: Vec<PooledBlock>,
    pub host: PinnedPool,
}

pub(super) struct PooledBlock {
    pub address: u64,
    pub bytes: u64,
    /// The queue whose work may still use the block: until that is done, only this queue may take
    /// it.
    pub stream: Option<u64>,
}

/// Blocks that were removed from a pool, to be freed without its lock: the driver waits for all
/// work of the context.
#[must_use]
pub(super) struct RemovedBlocks {
    pieces: Vec<PooledBlock>,
    host: Vec<PinnedBlock>,
}

impl RemovedBlocks {
    /// Frees the blocks. The context is alive and current.
    pub fn free(self, driver: &Driver) {
        for piece in self.pieces {
            // SAFETY: allocated in this context, freed once, and in no use.
            let _ = unsafe { driver.free(piece.address) };
        }
        self.host.into_iter().for_each(|piece| piece.unpin(driver));
    }
}

impl MemoryPool {
    pub fn take(&mut self, bytes: u64, stream: u64) -> Option<PooledBlock> {
        let fits = |piece: &&PooledBlock| {
            (bytes..=bytes.saturating_add(bytes / WASTE)).contains(&piece.bytes)
                && piece.stream.is_none_or(|other| other == stream)
        };
        let smallest = self.pieces.iter().filter(fits).min_by_key(|piece| piece.bytes)?.address;
        let position = self.pieces.iter().position(|piece| piece.address == smallest)?;
        Some(self.pieces.swap_remove(position))
    }

    /// Caches a block for reuse.
    pub fn put(&mut self, piece: PooledBlock) {
        self.pieces.push(piece);
    }

    /// Makes the blocks of a queue available to all queues, because its work is done.
    pub fn settle(&mut self, stream: u64) {
        for piece in self.pieces.iter_mut().filter(|piece| piece.stream == Some(stream)) {
            piece.stream = None;
        }
    }

    pub fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes).sum()
    }

    /// Removes all blocks, to be freed.
    pub fn take_all(&mut self) -> RemovedBlocks {
        RemovedBlocks { pieces: std::mem::take(&mut self.pieces), host: self.host.take_all() }
    }

    /// Drops all blocks after the context's end.
    pub fn end(&mut self, life: ContextState) {
        self.pieces.clear();
        self.host.end(life);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_of_all_addresses_finds_no_block() {
        let mut pool = MemoryPool::default();
        pool.put(PooledBlock { address: 1, bytes: 1 << 20, stream: None });
        assert!(pool.take(u64::MAX, 0).is_none());
    }
}
