//! Where the wave has come, so that a step computes those parts of the tiles only.
//!
//! Ahead of the wave all fields are exactly zero, as denormal numbers are flushed. A pressure changes in a step only if a
//! pressure less than [`MARGIN`] cells away is not zero: it takes a derivative of eight taps of derivatives of eight
//! taps. So each tile has the box of its pressures that have been other than zero, which only grows, and a step computes
//! the part of a tile that lies within the margin of its own box and its neighbours'. Velocities, split pressures and
//! changes that are not zero lie within the margin, too. All else would come out as the zeros that it is.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::partition::Partition;
use super::tiles::Tile;
use crate::backend::cpu::Rows;
use crate::fd::grid::layout::Layout;
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::vector::lanes::WIDEST;

/// Cells around a pressure that a step may change, and one more, so that rows stay together.
const MARGIN: usize = 2 * HALF_WIDTH;

/// Indices along x, y and z.
type Extent = [Range<usize>; 3];

const NOTHING: Extent = [0..0, 0..0, 0..0];

/// The state of all tiles of a shot.
pub struct Activity<'a> {
    partition: &'a Partition,
    layout: &'a Layout,
    /// Number of the tiling.
    tiling: usize,
    /// Where each tile's pressure has been other than zero.
    boxes: Vec<Mutex<Extent>>,
    /// Tiles less than the margin from each, itself among them.
    near: Vec<Vec<usize>>,
    /// Parts that the next step computes, the largest first.
    pub active: Vec<ActiveTile>,
    /// Its cells.
    cells: usize,
    /// Cells that all steps before it have computed, and how many steps these are.
    computed: f64,
    steps: f64,
}

/// A part of a tile that a step computes.
pub struct ActiveTile {
    nth: usize,
    pub tile: Tile,
    /// Values of a row along z, from the first updated one on: whole vectors, all or at least those of the near end.
    pub len: usize,
    /// The tile's box.
    known: Extent,
}

/// The smallest range that contains both.
fn hull(a: &Range<usize>, b: &Range<usize>) -> Range<usize> {
    match (a.is_empty(), b.is_empty()) {
        (true, _) => b.clone(),
        (_, true) => a.clone(),
        _ => a.start.min(b.start)..a.end.max(b.end),
    }
}

fn hulls(a: &Extent, b: &Extent) -> Extent {
    [0, 1, 2].map(|axis| hull(&a[axis], &b[axis]))
}

/// A range and the margin around it.
fn widened(range: &Range<usize>) -> Range<usize> {
    range.start.saturating_sub(MARGIN)..range.end + MARGIN
}

fn common(a: &Range<usize>, b: &Range<usize>) -> Range<usize> {
    a.start.max(b.start)..a.end.min(b.end)
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

impl<'a> Activity<'a> {
    /// Of fields at rest.
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
        self.plan();
    }

    /// Cuts the rows into other tiles. A cell that is not at rest lies in the box of its old tile, so in that of its new one.
    pub fn retile(&mut self, tiling: usize) {
        if tiling == self.tiling {
            return;
        }
        let boxes: Vec<Extent> = (0..self.boxes.len()).map(|nth| self.known(nth)).collect();
        let Activity { computed, steps, .. } = *self;
        *self = Activity { computed, steps, ..Activity::new(self.partition, self.layout, tiling) };
        self.mark(|tile| {
            let within = |[x, y, z]: &Extent| {
                let [x, y] = [common(x, &tile.sides[0].cells), common(y, &tile.sides[1].cells)];
                (!x.is_empty() && !y.is_empty()).then(|| [x, y, z.clone()])
            };
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

    /// Grows a tile's box by what a step has made of a part of it.
    ///
    /// # Safety
    /// The field has the layout, and no other thread writes this part of it.
    pub unsafe fn swept(&self, active: &ActiveTile, p: Rows<'_>) {
        let layout = self.layout;
        let z = layout.active(2);
        let z = z.start..z.end.min(z.start + active.len);
        let [known_x, known_y, known_z] = &active.known;
        let [columns, planes] = active.tile.sides.each_ref().map(|side| &side.cells);
        let (mut grown, mut has_grown) = (active.known.clone(), false);
        for (iy, ix) in planes.clone().flat_map(|iy| columns.clone().map(move |ix| (iy, ix))) {
            let begin = if known_x.contains(&ix) && known_y.contains(&iy) { known_z.end } else { z.start };
            if begin >= z.end {
                continue;
            }
            // SAFETY: by the caller's promise.
            let row = unsafe { p.read(layout.at([ix, iy, begin]), z.end - begin) };
            if let Some(last) = row.iter().rposition(|value| value.to_bits() != 0) {
                grown = hulls(&grown, &[ix..ix + 1, iy..iy + 1, z.start..begin + last + 1]);
                has_grown = true;
            }
        }
        if has_grown {
            self.grow(active.nth, &grown);
        }
    }

    /// Cells that the steps until now have computed.
    pub fn computed(&self) -> f64 {
        self.computed
    }

    fn all_cells(&self) -> f64 {
        [0, 1, 2].map(|axis| self.layout.active(axis).len() as f64).iter().product()
    }

    /// The share of the updated cells that the next step computes.
    pub fn share(&self) -> f64 {
        self.cells as f64 / self.all_cells()
    }

    /// The same of all steps until now.
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
    use crate::backend::cpu::{Team, TeamMember};
    use crate::fd::equation::acoustic1::coefficients::{Acoustic1Material, Coefficients};
    use crate::fd::equation::acoustic1::cpu::{Fields, Geometry, OnePass};
    use crate::fd::grid::Grid;
    use crate::fd::model::Model;
    use crate::fd::storage::Storage;
    use crate::fd::survey::{Receivers, Shot};
    use crate::fd::time_loop::cpu_steps::CpuSteps;
    use crate::fd::wavelet::Wavelet;

    const N: [usize; 3] = [90, 50, 70];

    fn coefficients(storage: Storage) -> Coefficients {
        let grid = Grid { n: N, h: [10.0, 11.0, 9.0] };
        let vp = (0..grid.cells()).map(|i| 1500.0 + (i * 37 % 1000) as f32).collect();
        let rho = (0..grid.cells()).map(|i| 1000.0 + (i * 53 % 800) as f32).collect();
        Acoustic1Material::new(&Model::new(grid, vp, Some(rho)).unwrap(), 9, storage)
            .unwrap()
            .coefficients(1e-3)
    }

    fn shot(source: [usize; 3], silent: usize) -> Shot {
        let samples = [vec![0.0; silent], vec![0.3, -0.7, 0.4]].concat();
        Shot {
            source,
            wavelet: Wavelet::from_samples(samples).unwrap(),
            amplitude: 1e4,
            nt: silent + 12,
            receivers: Receivers::Plane { iz: 0, every: [1, 1] },
            record_every: 1,
            snapshot_every: None,
            mute: None,
        }
    }

    /// Returns all fields after the last step, and the computed share: of all cells, or of those that are not at rest.
    /// `retiled`: every step has other tiles than the one before.
    fn fields(c: &Coefficients, shot: &Shot, all: bool, retiled: bool) -> (Vec<Vec<u32>>, f64) {
        let geometry = Geometry::in_tiles(c, 2, &[[12, 16], [31, 9], [7, 40]]);
        let mut fields = Fields::new(&c.layout, &geometry).unwrap();
        let steps = OnePass::new(c, &geometry, shot, &mut fields);
        if all {
            steps.resumed();
        }
        let run = |member: &TeamMember<'_>, _: Option<&()>| {
            let mut own = steps.own()?;
            (0..shot.nt).try_for_each(|step| {
                steps.step(member, &mut own, step)?;
                member.barrier_then(|| {
                    if retiled {
                        steps.activity_mut().retile((step + 1) % 3);
                    }
                })
            })
        };
        Team::new(2).unwrap().run(&(), run).unwrap();
        // SAFETY: no thread computes.
        let bits = |field: Rows<'_>| unsafe { field.all() }.iter().map(|value| value.to_bits()).collect();
        (steps.fields().into_iter().map(bits).collect(), steps.computed())
    }

    /// The front's smallest values are among the bits: a tile that is left out for one step loses them.
    #[test]
    fn cells_at_rest_are_left_out_without_a_change_of_a_bit() {
        let [x, y, z] = N.map(|n| n - 1);
        for storage in Storage::ALL {
            let c = coefficients(storage);
            for source in [[0, 0, 0], [x, y, z - 2], [44, 25, 2], [3, 47, 60]] {
                let shot = shot(source, 0);
                let (whole, everything) = fields(&c, &shot, true, false);
                assert_eq!(everything, 1.0);
                for retiled in [false, true] {
                    let (active, computed) = fields(&c, &shot, false, retiled);
                    assert!(computed < 0.7, "{source:?}, retiled {retiled}: {computed}");
                    assert!(active == whole, "{source:?}, {storage:?}, retiled {retiled}");
                }
            }
        }
    }

    #[test]
    fn nothing_is_computed_until_the_wavelet_begins() {
        let c = coefficients(Storage::Float32);
        let computed =
            |silent| fields(&c, &shot([40, 20, 30], silent), false, false).1 * (silent + 12) as f64;
        assert!((computed(25) - computed(0)).abs() < 1e-9);
    }
}
