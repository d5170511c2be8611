//! How a step is computed.

use super::coefficients::Coefficients;
use super::layout::Layout;
use super::{one_pass, two_sweeps};

/// Both give the same records but for rounding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// All velocities, then the pressure.
    TwoSweeps,
    /// The pressure alone, its velocities eliminated where nothing is damped.
    OnePass,
}

impl Form {
    pub const ALL: [Form; 2] = [Form::TwoSweeps, Form::OnePass];

    pub fn name(self) -> &'static str {
        match self {
            Form::TwoSweeps => "two-sweeps",
            Form::OnePass => "one-pass",
        }
    }

    /// Bytes of the fields of a shot on the CPU.
    pub fn field_bytes(self, layout: &Layout) -> u64 {
        match self {
            Form::TwoSweeps => two_sweeps::Fields::bytes(layout),
            Form::OnePass => one_pass::Fields::bytes(layout),
        }
    }

    /// Bytes of what so many threads of the CPU compute with, besides.
    pub fn threads_bytes(self, c: &Coefficients, threads: usize) -> u64 {
        match self {
            Form::TwoSweeps => 0,
            Form::OnePass => one_pass::thread_bytes(c).saturating_mul(threads as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::coefficients::Moduli;
    use super::*;
    use crate::fd::grid::Grid;
    use crate::fd::storage::Storage;

    /// Fields and coefficients, rounded up to whole lines and vectors as they are.
    fn bytes_a_cell(form: Form, n: usize, density: bool, storage: Storage) -> f64 {
        let layout = Layout::new(&Grid { n: [n; 3], h: [10.0; 3] }, 20);
        (form.field_bytes(&layout) + Moduli::bytes(&layout, density, storage)) as f64 / layout.cells() as f64
    }

    #[test]
    fn a_cell_takes_at_most_24_bytes_from_300_cubed_on() {
        for n in 300..=1000 {
            let bytes = |density, storage| bytes_a_cell(Form::OnePass, n, density, storage);
            let [medium, uniform] = [true, false].map(|density| bytes(density, Storage::Float32));
            assert!(medium <= 24.0, "{n} cubed: {medium}");
            // One coefficient less, which covers the user's columns.
            let columns = (n as f64 / (n + 40) as f64).powi(2);
            assert!(uniform <= medium - 4.0 * columns + 1e-3, "{n} cubed without density: {uniform}");
            let halved = bytes(true, Storage::Bits16);
            assert!(halved <= medium - 4.0 * columns + 1e-3, "{n} cubed in 16 bits: {halved}");
        }
    }
}
