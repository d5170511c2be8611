//! Allocations on the host that report a shortage as an error.

use crate::backend::cpu::{Zero, reserve, shortage, zeros};
use crate::error::{Error, Result};

/// Returns an empty vector with a capacity of at least `len` values.
pub fn reserved<T>(len: usize, what: &str) -> Result<Vec<T>> {
    reserve(len).ok_or_else(|| shortage(what, (len as u64).saturating_mul(size_of::<T>() as u64)))
}

/// Allocates zeros on the host for a task on a GPU. The error is about the host's memory, not the
/// GPU's.
pub fn host_zeros<T: Zero>(len: usize, what: &str) -> Result<Vec<T>> {
    let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
    zeros(len).ok_or_else(|| Error::NoHostMemory { what: what.into(), bytes })
}
