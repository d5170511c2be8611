//! Parts of the grid that the wave has reached, so that blocks skip tiles at rest
//! (`kernels/activity.cuh`).
//!
//! Ahead of the wave all fields are exactly zero, as denormals are flushed. A pressure changes in a
//! step only if a pressure at most eight cells away is not zero. So each part of the grid has a
//! flag, which is set once one of its pressures is not zero. A block computes its tile if the flag
//! of a part within eight cells of the tile is set. It sets the flags of its tile's parts for the
//! next step. Flags are never cleared.
//!
//! A step reads one array of flags and writes the other, as for pressures, so all threads of a
//! block read the same. The parts do not depend on the shape of blocks, which may change during a
//! shot. Flags are float32 values among the fields of a shot, so a resumed shot has them. The flags
//! of the source's points are set from the start.
//!
//! A block that skips its tile adds the tile's cells to a counter of the shot. So a step that skips
//! none costs nothing more.

use crate::fd::grid::layout::Layout;
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::survey::{Shot, SourceKind};
use crate::fd::time_loop::launch::Address;

/// Cells of a part along x, y and z.
const PART: [usize; 3] = [16, 16, 32];

/// Most cells from the first point of a source to the last along z.
const APART: usize = 2;

/// Flags of a step, laid out as `struct Activity` of the kernels: those that it reads and those
/// that it sets.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ActivityParams {
    pub before: Address,
    pub after: Address,
    /// Counter of skipped cells, an `u64`.
    pub skipped: Address,
    /// Parts along x, y and z.
    pub n: [i32; 3],
    pub unused: i32,
}

// The kernels assert the same.
const _: () = assert!(size_of::<ActivityParams>() == 40);

/// Returns the number of parts along x, y and z.
fn parts(layout: &Layout) -> [usize; 3] {
    std::array::from_fn(|axis| layout.active(axis).len().div_ceil(PART[axis]))
}

/// Returns the number of flags of a step.
pub fn flags(layout: &Layout) -> usize {
    parts(layout).iter().product()
}

/// Returns the flags of a shot at its start.
pub fn at_start(layout: &Layout, shot: &Shot) -> Vec<f32> {
    let mut flags = vec![0.0; flags(layout)];
    let n = parts(layout);
    let mut set = |cell: [usize; 3]| {
        let [x, y, z] =
            std::array::from_fn(|axis| (cell[axis].saturating_sub(HALF_WIDTH) / PART[axis]).min(n[axis] - 1));
        flags[(y * n[0] + x) * n[2] + z] = 1.0;
    };
    match &shot.kind {
        SourceKind::Poles(poles) => poles.0.iter().for_each(|(cell, _)| set(*cell)),
        _ => {
            let [x, y, z] = shot.padded_source(layout.pml);
            [z, z + APART].into_iter().for_each(|z| set([x, y, z]));
        }
    }
    flags
}

impl ActivityParams {
    /// Returns the parameters of the steps that read array `from`, 0 or 1, of these flags.
    pub fn new(layout: &Layout, flags: [Address; 2], skipped: Address, from: usize) -> ActivityParams {
        let n = parts(layout).map(|n| n as i32);
        ActivityParams { before: flags[from], after: flags[1 - from], skipped, n, unused: 0 }
    }
}
