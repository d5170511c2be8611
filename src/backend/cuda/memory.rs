//! Memory of a card: blocks that go to the context's pool when they are dropped. What the pool keeps is given back to the
//! driver when an allocation finds no memory.

use std::marker::PhantomData;
use std::sync::Arc;

use super::context::Context;
use super::pool::Piece;
use super::status::OUT_OF_MEMORY;
use crate::error::{Error, Result};

/// What the driver takes for so many bytes: large pieces have pages of their own, small ones share one.
/// `None`: more than there can be.
pub fn granted(bytes: u64) -> Option<u64> {
    const SMALL: u64 = 512;
    const LARGE: u64 = 2 << 20;
    bytes.max(1).checked_next_multiple_of(if bytes < LARGE / 2 { SMALL } else { LARGE })
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
            there: context.free_bytes(),
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
            self.context.pool().put(piece);
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_granted_in_whole_pages() {
        const MIB: u64 = 1 << 20;
        for (asked, found) in
            [(0, 512), (512, 512), (513, 1024), (MIB - 1, MIB), (MIB, 2 * MIB), (3 * MIB, 4 * MIB)]
        {
            assert_eq!(granted(asked), Some(found), "{asked} bytes");
        }
        assert_eq!(granted(u64::MAX), None);
    }
}
