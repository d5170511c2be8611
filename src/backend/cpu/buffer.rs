//! Host memory for fields: zeroed, aligned to cache lines, and shared by row between the members of
//! a team.

use std::marker::PhantomData;

use super::host::{shortage, zeros};
use crate::error::Result;

/// Bytes of a cache line on common processors, and of the widest vector.
pub const ALIGN: usize = 64;

/// Zeroed float32 values; the first is at a multiple of 64 bytes.
///
/// The system provides large buffers as untouched pages and places each page in the memory next to
/// the thread that writes it first.
pub struct Buffer {
    values: Vec<f32>,
    /// Index of the first value that is used, at a multiple of [`ALIGN`].
    begin: usize,
    len: usize,
}

impl Buffer {
    /// Allocates `len` zeros. `what` names the contents in the error.
    pub fn zeroed(len: usize, what: &str) -> Result<Self> {
        // Aligned here. For a larger alignment the allocator would clear the block itself, and so
        // use every page.
        let values = len.checked_add(ALIGN / size_of::<f32>()).and_then(zeros::<f32>);
        let bytes = (len as u64).saturating_mul(4).saturating_add(ALIGN as u64);
        let values = values.ok_or_else(|| shortage(what, bytes))?;
        let begin = values.as_ptr().align_offset(ALIGN);
        Ok(Buffer { values, begin, len })
    }

    /// Returns the bytes that [`Buffer::zeroed`] allocates for `len` values.
    pub fn bytes_of(len: usize) -> u64 {
        (len * size_of::<f32>() + ALIGN) as u64
    }

    /// Returns the allocated bytes.
    pub fn bytes(&self) -> u64 {
        Buffer::bytes_of(self.len)
    }

    /// Returns a view that the members of a team share by row.
    pub fn rows(&mut self) -> Rows<'_> {
        Rows::over(self)
    }

    /// Returns the same memory as 16-bit numbers, twice as many.
    pub fn halves(&self) -> &[u16] {
        // SAFETY: every bit pattern is a 16-bit number; borrowed as `self` is.
        unsafe { std::slice::from_raw_parts(self.as_ptr().cast(), 2 * self.len) }
    }

    pub fn halves_mut(&mut self) -> &mut [u16] {
        // SAFETY: every bit pattern is a 16-bit number and a float32 value; borrowed as `self` is.
        unsafe { std::slice::from_raw_parts_mut(self.as_mut_ptr().cast(), 2 * self.len) }
    }
}

impl std::ops::Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.values[self.begin..][..self.len]
    }
}

impl std::ops::DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.values[self.begin..][..self.len]
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
