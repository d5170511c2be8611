//! Division of the grid for a sweep: the zones of each axis, and tiles of several sizes.

use super::tiles::{Tile, tiles, widest};
use crate::fd::grid::layout::Layout;
use crate::fd::grid::zones::{Ends, Zones};

/// Zones of the axes and tilings of a grid. All tilings give the same bits.
pub struct Partition {
    pub zones: [Zones; 3],
    pub ends: Ends,
    /// Tilings by size. A shot begins with the first, unless it knows a faster one.
    pub tilings: Vec<Tiling>,
    /// Rows along x of the widest tile.
    pub columns: usize,
}

/// All tiles of one size.
pub struct Tiling {
    /// Most rows along x of a tile.
    pub rows: usize,
    pub tiles: Vec<Tile>,
}

impl Partition {
    /// Divides the grid for `threads` threads. `sizes`: most rows along x and planes along y of a
    /// tile, for each tiling. Sizes that give the same tiles as an earlier one are left out.
    pub fn new(layout: &Layout, zones: [Zones; 3], threads: usize, sizes: &[[usize; 2]]) -> Partition {
        let mut tilings: Vec<Tiling> = Vec::new();
        for &[rows, planes] in sizes {
            let tiles = tiles(&zones, [rows, planes], threads);
            if tilings.iter().all(|other| other.tiles != tiles) {
                tilings.push(Tiling { rows, tiles });
            }
        }
        Partition { tilings, ..Partition::untiled(layout, zones, sizes) }
    }

    /// Returns the division without tiles, which allocates nothing. A thread's scratch has the same
    /// length as with the tiles of any number of threads.
    pub fn untiled(layout: &Layout, zones: [Zones; 3], sizes: &[[usize; 2]]) -> Partition {
        let columns = sizes.iter().map(|&[rows, _]| widest(&zones[0], rows)).max().unwrap_or(0);
        Partition { ends: Ends::new(layout, &zones[2]), zones, tilings: Vec::new(), columns }
    }
}
