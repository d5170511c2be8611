//! The step of a tile, row after row along z. `mod.rs` of the equation has the order of operations.
//!
//! A row needs nine rows along y, which lie in the second-level cache while the tile is narrow, nine along x and its
//! neighbours along z, which lie in the first. It reads and writes 16 bytes of memory a cell: P, P-, V, and P+ over P-.

#![allow(unsafe_op_in_unsafe_fn, reason = "all of a kernel is unsafe, by its caller's promise")]

use super::coefficients::Acoustic2Coefficients;
use super::layer::{Layers, PROFILES};
use crate::backend::cpu::Rows;
use crate::fd::centred::FIRST;
use crate::fd::centred::taps::{Taps, WeightSplats};
use crate::fd::edge_field::EdgeRow;
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::storage::Scale;
use crate::fd::tiled::activity::ActiveTile;
use crate::fd::vector::isa::RowWork;
use crate::fd::vector::lanes::{Lanes, splats};

/// Updates the part of a tile that is not at rest.
///
/// # Safety
/// To run it: the fields have the layout of the coefficients. Meanwhile no other thread uses these
/// cells of `previous` or writes `p`. The processor has the instructions.
pub struct Acoustic2Sweep<'a> {
    pub tile: &'a ActiveTile,
    pub c: &'a Acoustic2Coefficients,
    /// The sponge's factors along z from the first updated cell on, in whole vectors; 0 beyond the updated cells.
    pub sponge_z: &'a [f32],
    pub p: Rows<'a>,
    /// The pressure of the step before, which the next one replaces.
    pub previous: Rows<'a>,
    /// The fields of a PML, `phi` of even and of odd steps and `chi` of each axis; and which `phi` is read.
    pub layers: &'a [Rows<'a>],
    pub odd: usize,
}

/// A row. Pointers are to its first updated cell.
struct Acoustic2Row {
    len: usize,
    p: *const f32,
    previous: *mut f32,
    /// Values from row to row along x and y.
    strides: [usize; 2],
    /// The sponge's factors.
    sponge_xy: f32,
    sponge_z: *const f32,
}

/// The values of vp² of a row, as they are stored.
trait Speeds: Copy {
    unsafe fn load<L: Lanes>(self, i: usize) -> L::V;
    /// Requests the line of the `i`th value, which may lie beyond the field.
    fn prefetch<L: Lanes>(self, i: usize);
}

impl Speeds for *const f32 {
    #[inline(always)]
    unsafe fn load<L: Lanes>(self, i: usize) -> L::V {
        L::load(self.add(i))
    }

    #[inline(always)]
    fn prefetch<L: Lanes>(self, i: usize) {
        L::prefetch(self.wrapping_add(i));
    }
}

impl Speeds for (*const u16, Scale) {
    #[inline(always)]
    unsafe fn load<L: Lanes>(self, i: usize) -> L::V {
        L::fma(L::widened(self.0.add(i)), L::splat(self.1.step), L::splat(self.1.low))
    }

    #[inline(always)]
    fn prefetch<L: Lanes>(self, i: usize) {
        L::prefetch(self.0.wrapping_add(i).cast());
    }
}

impl RowWork for Acoustic2Sweep<'_> {
    #[inline(always)]
    unsafe fn run<L: Lanes>(&self) {
        let Acoustic2Sweep { tile, c, sponge_z, p, previous, .. } = self;
        let layout = &c.layout;
        let [columns, planes] = tile.tile.sides.each_ref().map(|side| side.cells.clone());
        let z = layout.active(2).start;
        let weights = WeightSplats::<L>::new(&c.weights);
        for (y, x) in planes.flat_map(|y| columns.clone().map(move |x| (y, x))) {
            let at = layout.at([x, y, z]);
            if let Some(layers) = &c.layers {
                damp::<L>(self, layers, &weights, [x, y], tile.len);
            }
            let line = Acoustic2Row {
                len: tile.len,
                p: p.as_ptr().add(at).cast_const(),
                previous: previous.as_ptr().add(at),
                strides: [layout.stride(0), layout.stride(1)],
                sponge_xy: c.sponge[1][y] * c.sponge[0][x],
                sponge_z: sponge_z.as_ptr(),
            };
            match c.v.row(layout, [x, y, z], tile.len) {
                EdgeRow::Values(values) => row::<L, _>(&weights, &line, values.as_ptr()),
                EdgeRow::Numbers(numbers, scale) => row::<L, _>(&weights, &line, (numbers.as_ptr(), scale)),
            }
        }
    }
}

/// A row in the layers of an axis, or its part in them. Pointers are to its first cell.
struct DampedRow<'a, L: Lanes> {
    len: usize,
    p: *const f32,
    previous: *mut f32,
    phi: *const f32,
    next_phi: *mut f32,
    chi: *mut f32,
    /// Values from cell to cell along the axis, of the pressure and of `phi`.
    strides: [usize; 2],
    /// Values of `phi` from row to row along x.
    pitch: usize,
    profiles: [*const f32; PROFILES],
    /// The second derivative along the axis.
    centre: f32,
    weights: &'a [L::V; HALF_WIDTH],
}

/// Adds the increments of the layers to a row of the pressure before, with a negative sign.
#[inline(always)]
unsafe fn damp<L: Lanes>(
    step: &Acoustic2Sweep<'_>,
    layers: &[Layers; 3],
    weights: &WeightSplats<L>,
    [x, y]: [usize; 2],
    len: usize,
) {
    let (layout, first) = (&step.c.layout, step.c.layout.active(2).start);
    for (axis, (own, fields)) in layers.iter().zip(step.layers.chunks_exact(3)).enumerate() {
        let parts = match axis {
            2 => own.zones.clone(),
            _ if own.zones.iter().any(|zone| zone.contains(&[x, y][axis])) => [first..first + len, 0..0],
            _ => continue,
        };
        // Cells at rest stay so.
        for z in parts.into_iter().filter(|z| !z.is_empty() && z.start < first + len) {
            let cell = [x, y, z.start];
            let mut slot = cell;
            slot[axis] = own.slot(cell[axis]);
            let (at, place) = (layout.at(cell), own.layout.at(slot));
            let row = DampedRow::<L> {
                len: z.len(),
                p: step.p.as_ptr().add(at).cast_const(),
                previous: step.previous.as_ptr().add(at),
                phi: fields[step.odd].as_ptr().add(place).cast_const(),
                next_phi: fields[1 - step.odd].as_ptr().add(place),
                chi: fields[2].as_ptr().add(place),
                strides: [layout.stride(axis), own.layout.stride(axis)],
                pitch: own.layout.pitch,
                profiles: own.profiles.each_ref().map(|profile| profile.as_ptr().add(cell[axis])),
                centre: own.centre,
                weights: &weights.axes[axis],
            };
            match (step.c.v.row(layout, cell, z.len()), axis == 2) {
                (EdgeRow::Values(v), false) => row.damp::<_, false>(v.as_ptr()),
                (EdgeRow::Values(v), true) => row.damp::<_, true>(v.as_ptr()),
                (EdgeRow::Numbers(v, scale), false) => row.damp::<_, false>((v.as_ptr(), scale)),
                (EdgeRow::Numbers(v, scale), true) => row.damp::<_, true>((v.as_ptr(), scale)),
            }
        }
    }
}

impl<L: Lanes> DampedRow<'_, L> {
    /// `Z`: along z, where each cell has its own profile.
    #[inline(always)]
    unsafe fn damp<V: Speeds, const Z: bool>(&self, v: V) {
        let centre = L::splat(self.centre);
        let first = splats::<L>(&FIRST);
        let same = self.profiles.map(|profile| L::splat(*profile));
        for i in (0..self.len).step_by(L::N) {
            let [a, b, slope, square] =
                if Z { self.profiles.map(|profile| L::load(profile.add(i))) } else { same };
            let (p, phi, chi) = (self.p.add(i), self.phi.add(i), self.chi.add(i));
            // The next row along x.
            L::prefetch(phi.wrapping_add(HALF_WIDTH * self.strides[1] + self.pitch));
            L::prefetch(self.next_phi.wrapping_add(i + self.pitch));
            L::prefetch(chi.wrapping_add(self.pitch));
            let taps = Taps::<L>::around(p, self.strides[0]);
            let second = L::fma(centre, L::load(p), taps.second(self.weights));
            let derivative = taps.first(&first);
            let change = L::mul(square, Taps::<L>::around(phi, self.strides[1]).first(&first));
            let change = L::fma(b, second, L::fma(slope, derivative, change));
            let zeta = L::fma(b, L::add(second, change), L::load(chi.cast_const()));
            L::store(chi, L::mul(a, zeta));
            L::store(self.next_phi.add(i), L::mul(a, L::fma(b, derivative, L::load(phi))));
            let previous = self.previous.add(i);
            let before = L::load(previous.cast_const());
            L::store(previous, L::fnma(v.load::<L>(i), L::add(change, zeta), before));
        }
    }
}

/// Updates a row.
#[inline(always)]
unsafe fn row<L: Lanes, V: Speeds>(weights: &WeightSplats<L>, row: &Acoustic2Row, v: V) {
    let [sx, sy] = row.strides;
    let sponge_xy = L::splat(row.sponge_xy);
    let zero = L::splat(0.0);
    for i in (0..row.len).step_by(L::N) {
        let p = row.p.add(i);
        let previous = row.previous.add(i);
        // The next row along x: one more plane of P, P- and V.
        L::prefetch(p.wrapping_add(HALF_WIDTH * sy + sx));
        L::prefetch(previous.wrapping_add(sx).cast_const());
        v.prefetch::<L>(i + sx);
        let centre = L::load(p);
        let [x, y, z] = &weights.axes;
        let x = L::fma(weights.centre, centre, Taps::<L>::around(p, sx).second(x));
        let y = Taps::<L>::around(p, sy).second(y);
        let z = Taps::<L>::around(p, 1).second(z);
        let l = L::add(L::add(x, y), z);
        let g = L::mul(sponge_xy, L::load(row.sponge_z.add(i)));
        let before = L::fnma(g, L::load(previous.cast_const()), L::add(centre, centre));
        L::store(previous, L::fma(g, L::fma(v.load::<L>(i), l, before), zero));
    }
}
