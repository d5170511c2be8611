//! How a sweep divides the grid: the zones of each axis, and tiles of several sizes.

use super::tiles::{Tile, tiles};
use crate::fd::grid::zones::{Ends, Zones};

/// The zones of the axes, and the tilings of a grid. All tilings give the same bits.
pub struct Partition {
    pub zones: [Zones; 3],
    pub ends: Ends,
    /// A shot begins with the first, unless it knows a faster one.
    pub tilings: Vec<Tiling>,
}

/// All tiles of one size.
pub struct Tiling {
    /// Rows along x of a tile, at most.
    pub rows: usize,
    pub tiles: Vec<Tile>,
}

impl Tiling {
    pub fn name(&self) -> String {
        format!("{} rows", self.rows)
    }
}

impl Partition {
    /// For so many threads, in tiles of at most so many rows along x and planes along y. Sizes that give the tiles of an
    /// earlier one are left out.
    pub fn new(zones: [Zones; 3], ends: Ends, threads: usize, sizes: &[[usize; 2]]) -> Partition {
        let mut tilings: Vec<Tiling> = Vec::new();
        for &[rows, planes] in sizes {
            let tiles = tiles(&zones, [rows, planes], threads);
            if tilings.iter().all(|other| other.tiles != tiles) {
                tilings.push(Tiling { rows, tiles });
            }
        }
        Partition { zones, ends, tilings }
    }

    /// Returns the rows along x of the widest tile.
    pub fn columns(&self) -> usize {
        let tiles = self.tilings.iter().flat_map(|tiling| &tiling.tiles);
        tiles.map(|tile| tile.sides[0].cells.len()).max().unwrap_or(0)
    }
}
