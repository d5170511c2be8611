//! Data of a plan that are uploaded once per GPU, and the lengths that its kernels need.
//!
//! All pointers are to index 0 of row 0, [`Layout::lead`] values after the beginning of an array.

use super::kernel_set::KernelSet;
use crate::fd::grid::layout::Layout;
use crate::fd::grid::zones::Zones;
use crate::fd::storage::{Scale, Storage};
use crate::fd::time_loop::launch::Address;

/// Most coefficient fields of a step.
pub const COEFFICIENTS: usize = 7;

/// Data of a plan that are uploaded once per GPU, except the coefficients.
pub struct Tables {
    pub kernels: &'static KernelSet,
    pub layout: Layout,
    pub zones: [Zones; 3],
    /// Profiles of x, y, z one after the other.
    pub profiles: Vec<f32>,
    /// For each coefficient field, values from column to column along x and y.
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

    /// Returns the address of index 0 of row 0 of a coefficient field.
    pub fn first_coefficient(&self, field: Address) -> Address {
        field + (self.storage.bytes() * self.layout.lead) as u64
    }

    /// Returns the addresses of the profiles of x, y and z; each axis has `each` profiles.
    pub fn profiles(&self, each: usize, first: Address) -> [Address; 3] {
        let bytes = self.layout.padded.map(|n| (4 * each * n) as u64);
        [0, bytes[0], bytes[0] + bytes[1]].map(|before| first + before)
    }
}
