//! Memory that a context keeps for reuse: blocks of the card, and pinned pieces of the host.

use super::driver::Driver;
use super::host_pool::HostPool;
use super::life::Life;

/// A request takes a kept block that is larger by at most 1/`WASTE` of the request.
const WASTE: u64 = 8;

#[derive(Default)]
pub(super) struct Pool {
    pieces: Vec<Piece>,
    pub host: HostPool,
}

pub(super) struct Piece {
    pub address: u64,
    pub bytes: u64,
    /// The queue whose work may still use it: before that is done, only this queue may take it.
    pub stream: Option<u64>,
}

impl Pool {
    pub fn take(&mut self, bytes: u64, stream: u64) -> Option<Piece> {
        let fits = |piece: &&Piece| {
            (bytes..=bytes + bytes / WASTE).contains(&piece.bytes)
                && piece.stream.is_none_or(|other| other == stream)
        };
        let smallest = self.pieces.iter().filter(fits).min_by_key(|piece| piece.bytes)?.address;
        let position = self.pieces.iter().position(|piece| piece.address == smallest)?;
        Some(self.pieces.swap_remove(position))
    }

    /// Keeps a block for reuse.
    pub fn put(&mut self, piece: Piece) {
        self.pieces.push(piece);
    }

    /// Makes a queue's blocks free for all queues: the work on it is done.
    pub fn settle(&mut self, stream: u64) {
        for piece in self.pieces.iter_mut().filter(|piece| piece.stream == Some(stream)) {
            piece.stream = None;
        }
    }

    pub fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes).sum()
    }

    /// Frees all blocks and pieces. The driver waits for work that may still use them. The context is current.
    pub fn free_all(&mut self, driver: &Driver) {
        for piece in self.pieces.drain(..) {
            // SAFETY: allocated in this context, freed once, used by nobody who comes later.
            let _ = unsafe { driver.free(piece.address) };
        }
        self.host.free_all(driver);
    }

    /// Forgets all blocks after the context's end.
    pub fn end(&mut self, life: Life) {
        self.pieces.clear();
        self.host.end(life);
    }
}
