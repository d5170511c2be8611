//! Checks the callers' arguments, and keeps writes within the callers' buffers.

use std::borrow::Cow;
use std::ffi::{CStr, OsStr, c_char};
use std::mem::{MaybeUninit, size_of};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::{ptr, slice};

use crate::backend::cpu;
use crate::error::{Error, Result};

/// Maximum accepted `size` of a struct in bytes. No struct of this or a later header is larger, so
/// a larger `size` is one that the caller did not set.
const LARGEST_STRUCT: usize = 4096;

/// A struct that begins with `size: usize` and may grow at its end.
///
/// # Safety
/// `repr(C)`, its first field is `size: usize`, and all bytes zero is a valid value.
pub(super) unsafe trait VersionedStruct: Copy {
    const NAME: &'static str;

    fn zeroed() -> Self {
        // SAFETY: promised by the implementation.
        unsafe { MaybeUninit::zeroed().assume_init() }
    }
}

fn null(what: &str, accepted: &str) -> Error {
    Error::argument(what, "NULL", accepted)
}

/// Reads and checks the `size` in front of a struct.
///
/// # Safety
/// `at` is NULL or points to at least a `size_t`.
unsafe fn caller_size<T: VersionedStruct>(at: *const T) -> Result<usize> {
    if at.is_null() {
        return Err(null(T::NAME, "a pointer to such a struct"));
    }
    // SAFETY: not NULL, and every struct of the API begins with its size. It may lie unaligned.
    let size = unsafe { at.cast::<usize>().read_unaligned() };
    // A sizeof is a multiple of the alignment. Any other `size` is one that the caller did not set.
    if !(size_of::<usize>()..=LARGEST_STRUCT).contains(&size) || size % align_of::<T>() != 0 {
        let accepted = format!("sizeof({}), which is {} here, set by the caller", T::NAME, size_of::<T>());
        return Err(Error::argument(format!("size of {}", T::NAME), size, accepted));
    }
    Ok(size)
}

/// Copies a struct. Fields that the caller's header lacks are zero; fields that this library lacks
/// must be zero.
///
/// # Safety
/// `at` is NULL or points to as many readable bytes as its `size` says.
pub(super) unsafe fn read<T: VersionedStruct>(at: *const T) -> Result<T> {
    // SAFETY: as promised by the caller.
    let size = unsafe { caller_size(at)? };
    let known = size_of::<T>();
    if size == known {
        // SAFETY: as many bytes are readable, at any alignment, and every pattern of them is a
        // valid `T`.
        return Ok(unsafe { at.read_unaligned() });
    }
    // SAFETY: `size` bytes are readable.
    let bytes = unsafe { slice::from_raw_parts(at.cast::<u8>(), size) };
    if bytes.iter().skip(known).any(|&byte| byte != 0) {
        return Err(Error::TooNew { what: T::NAME, size, known });
    }
    let mut copy = T::zeroed();
    // SAFETY: both sides have that many bytes; every copied pattern is a valid `T`, whose fields are
    // numbers, pointers and nullable function pointers.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), (&raw mut copy).cast::<u8>(), size.min(known)) };
    Ok(copy)
}

/// Passes copies of the structs of an array to `use_one`. They lie at intervals of the first one's
/// `size`.
///
/// # Safety
/// `at` is NULL or points to `count` structs as [`read`] requires them, one behind the other.
pub(super) unsafe fn read_each<T: VersionedStruct>(
    at: *const T,
    count: usize,
    mut use_one: impl FnMut(T),
) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    // SAFETY: as promised by the caller.
    let size = unsafe { caller_size(at)? };
    if count > isize::MAX as usize / size {
        let most = isize::MAX as usize / size;
        return Err(Error::argument(format!("count of {}", T::NAME), count, format!("at most {most}")));
    }
    for place in 0..count {
        // SAFETY: within the caller's array.
        let one = unsafe { at.byte_add(place * size) };
        // SAFETY: as above.
        let theirs = unsafe { caller_size(one)? };
        if theirs != size {
            let accepted = format!("{size}, as in the first struct of the array");
            return Err(Error::argument(format!("size of {} {place}", T::NAME), theirs, accepted));
        }
        // SAFETY: as above.
        use_one(unsafe { read(one)? });
    }
    Ok(())
}

/// As [`read`]; NULL means a struct of zeros.
///
/// # Safety
/// As for [`read`].
pub(super) unsafe fn read_or_default<T: VersionedStruct>(at: *const T) -> Result<T> {
    // SAFETY: as promised by the caller.
    if at.is_null() { Ok(T::zeroed()) } else { unsafe { read(at) } }
}

/// A struct that a function fills in. Its `size` is checked before the work is done.
pub(super) struct OutStruct<T: VersionedStruct> {
    at: *mut T,
    size: usize,
}

impl<T: VersionedStruct> OutStruct<T> {
    /// Checks the pointer and the caller's `size`.
    ///
    /// # Safety
    /// `at` is NULL or points to as many writable bytes as its `size` says, until the call returns.
    pub(super) unsafe fn new(at: *mut T) -> Result<Self> {
        // SAFETY: as promised by the caller.
        let size = unsafe { caller_size(at)? };
        Ok(OutStruct { at, size })
    }

    /// Fills in the fields that the caller's struct has. `size` stays; fields that only a newer
    /// header has become zero.
    pub(super) fn fill(self, value: T) {
        let known = size_of::<T>().min(self.size);
        let skip = size_of::<usize>();
        let (from, to) = ((&raw const value).cast::<u8>(), self.at.cast::<u8>());
        // SAFETY: `size` bytes are writable as promised in `new`, `known` of them readable in
        // `value`.
        unsafe {
            ptr::copy_nonoverlapping(from.add(skip), to.add(skip), known - skip);
            ptr::write_bytes(to.add(known), 0, self.size - known);
        }
    }
}

/// A pointer to one result, checked before the work is done.
pub(super) struct OutParam<T>(*mut T);

impl<T> OutParam<T> {
    /// Returns an error for NULL.
    ///
    /// # Safety
    /// `at` is NULL or points to room for a `T`, until the call returns.
    pub(super) unsafe fn new(what: &str, at: *mut T) -> Result<Self> {
        if at.is_null() { Err(null(what, "a pointer to the result")) } else { Ok(OutParam(at)) }
    }

    pub(super) fn write(self, value: T) {
        // SAFETY: as promised in `new`; it may lie unaligned.
        unsafe { self.0.write_unaligned(value) }
    }
}

/// A buffer for a text and a place for its length, checked before the work is done.
pub(super) struct OutText<'a> {
    buffer: &'a mut [u8],
    length: *mut usize,
}

impl OutText<'_> {
    /// Returns an error for a NULL `at`, unless `len` is 0.
    ///
    /// # Safety
    /// `at` is NULL or points to `len` writable bytes. `length` is NULL or points to room for a
    /// number. Both hold until the call returns.
    pub(super) unsafe fn new(what: &str, at: *mut c_char, len: usize, length: *mut usize) -> Result<Self> {
        // SAFETY: as promised by the caller.
        let buffer = if len == 0 { &mut [] } else { unsafe { slice_of_mut(what, at.cast::<u8>(), len)? } };
        if let Some(first) = buffer.first_mut() {
            *first = 0;
        }
        Ok(OutText { buffer, length })
    }

    /// Writes as many whole characters as fit, ended by NUL, and the length of all of the text.
    pub(super) fn fill(self, text: &str) {
        let most = self.buffer.len().saturating_sub(1).min(text.len());
        let room = (0..=most).rfind(|&end| text.is_char_boundary(end)).unwrap_or(0);
        self.buffer[..room].copy_from_slice(&text.as_bytes()[..room]);
        if let Some(end) = self.buffer.get_mut(room) {
            *end = 0;
        }
        if !self.length.is_null() {
            // SAFETY: as promised in `new`; it may lie unaligned.
            unsafe { self.length.write_unaligned(text.len()) }
        }
    }
}

/// Returns a text; `None` for NULL.
///
/// # Safety
/// `at` is NULL or points to a text that ends with NUL and outlives the result.
pub(super) unsafe fn text<'a>(at: *const c_char) -> Option<Cow<'a, str>> {
    // SAFETY: as promised by the caller, and not NULL where it is read.
    (!at.is_null()).then(|| unsafe { CStr::from_ptr(at) }.to_string_lossy())
}

/// Returns a path.
///
/// # Safety
/// As for [`text`].
pub(super) unsafe fn path(what: &str, at: *const c_char) -> Result<PathBuf> {
    if at.is_null() {
        return Err(null(what, "the name of a file or folder"));
    }
    // SAFETY: as promised by the caller.
    let bytes = unsafe { CStr::from_ptr(at) }.to_bytes();
    Ok(OsStr::from_bytes(bytes).into())
}

fn check_slice<T>(what: &str, at: *const T, len: usize) -> Result<()> {
    if at.is_null() {
        let elements = if len == 1 { "element" } else { "elements" };
        return Err(null(what, &format!("a pointer to {len} {elements}")));
    }
    if !at.is_aligned() {
        return Err(Error::argument(
            what,
            format!("{at:p}"),
            format!("an address aligned to {}", align_of::<T>()),
        ));
    }
    let most = isize::MAX as usize / size_of::<T>().max(1);
    if len > most {
        return Err(Error::argument(format!("length of {what}"), len, format!("at most {most}")));
    }
    Ok(())
}

/// Returns an array of the caller as a slice.
///
/// # Safety
/// `at` is NULL or points to `len` elements that nobody changes while the result lives.
pub(super) unsafe fn slice_of<'a, T>(what: &str, at: *const T, len: usize) -> Result<&'a [T]> {
    check_slice(what, at, len)?;
    // SAFETY: not NULL, aligned, no longer than an address space; the rest is the caller's promise.
    Ok(unsafe { slice::from_raw_parts(at, len) })
}

/// Returns an array of the caller as a mutable slice.
///
/// # Safety
/// `at` is NULL or points to `len` elements that nobody else touches while the result lives.
pub(super) unsafe fn slice_of_mut<'a, T>(what: &str, at: *mut T, len: usize) -> Result<&'a mut [T]> {
    check_slice(what, at, len)?;
    // SAFETY: as in `slice_of`.
    Ok(unsafe { slice::from_raw_parts_mut(at, len) })
}

/// Refuses bits that this version does not know.
pub(super) fn check_bits(what: &str, value: u32, known: u32) -> Result<()> {
    if value & !known == 0 {
        return Ok(());
    }
    let accepted = if known == 0 { "0".into() } else { format!("bits of {known:#x}") };
    Err(Error::argument(what, format!("{value:#x}"), accepted))
}

/// Returns the entry with this number.
pub(super) fn numbered<T>(
    what: &str,
    number: i32,
    entries: impl Iterator<Item = (&'static str, T)> + Clone,
) -> Result<T> {
    let found = usize::try_from(number).ok().and_then(|at| entries.clone().nth(at));
    found.map(|(_, entry)| entry).ok_or_else(|| {
        let accepted = entries.enumerate().map(|(at, (name, _))| format!("{at} ({name})"));
        Error::argument(what, number, accepted.collect::<Vec<_>>().join(", "))
    })
}

/// Copies the caller's array. A lack of memory is an error, not an abort.
pub(super) fn copy<T: Copy>(what: &str, from: &[T]) -> Result<Vec<T>> {
    let mut copy = with_capacity(what, from.len())?;
    copy.extend_from_slice(from);
    Ok(copy)
}

/// Returns an empty vector with capacity for `len` elements.
pub(super) fn with_capacity<T>(what: &str, len: usize) -> Result<Vec<T>> {
    cpu::reserve(len).ok_or_else(|| Error::NoHostMemory {
        what: format!("a copy of {what}"),
        bytes: (len as u64).saturating_mul(size_of::<T>() as u64),
    })
}

/// Converts a text to a field of fixed width. The field always ends with NUL; a text that is too
/// long is cut between two characters.
pub(super) fn text_field<const N: usize>(text: &str) -> [c_char; N] {
    let mut out = [0; N];
    let end = (0..N.min(text.len() + 1)).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    for (to, from) in out.iter_mut().zip(&text.as_bytes()[..end]) {
        *to = *from as c_char;
    }
    out
}

/// A pointer of the caller that may be used from other threads.
pub(super) struct SendPointer<T>(*mut T);

// SAFETY: the header says for each such pointer that it is used from other threads.
unsafe impl<T> Send for SendPointer<T> {}
// SAFETY: as above; only code that the caller passed or allowed uses what it points to.
unsafe impl<T> Sync for SendPointer<T> {}

impl<T> SendPointer<T> {
    pub(super) fn new(pointer: *mut T) -> Self {
        SendPointer(pointer)
    }

    pub(super) fn pointer(&self) -> *mut T {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        for (len, expected) in [(0, ""), (1, ""), (2, "v"), (3, "v"), (4, "v³"), (9, "v³")] {
            let (mut buffer, mut length) = ([b'x'; 9], 0);
            // SAFETY: both outlive the call.
            let to = unsafe { OutText::new("buffer", buffer.as_mut_ptr().cast(), len, &raw mut length) };
            to.unwrap().fill("v³");
            let found = buffer[..len].split(|byte| *byte == 0).next().unwrap_or_default();
            assert_eq!((found, length), (expected.as_bytes(), 3), "{len}");
        }
    }
}
