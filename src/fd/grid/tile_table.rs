//! Tile table of a GPU: the division of a step into tiles for blocks, made once a plan.
//!
//! A block has a tile in x and z and marches along y. Tiles lie on a raster, whose rows along z
//! begin on lines of 128 bytes. A tile is plain along an axis if all its cells are updated and no
//! PML velocity of that axis is stored there. Along y a tile is either in the middle or beside it.
//! All tiles of [uniform](Zones::uniform) zones are plain. Most tiles are plain along all three
//! axes.
//!
//! A GPU takes tiles in the order of the table. The longest come first, so the last to end are
//! short. A simulation of the blocks that the GPU runs at a time chooses the number of pieces of
//! the middle along y.
//!
//! The CPU has other tiles, because its rows along z are whole: they have both ends and the middle.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use super::layout::Layout;
use super::zones::{Term, Zones};
use crate::fd::stencil::HALF_WIDTH;

/// Cells of a tile along z.
pub const TILE_Z: usize = 32;
/// Cost of a plane of a plain tile, and the extra cost for each axis along which a tile is not
/// plain, in counted instructions (`docs/performance.md`).
const PLAIN: usize = 10;
const MORE: [usize; 3] = [8, 3, 8];
/// Cost of a march before its first plane, in planes of a plain tile: it reads only the pressure,
/// of fourteen planes.
const BEGINNING: usize = 8;
/// Least planes of a tile in the middle, if the middle has as many.
const FEWEST: usize = 16;
/// Most pieces of the middle along y.
const PIECES: usize = 16;

/// Tile of a block, laid out as `struct Tile` of the kernels: rows from `x`, cells from `z`, planes
/// `y` to `end`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GpuTile {
    pub x: i32,
    pub z: i32,
    pub y: i32,
    pub end: i32,
    /// Bit for each axis along which the tile is not plain.
    pub kind: i32,
    /// Planes of velocities along y that the tile stores for the next step, up to `keep_end`.
    pub keep: i32,
    pub keep_end: i32,
    /// Number of updated cells.
    pub cells: u32,
}

impl GpuTile {
    /// Returns the tile's cost in counted instructions.
    fn cost(&self) -> usize {
        let more = (0..3).filter(|axis| self.kind >> axis & 1 == 1).map(|axis| MORE[axis]);
        (self.end - self.y) as usize * (PLAIN + more.sum::<usize>()) + BEGINNING * PLAIN
    }
}

/// Tiles in the order in which they are to begin.
#[derive(Debug, Clone, PartialEq)]
pub struct TileTable {
    pub tiles: Vec<GpuTile>,
    /// Position in the table of each tile of the raster, in the order y, x, z.
    places: Vec<usize>,
    /// Planes of the tiles along y, in the order of the raster.
    depths: Vec<Range<usize>>,
    /// Tiles along x and along z.
    raster: [usize; 2],
    /// Rows of a tile along x.
    rows: usize,
}

impl TileTable {
    /// Makes the table for tiles of `rows` rows along x on a GPU that runs `at_once` blocks at a
    /// time.
    pub fn new(layout: &Layout, zones: &[Zones; 3], rows: usize, at_once: usize) -> TileTable {
        let most = (zones[1].middle.len() / FEWEST).clamp(1, PIECES);
        let tried = (2..=most).map(|pieces| TileTable::in_pieces(layout, zones, rows, pieces));
        let one = TileTable::in_pieces(layout, zones, rows, 1);
        let first = (one.longest(at_once), one);
        let least = |best: (usize, TileTable), table: TileTable| {
            let longest = table.longest(at_once);
            if longest < best.0 { (longest, table) } else { best }
        };
        tried.fold(first, least).1
    }

    /// Makes the table with the middle along y in `pieces` pieces.
    fn in_pieces(layout: &Layout, zones: &[Zones; 3], rows: usize, pieces: usize) -> TileTable {
        let active = [0, 1, 2].map(|axis| layout.active(axis));
        let raster = [active[0].len().div_ceil(rows), active[2].len().div_ceil(TILE_Z)];
        let most = zones[1].middle.len().div_ceil(pieces).max(FEWEST);
        let near = active[1].start..zones[1].middle.start;
        let far = zones[1].middle.end..active[1].end;
        let beside = [cut(&near, most), cut(&far, most)].concat();
        let depths = [beside.clone(), cut(&zones[1].middle, most)].concat();
        let is_plain = |zones: &Zones, i: usize| zones.term(i) == Term::Middle && zones.slot(i).is_none();
        let plain = |axis: usize, mut cells: Range<usize>| {
            zones[axis].velocities() == 0
                || cells.end <= active[axis].end && cells.all(|i| is_plain(&zones[axis], i))
        };
        let updated = |axis: usize, cells: Range<usize>| cells.end.min(active[axis].end) - cells.start;
        let mut tiles = Vec::with_capacity(depths.len() * raster[0] * raster[1]);
        for (number, y) in depths.iter().enumerate() {
            let keep = if number < beside.len() { stored(&zones[1], y) } else { 0..0 };
            for x in (0..raster[0]).map(|tile| active[0].start + tile * rows) {
                for z in (0..raster[1]).map(|tile| active[2].start + tile * TILE_Z) {
                    let not_plain = [!plain(0, x..x + rows), number < beside.len(), !plain(2, z..z + TILE_Z)];
                    let kind = not_plain.into_iter().rev().fold(0, |bits, bit| bits << 1 | i32::from(bit));
                    let cells = updated(0, x..x + rows) * y.len() * updated(2, z..z + TILE_Z);
                    let cells = cells as u32;
                    let [x, z, y, end, keep, keep_end] =
                        [x, z, y.start, y.end, keep.start, keep.end].map(|i| i as i32);
                    tiles.push(GpuTile { x, z, y, end, kind, keep, keep_end, cells });
                }
            }
        }
        let mut order: Vec<usize> = (0..tiles.len()).collect();
        order.sort_by_key(|&number| Reverse(tiles[number].cost()));
        let mut places = vec![0; tiles.len()];
        order.iter().enumerate().for_each(|(place, &number)| places[number] = place);
        let tiles = order.into_iter().map(|number| tiles[number]).collect();
        TileTable { tiles, places, depths, raster, rows }
    }

    /// Returns the cost until the last block ends. At most `at_once` blocks run at a time, and each
    /// place takes the next tile as soon as it is free.
    fn longest(&self, at_once: usize) -> usize {
        let mut ends = BinaryHeap::from(vec![Reverse(0); at_once.clamp(1, self.tiles.len().max(1))]);
        for tile in &self.tiles {
            if let Some(mut first) = ends.peek_mut() {
                first.0 += tile.cost();
            }
        }
        ends.into_iter().map(|Reverse(end)| end).max().unwrap_or(0)
    }

    /// Returns the number of the tile of an updated cell.
    pub fn of(&self, [x, y, z]: [usize; 3]) -> Option<usize> {
        let depth = self.depths.iter().position(|depth| depth.contains(&y))?;
        let [x, z] = [x.checked_sub(HALF_WIDTH)? / self.rows, z.checked_sub(HALF_WIDTH)? / TILE_Z];
        let [along_x, along_z] = self.raster;
        (x < along_x && z < along_z).then(|| self.places[(depth * along_x + x) * along_z + z])
    }
}

/// Returns the most tiles of a table. Each of the three ranges along y has up to one piece more
/// than whole ones.
pub fn most(layout: &Layout, rows: usize) -> usize {
    let [x, y, z] = [0, 1, 2].map(|axis| layout.active(axis).len());
    x.div_ceil(rows) * z.div_ceil(TILE_Z) * (y / FEWEST + 3)
}

/// Divides a range into pieces of at most `most` indices.
fn cut(range: &Range<usize>, most: usize) -> Vec<Range<usize>> {
    let pieces = range.len().div_ceil(most);
    let at = |piece: usize| range.start + range.len() * piece / pieces;
    (0..pieces).map(|piece| at(piece)..at(piece + 1)).collect()
}

/// Returns the velocities along y that a tile beside the middle stores: those of its planes, and
/// those beyond them that only reach into the middle. One tile stores each of them.
fn stored(zones: &Zones, y: &Range<usize>) -> Range<usize> {
    let middle = &zones.middle;
    let near_end = (middle.start + HALF_WIDTH - 1).min(zones.near.end);
    let begin = if y.start == middle.end && !middle.is_empty() {
        near_end.max(middle.end - HALF_WIDTH)
    } else {
        y.start
    };
    begin..if y.end == middle.start { near_end } else { y.end }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table_of(n: [usize; 3], pml: usize, rows: usize, at_once: usize) -> (Layout, [Zones; 3], TileTable) {
        let layout = Layout::new(n, pml).on_gpu();
        let zones = [0, 1, 2].map(|axis| Zones::new(&layout, axis));
        let table = TileTable::new(&layout, &zones, rows, at_once);
        (layout, zones, table)
    }

    const CASES: [([usize; 3], usize); 6] = [
        ([1, 1, 1], 8),
        ([9, 9, 9], 8),
        ([20, 13, 150], 9),
        ([90, 70, 140], 20),
        ([33, 200, 64], 37),
        ([12, 30, 5], 20),
    ];

    #[test]
    fn tiles_cover_every_updated_cell_once() {
        for (number, (n, pml)) in CASES.into_iter().chain(CASES).enumerate() {
            for (rows, at_once) in [(8, 1), (16, 264), (16, 10_000)] {
                let (layout, _, mut table) = table_of(n, pml, rows, at_once);
                if number >= CASES.len() {
                    let zones = [0, 1, 2].map(|axis| Zones::uniform(&layout, axis));
                    table = TileTable::new(&layout, &zones, rows, at_once);
                    assert!(table.tiles.iter().all(|tile| tile.kind == 0));
                }
                assert!(table.tiles.len() <= most(&layout, rows));
                let mut seen = vec![0; layout.cells()];
                let [nx, ny, nz] = layout.padded;
                for (number, tile) in table.tiles.iter().enumerate() {
                    let [x, y, z, end] = [tile.x, tile.y, tile.z, tile.end].map(|i| i as usize);
                    let within =
                        |range: Range<usize>, axis| range.start..range.end.min(layout.active(axis).end);
                    let sides = [within(x..x + rows, 0), y..end, within(z..z + TILE_Z, 2)];
                    assert_eq!(
                        sides.map(|side| side.len()).into_iter().product::<usize>(),
                        tile.cells as usize
                    );
                    for y in y..end {
                        for x in within(x..x + rows, 0) {
                            for z in within(z..z + TILE_Z, 2) {
                                seen[(y * nx + x) * nz + z] += 1;
                                assert_eq!(table.of([x, y, z]), Some(number));
                            }
                        }
                    }
                }
                for (cell, times) in seen.into_iter().enumerate() {
                    let at = [cell / nz % nx, cell / nz / nx, cell % nz];
                    let active = (0..3).all(|axis| layout.active(axis).contains(&at[axis]));
                    assert_eq!(times, usize::from(active), "{n:?}, {at:?} of {ny}");
                }
            }
        }
    }

    /// A plain tile reads no stored velocity and stores none.
    #[test]
    fn every_stored_velocity_has_one_tile() {
        for (n, pml) in CASES {
            for (rows, at_once) in [(8, 1), (16, 264), (8, 10_000)] {
                let (layout, zones, table) = table_of(n, pml, rows, at_once);
                let first = |tile: &GpuTile| (tile.x, tile.z) == (table.tiles[0].x, table.tiles[0].z);
                let mut stored = vec![0; layout.padded[1]];
                for tile in &table.tiles {
                    let [x, z] = [tile.x as usize, tile.z as usize];
                    for (axis, cells) in [(0, x..x + rows), (2, z..z + TILE_Z)] {
                        let plain = tile.kind >> axis & 1 == 0;
                        assert!(!plain || cells.clone().all(|i| zones[axis].middle.contains(&i)));
                        assert!(!plain || cells.clone().all(|i| zones[axis].slot(i).is_none()));
                    }
                    for y in tile.y as usize..tile.end as usize {
                        assert_eq!(zones[1].middle.contains(&y), tile.kind & 2 == 0);
                    }
                    let keep = tile.keep as usize..tile.keep_end as usize;
                    assert!(keep.is_empty() || keep.start + HALF_WIDTH >= tile.y as usize);
                    assert!(keep.is_empty() || keep.end < tile.end as usize + HALF_WIDTH);
                    keep.filter(|_| first(tile)).for_each(|y| stored[y] += 1);
                }
                // All velocities that a term beside the middle reads are stored once.
                for y in layout.active(1).filter(|y| zones[1].term(*y) != Term::Middle) {
                    for tap in (y - HALF_WIDTH..y + HALF_WIDTH).filter(|tap| layout.active(1).contains(tap)) {
                        assert_eq!(stored[tap], 1, "{n:?}, layer {pml}: {tap} for {y}");
                        assert!(zones[1].slot(tap).is_some());
                    }
                }
                assert!(stored.iter().all(|times| *times <= 1));
            }
        }
    }

    /// The last tiles are short, so all places of a GPU end at about the same time.
    #[test]
    fn places_of_a_gpu_end_together() {
        for (n, rows, at_once) in
            [(128, 16, 396), (300, 16, 396), (300, 32, 264), (600, 16, 396), (600, 32, 216)]
        {
            let (_, _, table) = table_of([n; 3], 20, rows, at_once);
            assert!(table.tiles.is_sorted_by_key(|tile| Reverse(tile.cost())));
            let all: usize = table.tiles.iter().map(GpuTile::cost).sum();
            let share = all as f64 / (at_once * table.longest(at_once)) as f64;
            assert!(share > if n < 300 { 0.75 } else { 0.88 }, "{n} cubed, {rows} rows: {share}");
        }
    }

    #[test]
    fn most_of_a_large_grid_is_plain() {
        let (_, _, table) = table_of([600; 3], 20, 32, 264);
        let cells =
            |tiles: &mut dyn Iterator<Item = &GpuTile>| tiles.map(|tile| tile.end - tile.y).sum::<i32>();
        let plain = cells(&mut table.tiles.iter().filter(|tile| tile.kind == 0));
        let share = f64::from(plain) / f64::from(cells(&mut table.tiles.iter()));
        assert!(share > 0.74, "{share}");
        assert!(table.tiles.len() > 4 * 264);
    }
}
