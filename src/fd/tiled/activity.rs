//! Cells that the wave has reached, so that a step computes only parts of the tiles.
//!
//! Ahead of the wave all fields are exactly zero, as denormals are flushed. A pressure changes in a
//! step only if a pressure less than [`MARGIN`] cells away is not zero: it takes a derivative of
//! eight taps of derivatives of eight taps. So each tile has a box around its pressures that have
//! been other than zero, which only grows. A step computes the part of a tile that lies within the
//! margin of its own box and its neighbours'. Velocities, split pressures and increments that are
//! not zero lie within the margin, too. Everywhere else a step would compute the zeros that are
//! there.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::partition::Partition;
use super::tiles::{Extent, Tile};
use crate::backend::cpu::Rows;
use crate::fd::grid::layout::Layout;
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::vector::lanes::WIDEST;

/// Distance up to which a step may change cells around a pressure, and one cell more, so that rows
/// stay together.
const MARGIN: usize = 2 * HALF_WIDTH;

/// Values that are compared with zero at a time.
const CHUNK: usize = 4 * WIDEST;

const NOTHING: Extent = [0..0, 0..0, 0..0];

/// State of all tiles of a shot.
pub struct Activity<'a> {
    partition: &'a Partition,
    layout: &'a Layout,
    /// Number of the tiling.
    tiling: usize,
    /// For each tile, the box in which its pressure has been other than zero.
    boxes: Vec<Mutex<Extent>>,
    /// A box has grown since `active` was planned.
    has_grown: AtomicBool,
    /// For each tile, the tiles less than the margin from it, itself among them.
    near: Vec<Vec<usize>>,
    /// Parts of tiles that the next step computes, the largest first.
    pub active: Vec<ActiveTile>,
    /// Cells that the next step computes.
    cells: usize,
    /// Cells that all steps so far have computed, and the number of these steps.
    pub computed: f64,
    steps: f64,
}

/// Part of a tile that a step computes.
pub struct ActiveTile {
    nth: usize,
    pub tile: Tile,
    /// Values of a row along z from the first updated one on, in whole vectors: all values, or at
    /// least those of the near end.
    pub len: usize,
    /// The tile's box.
    known: Extent,
}

/// Returns the smallest extent that contains both.
fn hulls(a: &Extent, b: &Extent) -> Extent {
    [0, 1, 2].map(|axis| match (&a[axis], &b[axis]) {
        (a, b) if a.is_empty() => b.clone(),
        (a, b) if b.is_empty() => a.clone(),
        (a, b) => a.start.min(b.start)..a.end.max(b.end),
    })
}

/// Returns a range with the margin on both sides.
fn widened(range: &Range<usize>) -> Range<usize> {
    range.start.saturating_sub(MARGIN)..range.end + MARGIN
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

fn contains(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start <= b.start && b.end <= a.end
}

/// Returns the index of the last value whose bits are not all zero.
fn last_other_than_zero(row: &[f32]) -> Option<usize> {
    let mut end = row.len();
    for chunk in row.rchunks(CHUNK) {
        // Without a branch the comparison of a whole chunk becomes vector instructions.
        if chunk.iter().fold(0, |bits, value| bits | value.to_bits()) != 0 {
            let last = chunk.iter().rposition(|value| value.to_bits() != 0);
            return last.map(|last| end - chunk.len() + last);
        }
        end -= chunk.len();
    }
    None
}

impl<'a> Activity<'a> {
    /// Makes the state of fields at rest.
    pub fn new(partition: &'a Partition, layout: &'a Layout, tiling: usize) -> Activity<'a> {
        let tiles = &partition.tilings[tiling].tiles;
        let near = |a: &Tile| {
            let is_near =
                |b: &Tile| (0..2).all(|axis| overlap(&widened(&a.sides[axis].cells), &b.sides[axis].cells));
            (0..tiles.len()).filter(|nth| is_near(&tiles[*nth])).collect()
        };
        Activity {
            partition,
            layout,
            tiling,
            boxes: tiles.iter().map(|_| Mutex::new(NOTHING)).collect(),
            has_grown: AtomicBool::new(false),
            near: tiles.iter().map(near).collect(),
            active: Vec::new(),
            cells: 0,
            computed: 0.0,
            steps: 0.0,
        }
    }

    fn tiles(&self) -> &'a [Tile] {
        &self.partition.tilings[self.tiling].tiles
    }

    fn known(&self, nth: usize) -> Extent {
        self.boxes[nth].lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn grow(&self, nth: usize, by: &Extent) {
        let mut known = self.boxes[nth].lock().unwrap_or_else(PoisonError::into_inner);
        *known = hulls(&known, by);
        self.has_grown.store(true, Ordering::Relaxed);
    }

    /// Marks cells that are no longer at rest.
    pub fn mark(&mut self, cells: impl Fn(&Tile) -> Option<Extent>) {
        for (nth, tile) in self.tiles().iter().enumerate() {
            if let Some(cells) = cells(tile) {
                self.grow(nth, &cells);
            }
        }
        self.plan();
    }

    pub fn end_step(&mut self) {
        self.computed += self.cells as f64;
        self.steps += 1.0;
        if std::mem::take(self.has_grown.get_mut()) {
            self.plan();
        }
    }

    /// Changes to another tiling. A cell that is not at rest lies in the box of its old tile, so in
    /// that of its new one.
    pub fn retile(&mut self, tiling: usize) {
        if tiling == self.tiling {
            return;
        }
        let boxes: Vec<Extent> = (0..self.boxes.len()).map(|nth| self.known(nth)).collect();
        let Activity { computed, steps, .. } = *self;
        *self = Activity { computed, steps, ..Activity::new(self.partition, self.layout, tiling) };
        self.mark(|tile| {
            let within = |extent: &Extent| tile.part_of(extent);
            boxes.iter().filter_map(within).reduce(|a, b| hulls(&a, &b))
        });
    }

    fn plan(&mut self) {
        // The vector is reused and the sort is in place: a step allocates nothing.
        let mut active = std::mem::take(&mut self.active);
        active.clear();
        active.extend((0..self.tiles().len()).filter_map(|nth| self.active_tile(nth)));
        active.sort_unstable_by_key(|active| (std::cmp::Reverse(active.cells(self.layout)), active.nth));
        self.cells = active.iter().map(|active| active.cells(self.layout)).sum();
        self.active = active;
    }

    fn active_tile(&self, nth: usize) -> Option<ActiveTile> {
        let (ends, sides) = (&self.partition.ends, &self.tiles()[nth].sides);
        let reaching = |near: &usize| {
            let known = self.known(*near);
            let reached = known.each_ref().map(widened);
            let reaches =
                !known[0].is_empty() && (0..2).all(|axis| overlap(&reached[axis], &sides[axis].cells));
            reaches.then_some(reached)
        };
        let [x, y, z] = self.near[nth].iter().filter_map(reaching).reduce(|a, b| hulls(&a, &b))?;
        let len = (z.end - self.layout.active(2).start).next_multiple_of(WIDEST).max(ends.pml[0]);
        let len = if len > ends.pml(1).start { ends.len } else { len };
        let tile = Tile { sides: [sides[0].within(&x), sides[1].within(&y)] };
        Some(ActiveTile { nth, tile, len, known: self.known(nth) })
    }

    /// Grows a tile's box by the cells of an active part that are no longer zero after a step.
    ///
    /// # Safety
    /// The field has the layout, and no other thread writes this part of it.
    pub unsafe fn swept(&self, active: &ActiveTile, p: Rows<'_>) {
        let layout = self.layout;
        let z = layout.active(2);
        let z = z.start..z.end.min(z.start + active.len);
        let [known_x, known_y, known_z] = &active.known;
        let [columns, planes] = active.tile.sides.each_ref().map(|side| &side.cells);
        if contains(known_x, columns) && contains(known_y, planes) && known_z.end >= z.end {
            return;
        }
        let (mut grown, mut has_grown) = (active.known.clone(), false);
        for (iy, ix) in planes.clone().flat_map(|iy| columns.clone().map(move |ix| (iy, ix))) {
            let begin = if known_x.contains(&ix) && known_y.contains(&iy) { known_z.end } else { z.start };
            if begin >= z.end {
                continue;
            }
            // SAFETY: by the caller's promise.
            let row = unsafe { p.read(layout.at([ix, iy, begin]), z.end - begin) };
            if let Some(last) = last_other_than_zero(row) {
                grown = hulls(&grown, &[ix..ix + 1, iy..iy + 1, z.start..begin + last + 1]);
                has_grown = true;
            }
        }
        if has_grown {
            self.grow(active.nth, &grown);
        }
    }

    fn all_cells(&self) -> f64 {
        self.layout.updated_cells() as f64
    }

    /// Returns the share of the updated cells that the next step computes.
    pub fn share(&self) -> f64 {
        self.cells as f64 / self.all_cells()
    }

    /// Returns the share of the updated cells that the steps so far have computed.
    pub fn mean_share(&self) -> f64 {
        if self.steps == 0.0 { 0.0 } else { self.computed / (self.all_cells() * self.steps) }
    }
}

impl ActiveTile {
    fn cells(&self, layout: &Layout) -> usize {
        let [x, y] = self.tile.sides.each_ref().map(|side| side.cells.len());
        x * y * self.len.min(layout.active(2).len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_value_other_than_zero_is_found_in_any_chunk() {
        let mut row = vec![0.0; 2 * CHUNK + 5];
        assert_eq!((last_other_than_zero(&[]), last_other_than_zero(&row)), (None, None));
        for last in [0, 4, 5, CHUNK + 4, CHUNK + 5, 2 * CHUNK + 4] {
            row[last] = -0.0;
            assert_eq!(last_other_than_zero(&row), Some(last));
        }
    }
}
