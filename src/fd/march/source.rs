//! Parameters of a step for its source, the medium around it, and its samples.

use std::mem::offset_of;
use std::ops::Range;

use crate::fd::anisotropy::IsotropicBall;
use crate::fd::grid::layout::Layout;
use crate::fd::survey::Shot;
use crate::fd::time_loop::launch::Address;

/// Second parameter of a step, laid out as `struct Source` of the kernels.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SourceParams {
    pub clean: Address,
    pub next_clean: Address,
    pub value: Address,
    pub cell: [i32; 3],
    pub there: i32,
    pub put: i32,
    pub unused: i32,
}

/// A shot's own E and S around its source, laid out as `struct Cube` of the kernels. The default has
/// no cells.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CubeParams {
    pub values: Address,
    pub begin: [i32; 3],
    pub size: [i32; 3],
}

impl CubeParams {
    /// Makes the parameters of a ball. `values`: the address of its values.
    pub fn new(ball: Option<&IsotropicBall>, values: Address) -> CubeParams {
        let Some(IsotropicBall { cells, .. }) = ball else { return CubeParams::default() };
        let of = |value: fn(&Range<usize>) -> usize| cells.each_ref().map(|range| value(range) as i32);
        CubeParams { values, begin: of(|range| range.start), size: of(|range| range.len()) }
    }
}

/// Last parameter of a step, laid out as `struct Receivers` of the kernels.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampleParams {
    pub first: Address,
    pub at: Address,
    pub trace: Address,
    /// Address of the samples; 0 if the step records none.
    pub to: Address,
}

// The kernels assert the same.
const _: () = {
    assert!(size_of::<SourceParams>() == 48 && size_of::<SampleParams>() == 32);
    assert!(offset_of!(SourceParams, put) == 40);
};

/// Number of pressures at the source's points without the source, which [`CudaSource`] needs.
pub const CLEAN: usize = 4;

/// Source of a shot. A step injects the next step's source into the pressures that it writes,
/// unless the host reads these.
pub struct CudaSource {
    cell: [i32; 3],
    clean: Address,
}

impl CudaSource {
    /// `clean`: the address of [`CLEAN`] values.
    pub fn new(layout: &Layout, shot: &Shot, clean: Address) -> CudaSource {
        CudaSource { cell: shot.padded_source(layout.pml).map(|i| i as i32), clean }
    }

    /// Returns the parameter of a step. `from`: 0 or 1, the set of pressures that it reads.
    /// `there`: the step's source is in these. `put`: address of the next step's amplitude, if the
    /// step injects that.
    pub fn points(&self, from: usize, there: bool, put: Option<Address>) -> SourceParams {
        SourceParams {
            clean: self.clean + 8 * (from % 2) as u64,
            next_clean: self.clean + 8 * (1 - from % 2) as u64,
            value: put.unwrap_or(0),
            cell: self.cell,
            there: i32::from(there),
            put: i32::from(put.is_some()),
            unused: 0,
        }
    }
}
