//! Tiles of a plan's grid, and the launches over them.
//!
//! The code here is independent of a GPU. Each step is one launch of [`TilePlan::step`], after one
//! of [`TilePlan::before`] if there is such a kernel. [`TilePlan::source`] precedes a step whose
//! source is not yet in the pressures.

use super::tables::Tables;
use crate::error::Result;
use crate::fd::grid::tile_table::TileTable;
use crate::fd::host_memory::{collected, reserved};
use crate::fd::survey::Receivers;
use crate::fd::time_loop::launch::Launch;

/// Tiles and launches that all shots of a plan on one kind of GPU share.
pub struct TilePlan {
    pub tables: Tables,
    pub table: TileTable,
}

/// Warps of a block; each half of one computes two rows of a tile along x.
const WARPS: usize = 4;
/// Rows of a tile along x.
pub const TILE_ROWS: usize = 4 * WARPS;
/// Threads of a block.
pub const THREADS: usize = 32 * WARPS;

impl TilePlan {
    /// Makes the plan for a GPU that runs `at_once` blocks at a time.
    pub fn new(tables: Tables, at_once: usize) -> TilePlan {
        TilePlan { table: TileTable::new(&tables.layout, &tables.zones, TILE_ROWS, at_once), tables }
    }

    /// Returns the receivers, sorted by tile: the number of each tile's first receiver, positions
    /// counted from index 0 of row 0, and trace numbers.
    pub fn receivers(&self, receivers: &Receivers) -> Result<(Vec<i32>, Vec<u32>, Vec<i32>)> {
        let layout = &self.tables.layout;
        let place = |(trace, cell): (usize, [usize; 3])| {
            let cell = cell.map(|i| i + layout.pml);
            let at = (layout.at(cell) - layout.lead) as u32;
            (self.table.of(cell).unwrap_or(0), at, trace as i32)
        };
        let what = "the receivers of a shot";
        let mut all = reserved(receivers.count(layout.inner), what)?;
        all.extend(receivers.cells(layout.inner).enumerate().map(place));
        all.sort_unstable_by_key(|(tile, _, trace)| (*tile, *trace));
        let before = |number: usize| all.partition_point(|(tile, ..)| *tile < number) as i32;
        let first = collected((0..self.table.tiles.len() + 1).map(before), what)?;
        let places = collected(all.iter().map(|(_, at, _)| *at), what)?;
        Ok((first, places, collected(all.iter().map(|(.., trace)| *trace), what)?))
    }

    /// Returns the launch of a kernel with a block for each tile.
    pub fn launch(&self, kernel: &'static str) -> Launch {
        let block = [32, WARPS as u32, 1];
        Launch { kernel, grid: [self.table.tiles.len() as u32, 1, 1], block }
    }

    /// Returns the launch that injects a source.
    pub fn source(&self) -> Launch {
        Launch { kernel: self.tables.kernels.source, grid: [1, 1, 1], block: [2, 1, 1] }
    }
}
