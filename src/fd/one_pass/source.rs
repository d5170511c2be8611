//! The source of a shot: points of one column, which only the fluxes of a step see.

use std::ops::Range;

use super::tiles::Tile;
use crate::backend::cpu::Rows;
use crate::fd::grid::layout::Layout;

/// A point of the source.
struct Point {
    /// Position in a field.
    at: usize,
    weight: f32,
    /// The pressures without the source.
    without: [f32; 2],
}

/// Puts the source into the pressures before a step; the step continues from the pressures without it.
pub struct SourceInjector {
    /// The row's indices along x and y.
    row: [usize; 2],
    /// From the first point's index along z to the last's.
    depths: Range<usize>,
    points: Vec<Point>,
}

impl SourceInjector {
    /// `cell`: the user's cell; `points`: cells below it, and factors.
    pub fn new(layout: &Layout, cell: [usize; 3], points: &[(usize, f32)]) -> SourceInjector {
        let [x, y, z] = cell.map(|i| i + layout.pml);
        let deepest = points.iter().map(|(depth, _)| *depth).max().unwrap_or(0);
        let point = |&(depth, weight): &(usize, f32)| Point {
            at: layout.at([x, y, z + depth]),
            weight,
            without: [0.0; 2],
        };
        SourceInjector { row: [x, y], depths: z..z + deepest + 1, points: points.iter().map(point).collect() }
    }

    /// Puts a step's source into the pressures that the step starts from.
    ///
    /// # Safety
    /// The fields have the injector's layout, and no other thread uses them meanwhile.
    pub unsafe fn put<'a>(&mut self, pressures: impl Iterator<Item = Rows<'a>>, value: f32) {
        for (number, p) in pressures.enumerate() {
            for Point { at, weight, without } in &mut self.points {
                // SAFETY: within the field, by its making; alone, by the caller's promise.
                let cell = unsafe { &mut p.write(*at, 1)[0] };
                without[number] = *cell;
                *cell += *weight * value;
            }
        }
    }

    /// Returns the cells of the points if they are in a tile.
    pub fn extent(&self, tile: &Tile) -> Option<[Range<usize>; 3]> {
        let [x, y] = self.row;
        let inside = tile.sides[0].cells.contains(&x) && tile.sides[1].cells.contains(&y);
        inside.then(|| [x..x + 1, y..y + 1, self.depths.clone()])
    }

    /// Returns true if the points are in a row.
    #[inline(always)]
    pub fn is_in(&self, row: [usize; 2]) -> bool {
        self.row == row
    }

    /// Removes the source from a copy of the row of a pressure. `begin`: the row's position in the field.
    pub fn restore(&self, pressure: usize, begin: usize, row: &mut [f32]) {
        for point in &self.points {
            if let Some(cell) = point.at.checked_sub(begin).and_then(|i| row.get_mut(i)) {
                *cell = point.without[pressure];
            }
        }
    }
}
