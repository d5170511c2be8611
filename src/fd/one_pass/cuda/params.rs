//! The parameters of the kernels of a step.

use std::mem::offset_of;
use std::ops::Range;

use super::policy::MixingCube;
use super::tables::{AxisParams, COEFFICIENTS};
use crate::fd::grid::layout::Layout;
pub use crate::fd::grid::tile_table::GpuTile;
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::storage::Scale;
use crate::fd::survey::Shot;
use crate::fd::time_loop::launch::Address;

/// The zones of an axis, as `struct Zone` of the kernels.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Zone {
    pub middle: [i32; 2],
    pub near_end: i32,
    pub far_begin: i32,
}

/// A shot's own mixing coefficients around its source, as `struct Cube`. The default has no cells.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CubeParams {
    pub values: Address,
    pub begin: [i32; 3],
    pub size: [i32; 3],
}

/// The first parameter of a step, by value, as `struct OnePass`. An equation with one pressure has
/// no second one and two coefficients.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepParams {
    pub p: [Address; 2],
    pub next: [Address; 2],
    pub d: [Address; 2],
    pub velocity_old: [Address; 3],
    pub velocity_new: [Address; 3],
    pub split: [Address; 3],
    pub coefficients: [Address; COEFFICIENTS],
    pub axis: [AxisParams; 3],
    pub zone: [Zone; 3],
    pub tiles: Address,
    pub steps: [[u32; 2]; COEFFICIENTS],
    pub pitch: u32,
    pub plane: u32,
    pub slots: [u32; 2],
    pub pml: i32,
    pub unused: i32,
    /// Coefficients of the derivative.
    pub stencil: [f32; HALF_WIDTH],
    /// Of coefficients in 16 bits.
    pub scales: [Scale; COEFFICIENTS],
    pub cube: CubeParams,
}

/// The second parameter, as `struct Source`.
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

/// The last parameter, as `struct Receivers`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampleParams {
    pub first: Address,
    pub at: Address,
    pub trace: Address,
    /// 0 if none are taken.
    pub to: Address,
}

// As the kernels assert them.
const _: () = {
    assert!(size_of::<Zone>() == 16 && size_of::<GpuTile>() == 32 && size_of::<StepParams>() == 488);
    assert!(size_of::<SourceParams>() == 48 && size_of::<SampleParams>() == 32);
    assert!(offset_of!(StepParams, axis) == 152 && offset_of!(StepParams, tiles) == 344);
    assert!(
        offset_of!(StepParams, slots) == 392
            && offset_of!(StepParams, stencil) == 408
            && offset_of!(StepParams, cube) == 456
            && offset_of!(SourceParams, put) == 40
    );
};

impl CubeParams {
    /// `values`: the address of the values of both coefficients.
    pub fn new(cube: &MixingCube<'_>, values: Address) -> CubeParams {
        let of = |value: fn(&Range<usize>) -> usize| cube.cells.each_ref().map(|range| value(range) as i32);
        CubeParams { values, begin: of(|range| range.start), size: of(|range| range.len()) }
    }
}

/// The source of a shot. A step puts the next one's into the pressures that it writes, unless the
/// host reads these.
pub struct CudaSource {
    cell: [i32; 3],
    clean: Address,
}

impl CudaSource {
    /// `clean`: the address of four values.
    pub fn new(layout: &Layout, shot: &Shot, clean: Address) -> CudaSource {
        CudaSource { cell: shot.source.map(|i| (i + layout.pml) as i32), clean }
    }

    /// Returns the parameter of a step that reads the first or the second set of pressures. `there`: its
    /// source is in them; `put`: the address of the next step's amplitude, if the step puts that.
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
