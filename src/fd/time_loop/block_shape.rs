//! Shapes of thread blocks on a GPU.

/// A shape: so many warps, each half of which has so many rows of a tile along x. All shapes compute the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockShape {
    /// As users call it: warps x rows, and what is special about it.
    pub name: &'static str,
    pub warps: usize,
    pub rows: usize,
    /// The lowest compute capability of GPUs that run it.
    pub since: (u32, u32),
}

/// Kepler, the oldest GPUs with kernels.
const ANY: (u32, u32) = (3, 5);

/// The shapes of float32 coefficients: first the default, last those for newer GPUs.
pub const SHAPES: [BlockShape; 3] = [
    BlockShape { name: "4x2", warps: 4, rows: 2, since: ANY },
    BlockShape { name: "4x4", warps: 4, rows: 4, since: ANY },
    BlockShape { name: "4x2_async", warps: 4, rows: 2, since: (8, 0) },
];

/// The shape of 16-bit coefficients.
pub const OF_16_BITS: BlockShape = BlockShape { name: "4x2_16_bit", warps: 4, rows: 2, since: ANY };

impl BlockShape {
    /// Returns those of [`SHAPES`] that a GPU of a compute capability runs.
    pub fn on(capability: Option<(u32, u32)>) -> &'static [BlockShape] {
        BlockShape::among(&SHAPES, capability)
    }

    /// Returns those of the first of [`SHAPES`] that a GPU of a compute capability runs.
    pub fn among(shapes: &'static [BlockShape], capability: Option<(u32, u32)>) -> &'static [BlockShape] {
        let runs = |shape: &BlockShape| shape.since <= capability.unwrap_or(ANY);
        &shapes[..shapes.partition_point(runs)]
    }

    /// Returns the rows of a tile along x.
    pub fn tile_rows(self) -> usize {
        2 * self.warps * self.rows
    }

    /// Returns the number of threads of a block.
    pub fn threads(self) -> usize {
        32 * self.warps
    }
}
