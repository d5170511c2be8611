//! Host memory for fields: zeroed, aligned to cache lines, and shared by row between the members of
//! a team.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::error::Result;

/// Bytes of a cache line on common processors, and of the widest vector.
pub const ALIGN: usize = 64;

/// Zeroed float32 values; the first is at a multiple of 64 bytes.
///
/// The system provides large buffers as untouched pages and places each page in the memory next to
/// the thread that writes it first.
pub struct Buffer {
    /// Start of the allocation; the values begin at the next multiple of [`ALIGN`].
    block: NonNull<u8>,
    layout: Layout,
    len: usize,
}

// SAFETY: a buffer owns its block and lends it by the rules of `&` and `&mut`.
unsafe impl Send for Buffer {}
// SAFETY: as above; `Rows` is made from `&mut` only.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Allocates `len` zeros. `what` names the contents in the error.
    pub fn zeroed(len: usize, what: &str) -> Result<Self> {
        let refused = |bytes: u64| super::host::shortage(what, bytes);
        // The block is aligned here. For a larger alignment the allocator would clear the block
        // itself, and so use every page.
        let layout = len
            .checked_mul(size_of::<f32>())
            .and_then(|bytes| bytes.checked_add(ALIGN))
            .and_then(|bytes| Layout::from_size_align(bytes, align_of::<f32>()).ok())
            .ok_or_else(|| refused((len as u64).saturating_mul(4)))?;
        if !super::host::can_allocate(layout.size() as u64) {
            return Err(refused(layout.size() as u64));
        }
        // SAFETY: the layout is at least `ALIGN` bytes.
        let block =
            NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(|| refused(layout.size() as u64))?;
        super::host::request_huge_pages(block, layout.size());
        Ok(Buffer { block, layout, len })
    }

    /// Returns the bytes that [`Buffer::zeroed`] allocates for `len` values.
    pub fn bytes_of(len: usize) -> u64 {
        (len * size_of::<f32>() + ALIGN) as u64
    }

    /// Returns the allocated bytes.
    pub fn bytes(&self) -> u64 {
        self.layout.size() as u64
    }

    /// Returns a view that the members of a team share by row.
    pub fn rows(&mut self) -> Rows<'_> {
        Rows { first: self.first(), len: self.len, _buffer: PhantomData }
    }

    /// Returns the same memory as 16-bit numbers, twice as many.
    pub fn halves(&self) -> &[u16] {
        // SAFETY: every bit pattern is a 16-bit number; borrowed as `self` is.
        unsafe { std::slice::from_raw_parts(self.first().cast(), 2 * self.len) }
    }

    pub fn halves_mut(&mut self) -> &mut [u16] {
        // SAFETY: every bit pattern is a 16-bit number and a float32 value; borrowed as `self` is.
        unsafe { std::slice::from_raw_parts_mut(self.first().cast(), 2 * self.len) }
    }

    fn first(&self) -> *mut f32 {
        let block = self.block.as_ptr();
        // At most `ALIGN - 4` bytes further: within the block.
        block.wrapping_add(block.align_offset(ALIGN)).cast()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout and not freed before.
        unsafe { dealloc(self.block.as_ptr(), self.layout) }
    }
}

impl std::ops::Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        // SAFETY: `len` initialised values, borrowed as `self` is.
        unsafe { std::slice::from_raw_parts(self.first(), self.len) }
    }
}

impl std::ops::DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: `len` initialised values, borrowed as `self` is.
        unsafe { std::slice::from_raw_parts_mut(self.first(), self.len) }
    }
}

/// A buffer that threads read and write at the same time, each its own part.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    first: *mut f32,
    len: usize,
    _buffer: PhantomData<&'a mut [f32]>,
}

// SAFETY: access goes through unsafe functions whose callers guarantee disjoint ranges.
unsafe impl Send for Rows<'_> {}
// SAFETY: as above.
unsafe impl Sync for Rows<'_> {}

impl<'a> Rows<'a> {
    /// Shares these values in the same manner.
    pub fn over(values: &'a mut [f32]) -> Self {
        Rows { first: values.as_mut_ptr(), len: values.len(), _buffer: PhantomData }
    }

    /// Returns all values.
    ///
    /// # Safety
    /// No thread writes to the buffer while the slice lives.
    pub unsafe fn all(self) -> &'a [f32] {
        // SAFETY: by the caller's promise.
        unsafe { self.read(0, self.len) }
    }

    /// Returns all values as a mutable slice.
    ///
    /// # Safety
    /// No thread reads or writes the buffer while the slice lives.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn all_mut(self) -> &'a mut [f32] {
        // SAFETY: by the caller's promise.
        unsafe { self.write(0, self.len) }
    }

    /// Returns the address of the first value.
    #[inline(always)]
    pub fn as_ptr(self) -> *mut f32 {
        self.first
    }

    pub fn values(self) -> usize {
        self.len
    }

    /// Makes the system allocate the pages of zero values now, instead of at their first use.
    ///
    /// # Safety
    /// The values are within the buffer and zero, and no other thread uses them meanwhile.
    pub unsafe fn populate(self, values: std::ops::Range<usize>) {
        /// Values of a page, or fewer.
        const PAGE: usize = 1024;
        for at in values.step_by(PAGE) {
            // SAFETY: by the caller's promise. Volatile, because the compiler sees no change of a
            // value.
            unsafe { self.first.add(at).write_volatile(0.0) };
        }
    }

    /// Returns `len` values from index `at`.
    ///
    /// # Safety
    /// `at + len` is within the buffer, and no thread writes there while the slice lives.
    #[inline(always)]
    pub unsafe fn read(self, at: usize, len: usize) -> &'a [f32] {
        debug_assert!(at <= self.len && len <= self.len - at);
        // SAFETY: by the caller's promise.
        unsafe { std::slice::from_raw_parts(self.first.add(at), len) }
    }

    /// Returns `len` values from index `at` as a mutable slice.
    ///
    /// # Safety
    /// `at + len` is within the buffer, and no thread reads or writes there while the slice lives.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn write(self, at: usize, len: usize) -> &'a mut [f32] {
        debug_assert!(at <= self.len && len <= self.len - at);
        // SAFETY: by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.first.add(at), len) }
    }
}
