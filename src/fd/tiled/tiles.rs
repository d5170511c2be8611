//! Division of the grid into tiles. A tile stores either all its velocities along x, or it
//! eliminates all, and so along y.

use std::ops::Range;

use crate::fd::grid::layout::cut;
use crate::fd::grid::zones::Zones;
use crate::fd::stencil::HALF_WIDTH;

/// Most rows that a sweep computes together.
pub const ROWS_PER_BLOCK: usize = 4;

/// Indices along x, y and z.
pub type Extent = [Range<usize>; 3];

/// Box of rows along z that one thread sweeps through.
#[derive(Debug, Clone, PartialEq)]
pub struct Tile {
    /// Extents along x and y.
    pub sides: [Side; 2],
}

/// Extent of a tile along an axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Side {
    /// Indices of the pressures that the tile updates.
    pub cells: Range<usize>,
    /// Whether the tile stores PML velocities along the axis.
    pub pml: bool,
    /// Indices of the PML velocities that this tile writes: its own, and those in the middle that
    /// its terms read.
    pub own: Range<usize>,
}

/// Least tiles for each thread, if the grid has as many. Threads that wait for the last tiles then
/// wait for a small part of a step.
const ENOUGH: usize = 4;
/// Fewest planes that are worth the computation of a tile's first fluxes.
const SHORT: usize = 16;

/// Returns the tiles for `threads` threads, the largest first. A tile has at most `rows` rows along
/// x and `planes` planes along y. The ends of y are not cut: one tile advances a PML velocity of y.
pub fn tiles(zones: &[Zones; 3], [rows, mut planes]: [usize; 2], threads: usize) -> Vec<Tile> {
    let x = sides(&zones[0], [rows; 2]);
    let mut y = sides(&zones[1], [planes, usize::MAX]);
    while x.len() * y.len() < ENOUGH * threads && planes >= 2 * SHORT {
        planes /= 2;
        y = sides(&zones[1], [planes, usize::MAX]);
    }
    let row = |y: &Side| x.iter().map(|x| Tile { sides: [x.clone(), y.clone()] }).collect::<Vec<_>>();
    let mut tiles: Vec<Tile> = y.iter().flat_map(row).collect();
    tiles.sort_by_key(|tile| {
        std::cmp::Reverse(tile.sides.iter().map(|side| side.cells.len()).product::<usize>())
    });
    tiles
}

/// Returns the ends and the middle of an axis, with [`Side::pml`] for each.
fn parts(Zones { near, far, middle, .. }: &Zones) -> [(Range<usize>, bool); 3] {
    [(near.start..middle.start, true), (middle.clone(), false), (middle.end..far.end, true)]
}

/// Returns the most cells of a tile along an axis.
pub fn widest(zones: &Zones, most: usize) -> usize {
    let cells = parts(zones).into_iter().flat_map(|(zone, _)| cut(zone, most));
    cells.map(|cells| cells.len()).max().unwrap_or(0)
}

/// Divides an axis. `most`: cells of a side in the middle and at the ends.
fn sides(zones: &Zones, most: [usize; 2]) -> Vec<Side> {
    let middle = &zones.middle;
    // Velocities in the middle that the terms of either side read. In a narrow middle, those that
    // both read belong to the far side.
    let from_far = (middle.end - HALF_WIDTH).max(middle.start);
    let from_near = (middle.start + HALF_WIDTH - 1).min(from_far);
    let mut sides = Vec::new();
    for (zone, pml) in parts(zones) {
        for cells in cut(zone, most[usize::from(pml)]) {
            let begin = if pml && cells.start == middle.end { from_far } else { cells.start };
            let end = if pml && cells.end == middle.start { from_near } else { cells.end };
            sides.push(Side { cells, pml, own: begin..end });
        }
    }
    sides
}

impl Tile {
    /// Returns the part of an extent whose rows are the tile's, if there is one.
    pub fn part_of(&self, [x, y, z]: &Extent) -> Option<Extent> {
        let common = |axis: usize, range: &Range<usize>| {
            let cells = &self.sides[axis].cells;
            range.start.max(cells.start)..range.end.min(cells.end)
        };
        let (x, y) = (common(0, x), common(1, y));
        (!x.is_empty() && !y.is_empty()).then(|| [x, y, z.clone()])
    }
}

impl Side {
    /// Returns the part that covers a range, in whole groups of rows. The range contains some of
    /// the cells.
    pub fn within(&self, range: &Range<usize>) -> Side {
        let (first, end) = (self.cells.start, self.cells.end);
        let begin = first + range.start.saturating_sub(first) / ROWS_PER_BLOCK * ROWS_PER_BLOCK;
        let until = end.min(first + (range.end - first).next_multiple_of(ROWS_PER_BLOCK));
        let own_begin = if begin == first { self.own.start } else { begin };
        let own_end = if until == end { self.own.end } else { until };
        Side { cells: begin..until, pml: self.pml, own: own_begin..own_end }
    }

    /// Returns the indices of the fluxes that the tile's terms read.
    pub fn fluxes(&self) -> Range<usize> {
        self.cells.start - HALF_WIDTH..self.cells.end + HALF_WIDTH - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fd::grid::layout::Layout;

    #[test]
    fn many_threads_have_enough_tiles() {
        let layout = Layout::new([200; 3], 20);
        let zones = [0, 1, 2].map(|axis| Zones::new(&layout, axis));
        for (threads, least) in [(1, 4), (8, 32), (16, 64), (24, 96)] {
            let tiles = tiles(&zones, [32, 64], threads);
            assert!(tiles.len() >= least, "{threads} threads: {}", tiles.len());
            let cells = |tile: &Tile| tile.sides.iter().map(|side| side.cells.len()).product::<usize>();
            assert_eq!(tiles.iter().map(cells).sum::<usize>(), 232 * 232);
        }
        let [few, many] = [2, 1000].map(|threads| tiles(&zones, [32, 64], threads));
        let longest = |tiles: &[Tile]| tiles.iter().map(|tile| tile.sides[1].cells.len()).max();
        assert_eq!([longest(&few), longest(&many)], [Some(64), Some(20)]);
    }

    #[test]
    fn every_row_and_every_kept_velocity_has_one_tile() {
        for (pml, n) in [(8, 1), (8, 8), (8, 9), (13, 31), (20, 60), (37, 25)] {
            let layout = Layout::new([n; 3], pml);
            let zones = [0, 1, 2].map(|axis| Zones::new(&layout, axis));
            for most in [32, 1, 7, 1000] {
                let sides = sides(&zones[0], [most; 2]);
                let cells: Vec<_> = sides.iter().flat_map(|side| side.cells.clone()).collect();
                assert_eq!(cells, layout.active(0).collect::<Vec<_>>());
                let damped: Vec<_> = sides.iter().filter(|side| side.pml).collect();
                let mut own: Vec<_> = damped.iter().flat_map(|side| side.own.clone()).collect();
                own.sort_unstable();
                assert!(own.windows(2).all(|pair| pair[0] < pair[1]), "{n}, {pml}: {own:?}");
                let needed = damped.iter().flat_map(|side| side.fluxes());
                for i in needed.filter(|i| layout.active(0).contains(i)) {
                    assert!(own.binary_search(&i).is_ok() && zones[0].slot(i).is_some(), "{n}, {pml}, {i}");
                }
                for side in &sides {
                    assert!(side.own.start >= side.fluxes().start && side.own.end <= side.fluxes().end);
                    assert!(side.cells.clone().all(|i| zones[0].middle.contains(&i) != side.pml));
                }
            }
        }
    }
}
