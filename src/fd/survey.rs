//! What is to be shot: source, receivers, time axis, snapshots.

use super::wavelet::Wavelet;

/// Where the pressure is recorded.
#[derive(Debug, Clone, PartialEq)]
pub enum Receivers {
    /// Every `every[0]`-th cell in x and `every[1]`-th in y of the plane at depth index `iz`,
    /// from cell 0; traces in the order `[iy][ix]`.
    Plane { iz: usize, every: [usize; 2] },
    /// Cells (x, y, z), in the order of the traces.
    List(Vec<[usize; 3]>),
}

/// One shot. Cells are counted from 0 in the model's grid.
#[derive(Debug, Clone, PartialEq)]
pub struct Shot {
    /// Upper, negative pole of the vertical dipole; the positive one is two cells deeper.
    pub source: [usize; 3],
    pub wavelet: Wavelet,
    /// Factor on the wavelet; 10000 in the old kernel.
    pub amplitude: f32,
    /// Steps to compute.
    pub nt: usize,
    pub receivers: Receivers,
    /// Every how many steps a sample is kept, from step 0.
    pub record_every: usize,
    /// Every how many steps the field over the grid is handed out, from step 0.
    pub snapshot_every: Option<usize>,
    /// Samples before this count are set to zero, one count a trace of [`Shot::receivers`].
    pub mute: Option<Vec<usize>>,
}

/// The record of a shot: `[trace][sample]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Gather {
    pub traces: usize,
    pub samples: usize,
    pub data: Vec<f32>,
}
