//! Allocations on the host that report a shortage as an error.

use crate::backend::cpu::{PlainNumber, reserve, shortage, zeros};
use crate::error::{Error, Result};

/// Returns an empty vector with a capacity of at least `len` values.
pub fn reserved<T>(len: usize, what: &str) -> Result<Vec<T>> {
    reserve(len).ok_or_else(|| shortage(what, (len as u64).saturating_mul(size_of::<T>() as u64)))
}

/// Collects values in a vector.
pub fn collected<T>(values: impl ExactSizeIterator<Item = T>, what: &str) -> Result<Vec<T>> {
    let mut list = reserved(values.len(), what)?;
    list.extend(values);
    Ok(list)
}

/// Returns `len` copies of a value.
pub fn filled<T: Clone>(len: usize, value: T, what: &str) -> Result<Vec<T>> {
    let mut list = reserved(len, what)?;
    list.resize(len, value);
    Ok(list)
}

/// Allocates zeros on the host for a task on a GPU. The error is about the host's memory, not the
/// GPU's.
pub fn host_zeros<T: PlainNumber>(len: usize, what: &str) -> Result<Vec<T>> {
    let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
    zeros(len).ok_or_else(|| Error::NoHostMemory { what: what.into(), bytes })
}
