//! Memory of a GPU. A dropped buffer goes to the pool of its context. The pool is emptied when an
//! allocation fails for lack of memory.

use std::marker::PhantomData;
use std::sync::Arc;

use super::context::Context;
use super::pool::PooledBlock;
use super::shared_objects::SharedObject;
use super::status::OUT_OF_MEMORY;
use crate::error::{Error, Result};

/// Returns the bytes that the driver allocates for a request: large blocks have pages of their own,
/// small ones share a page. `None`: the number exceeds 64 bits.
pub fn allocation_bytes(bytes: u64) -> Option<u64> {
    const SMALL: u64 = 512;
    const LARGE: u64 = 2 << 20;
    bytes.max(1).checked_next_multiple_of(if bytes < LARGE / 2 { SMALL } else { LARGE })
}

/// Values on a GPU. After a drop, another buffer of its queue can reuse the memory at once, and
/// buffers of other queues when the queue's work is done.
pub struct DeviceBuffer<T> {
    context: Arc<Context>,
    stream: u64,
    address: u64,
    bytes: u64,
    len: usize,
    _values: PhantomData<fn(T)>,
}

impl<T: Copy + 'static> DeviceBuffer<T> {
    /// Allocates undefined values for the queue of that number. The context is current.
    pub(super) fn new(context: &Arc<Context>, stream: u64, len: usize, what: &str) -> Result<Self> {
        let gpu = context.device();
        let refused = |needed: u64| Error::NoMemory {
            what: what.into(),
            needed,
            place: gpu.label(),
            there: context.free_bytes(),
        };
        let bytes = (len as u64).checked_mul(size_of::<T>() as u64);
        let bytes = bytes.and_then(allocation_bytes).ok_or_else(|| refused(u64::MAX))?;
        let kept = context.pool().take(bytes, stream);
        let piece = match kept {
            Some(piece) => piece,
            None => {
                let mut address = 0;
                // SAFETY: a valid place for the address.
                let mut alloc = || unsafe { context.driver().alloc(&mut address, bytes as usize) };
                let mut done = alloc();
                if done.is_err_and(|failure| failure.code == OUT_OF_MEMORY) {
                    context.free_cached();
                    done = alloc();
                }
                if done.is_err_and(|failure| failure.code == OUT_OF_MEMORY) {
                    return Err(refused(bytes));
                }
                context.check(done, || format!("allocating {bytes} bytes for {what}"))?;
                PooledBlock { address, bytes, stream: None }
            }
        };
        let PooledBlock { address, bytes, .. } = piece;
        Ok(DeviceBuffer { context: context.clone(), stream, address, bytes, len, _values: PhantomData })
    }

    /// Returns the address on the GPU.
    pub fn address(&self) -> u64 {
        self.address
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the allocated bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn is_of(&self, context: &Arc<Context>) -> bool {
        Arc::ptr_eq(&self.context, context)
    }
}

impl<T: Copy + 'static> SharedObject for DeviceBuffer<T> {
    fn device_bytes(&self) -> u64 {
        self.bytes
    }
}

impl<T> Drop for DeviceBuffer<T> {
    fn drop(&mut self) {
        let piece = PooledBlock { address: self.address, bytes: self.bytes, stream: Some(self.stream) };
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
            assert_eq!(allocation_bytes(asked), Some(found), "{asked} bytes");
        }
        assert_eq!(allocation_bytes(u64::MAX), None);
    }
}
