//! CUDA kernels for a field of any equation (`kernels/field.cu`): their parameters and launches.

use std::mem::offset_of;

use super::launch::{Address, Launch};
use crate::fd::grid::layout::Layout;

/// PTX of the kernels, for any GPU from Kepler on; drivers from 470 on accept it.
pub const PTX: &str = include_str!("../../../kernels/ptx/field.ptx");

/// First parameter of each kernel, by value, laid out as `struct Field` of the kernels.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Field {
    /// Address of index 0 of row 0.
    pub first: Address,
    /// Values from row to row along x.
    pub pitch: i64,
    /// Values from row to row along y.
    pub plane: i64,
    /// All cells along x, y, z.
    pub padded: [i32; 3],
    /// The user's cells.
    pub inner: [i32; 3],
    pub pml: i32,
    pub unused: i32,
}

// The kernels assert the same.
const _: () = {
    assert!(size_of::<Field>() == 56 && offset_of!(Field, plane) == 16);
    assert!(offset_of!(Field, inner) == 36 && offset_of!(Field, pml) == 48);
};

/// Cells along z and along x of a block.
const TILE: [usize; 2] = [32, 8];
/// Planes that a block processes one after the other.
const DEPTH: usize = 16;

impl Field {
    /// Makes the parameter of the field that begins at an address, in the layout of a GPU.
    pub fn new(layout: &Layout, begin: Address) -> Field {
        Field {
            first: begin + 4 * layout.lead as u64,
            pitch: layout.pitch as i64,
            plane: layout.stride(1) as i64,
            padded: layout.padded.map(|n| n as i32),
            inner: layout.inner.map(|n| n as i32),
            pml: layout.pml as i32,
            unused: 0,
        }
    }

    /// Returns the launch that copies the user's cells. Arguments: the field, the address of the
    /// copy.
    pub fn snapshot(&self) -> Launch {
        blocks_of_tiles("field_snapshot", self.inner)
    }

    /// Returns the launch that finds the largest magnitude. Arguments: the field, and the address
    /// of a `u32` that is zero. It receives the bits of the magnitude, those of infinity or more if
    /// a value is not finite.
    pub fn peak(&self) -> Launch {
        blocks_of_tiles("field_peak", self.padded)
    }
}

/// Returns the launch that transposes rows of samples, at most 32, to traces. Arguments: the
/// addresses of rows and traces, and the number of traces as an `i32`.
pub fn traces(rows: usize, traces: usize) -> Launch {
    let each = 256 / rows;
    Launch {
        kernel: "field_traces",
        grid: [traces.div_ceil(each) as u32, 1, 1],
        block: [rows as u32, each as u32, 1],
    }
}

/// Returns the launch that adds a source to a field in `cells` cells. Arguments: the addresses of
/// the field's array, of the positions in it, of the factors, and of the value.
pub fn inject(cells: usize) -> Launch {
    Launch { kernel: "field_inject", grid: [1; 3], block: [cells as u32, 1, 1] }
}

fn blocks_of_tiles(kernel: &'static str, n: [i32; 3]) -> Launch {
    let [x, y, z] = [TILE[1], DEPTH, TILE[0]];
    let blocks = |axis: usize, each: usize| (n[axis] as usize).div_ceil(each) as u32;
    Launch {
        kernel,
        grid: [blocks(2, z), blocks(0, x), blocks(1, y)],
        block: [TILE[0] as u32, TILE[1] as u32, 1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CUDA accepts 65535 blocks along y and z of a launch, and 2³¹ - 1 along x.
    #[test]
    fn the_largest_grids_have_few_enough_blocks() {
        let layout = Layout::new([100_000; 3], 1000).on_gpu();
        let field = Field::new(&layout, 0);
        for launch in [field.snapshot(), field.peak()] {
            assert!(launch.grid[1].max(launch.grid[2]) <= 65_535, "{launch:?}");
        }
    }
}
