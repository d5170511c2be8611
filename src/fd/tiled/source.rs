//! Source of a shot: points of one column, which only the fluxes of a step see, or poles in
//! increments.

use super::tiles::{Extent, Tile};
use crate::backend::cpu::Rows;
use crate::fd::grid::layout::Layout;
use crate::fd::survey::{Shot, SourceKind};

/// Point of the source.
struct Point {
    /// Position in a field.
    at: usize,
    weight: f32,
    /// Pressures at this point without the source.
    without: [f32; 2],
}

/// Injects the source into the fields before a step. The step then starts from the pressures
/// without the points, and from the increments with the poles.
pub struct SourceInjector {
    /// Row of the points: indices along x and y.
    row: [usize; 2],
    points: Vec<Point>,
    /// Positions in a field, and factors.
    poles: Vec<(usize, f32)>,
    /// Indices along x, y and z from the first point or pole to the last.
    cells: Extent,
}

impl SourceInjector {
    /// Makes the injector of a shot. `points`: cells below that of the source, and factors; a shot
    /// whose source has poles ignores them.
    pub fn new(layout: &Layout, shot: &Shot, points: &[(usize, f32)]) -> SourceInjector {
        let [x, y, z] = shot.padded_source(layout.pml);
        let (points, poles) = match &shot.kind {
            SourceKind::Poles(poles) => (&[][..], &poles.0[..]),
            _ => (points, &[][..]),
        };
        let below = |&(depth, _): &(usize, f32)| [x, y, z + depth];
        let all = || points.iter().map(below).chain(poles.iter().map(|(cell, _)| *cell));
        let cells = [0, 1, 2].map(|axis| {
            let along = || all().map(|cell| cell[axis]);
            along().min().unwrap_or(0)..along().max().map_or(0, |last| last + 1)
        });
        let point =
            |point: &(usize, f32)| Point { at: layout.at(below(point)), weight: point.1, without: [0.0; 2] };
        SourceInjector {
            row: [x, y],
            points: points.iter().map(point).collect(),
            poles: poles.iter().map(|(cell, weight)| (layout.at(*cell), *weight)).collect(),
            cells,
        }
    }

    /// Injects a step's source into the pressures that the step reads, or into the increments.
    ///
    /// # Safety
    /// The fields have the injector's layout, and no other thread uses them meanwhile.
    pub unsafe fn put<'a>(
        &mut self,
        pressures: impl Iterator<Item = Rows<'a>>,
        increments: Rows<'_>,
        value: f32,
    ) {
        for (number, p) in pressures.enumerate() {
            for Point { at, weight, without } in &mut self.points {
                // SAFETY: the position is within the field; no other thread uses it, by the
                // caller's promise.
                let cell = unsafe { &mut p.write(*at, 1)[0] };
                without[number] = *cell;
                *cell += *weight * value;
            }
        }
        for (at, weight) in &self.poles {
            // SAFETY: as above.
            unsafe { increments.write(*at, 1)[0] += weight * value };
        }
    }

    /// Returns the cells of the source that are in a tile.
    pub fn extent(&self, tile: &Tile) -> Option<Extent> {
        tile.part_of(&self.cells)
    }

    /// Returns true if the points are in this row.
    #[inline(always)]
    pub fn is_in(&self, row: [usize; 2]) -> bool {
        self.row == row
    }

    /// Removes the source from a copy of the row of a pressure. `begin`: the row's position in the
    /// field.
    pub fn restore(&self, pressure: usize, begin: usize, row: &mut [f32]) {
        for point in &self.points {
            if let Some(cell) = point.at.checked_sub(begin).and_then(|i| row.get_mut(i)) {
                *cell = point.without[pressure];
            }
        }
    }
}
