//! The data of a plan that are uploaded once a GPU, and the lengths that its kernels need.
//!
//! All pointers are to index 0 of row 0, [`Layout::lead`] values after the begin of an array.

use super::kernel_set::KernelSet;
use crate::fd::grid::layout::Layout;
use crate::fd::grid::zones::Zones;
use crate::fd::storage::{Scale, Storage};
use crate::fd::time_loop::launch::Address;

/// Coefficients of a step, at most.
pub const COEFFICIENTS: usize = 7;

/// The data of a plan that are uploaded once a GPU, except the coefficients.
pub struct Tables {
    pub kernels: &'static KernelSet,
    pub layout: Layout,
    pub zones: [Zones; 3],
    /// Those of x, y, z one after the other.
    pub profiles: Vec<f32>,
    /// The number of coefficients.
    pub coefficients: usize,
    /// Of each coefficient, values from column to column.
    pub steps: [[usize; 2]; COEFFICIENTS],
    pub storage: Storage,
    /// Scales of coefficients that are stored in 16 bits.
    pub scales: [Scale; COEFFICIENTS],
}

impl Tables {
    /// Returns the address of index 0 of row 0 of a field.
    pub fn first(&self, field: Address) -> Address {
        field + 4 * self.layout.lead as u64
    }

    /// Returns that of a coefficient.
    pub fn first_coefficient(&self, field: Address) -> Address {
        field + (self.storage.bytes() * self.layout.lead) as u64
    }

    /// Returns the addresses of the profiles of x, y and z, of which each axis has so many.
    pub fn profiles(&self, each: usize, first: Address) -> [Address; 3] {
        let bytes = self.layout.padded.map(|n| (4 * each * n) as u64);
        [0, bytes[0], bytes[0] + bytes[1]].map(|before| first + before)
    }
}
