//! A step of a tile: the next pressures from these.
//!
//! **Order of operations**, the same on every device, `fma(x, y, z) = x y + z` rounded once, `fnma(x, y, z) = z - x y`.
//! `ct`, `st`, `cp`, `sp` are cosine and sine of theta and phi; `m = vp²`, `E = 1 + 2 epsilon`, `S = sqrt(1 + 2 delta)`;
//! `r = dt/h`; `keep`, `rate`, `loss` are those of an axis's profile: `b`, `a r`, `b - 1`.
//!
//! ```text
//! derivative of f  D = c0 (f[1]-f[0]);  D = fma(c_m, f[1+m]-f[-m], D) for m = 1, 2, 3
//! rotated          R_x = fnma(st, D_z, fnma(ct sp, D_y, (ct cp) D_x))
//!                  R_y = fma(cp, D_y, sp D_x)
//!                  R_z = fma(ct, D_z, fnma(st sp, D_y, (st cp) D_x))
//! fluxes           u = R_x P;  v = R_y P;  w = R_z Q
//!     damped       u = fnma(rate, u, keep u before), likewise v in the PML zones of y, and w everywhere
//! increments       a = r² R_x u;  a = fma(r², R_y v, a);  d = fma(m, a, d)
//!                  h = d;  h = h + c of y, then of x;  g = c of z, with
//!     damped flux  c = -((m rate) R u)
//!     layer        c = fma(loss, split, -((m rate) R u));  split = split + c
//! pressures        P = P + fma(E, h, S g);  Q = Q + fma(S, h, g)
//! ```
//!
//! A tile sweeps along y. The fluxes of eight planes are in a queue, and the divergence of a plane takes all of them. The fluxes
//! beside the tile are computed for one plane at a time. So tiles do not depend on each other.

use super::divergence::{DivergenceRow, SplitEnd, divergence};
use super::flux::{DampedFlux, RotatedFluxRow, Target, flux};
use crate::backend::cpu::Rows;
use crate::fd::anisotropy::Anisotropy;
use crate::fd::equation::tti::material::TiltedMedium;
use crate::fd::equation::tti::old::OldTtiPropagator;
use crate::fd::grid::layout::Layout;
use crate::fd::one_pass::axis::Axis;
use crate::fd::one_pass::fields::layer_lens;
use crate::fd::one_pass::rows::{SplitPressure, TAPS};
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::tiled::activity::ActiveTile;
use crate::fd::tiled::copies::{in_ball, without_source};
use crate::fd::tiled::equation::TileStep;
use crate::fd::tiled::partition::Partition;
use crate::fd::vector::isa::RowWork;
use crate::fd::vector::lanes::{Lanes, WIDEST};

/// The fields, as the members of a team share them. Pairs are of even and of odd steps.
#[derive(Clone, Copy)]
struct OldTtiFields<'a> {
    p: [Rows<'a>; 2],
    q: [Rows<'a>; 2],
    /// Flux along the symmetry axis.
    w: [Rows<'a>; 2],
    /// Increment of the split pressures without damping, of x and y together.
    d: Rows<'a>,
    /// Fluxes of x and y in their axis's PML zones: `[iy][slot][z]`, `[slot][ix][z]`.
    zones: [[Rows<'a>; 2]; 2],
    /// Split pressures in the layers of their axis: `[iy][layer][z]`, `[layer][ix][z]`, `[iy][ix][end]`.
    split: [Rows<'a>; 3],
}

/// The number of the increments.
pub const INCREMENTS: usize = 6;

impl<'a> OldTtiFields<'a> {
    /// `all`: those of [`lens`].
    fn new(all: &[Rows<'a>]) -> OldTtiFields<'a> {
        let both = |first: usize| [all[first], all[first + 1]];
        OldTtiFields {
            p: both(0),
            q: both(2),
            w: both(4),
            d: all[INCREMENTS],
            zones: [both(7), both(9)],
            split: [all[11], all[12], all[13]],
        }
    }
}

/// Returns the lengths of the fields.
pub fn lens(layout: &Layout) -> Vec<usize> {
    let [[x, y, _], split] = layer_lens(layout);
    [layout.field_len(); INCREMENTS + 1].into_iter().chain([x, x, y, y]).chain(split).collect()
}

/// Rows beside a tile that its divergence reaches, before it and after it.
const BEFORE: usize = HALF_WIDTH;
const AFTER: usize = HALF_WIDTH - 1;
/// Components of the flux.
const COMPONENTS: usize = 3;

/// The memory of one thread: fluxes of the planes that a divergence reaches, and rows that differ from a field's. Each row of
/// a component lies between vectors of zeros.
#[derive(Clone, Copy)]
pub struct OldTtiQueue {
    /// Values from component to component of a row's flux.
    component: usize,
    /// Values from row to row and from plane to plane.
    row: usize,
    plane: usize,
    /// Planes of the tile's rows, `[iy % TAPS][ix]`.
    planes: *mut f32,
    /// The rows beside the tile of one plane, first those before it.
    beside: *mut f32,
    /// Rows of the pressures P and Q without the source, and of `1 + 2 epsilon` and `sqrt(1 + 2 delta)` in the ball.
    without_source: [*mut f32; 2],
    ball: [*mut f32; 2],
}

impl OldTtiQueue {
    /// For any tile of any tiling: returns the positions after `first`, and how many values they are.
    #[inline]
    pub fn new(tiles: &Partition, first: *mut f32) -> (OldTtiQueue, usize) {
        let (columns, len) = (tiles.columns, tiles.ends.len);
        // An odd number of lines, so that rows beside each other lie in different sets of a cache.
        let component = ((len / WIDEST + 1) | 1) * WIDEST;
        let row = COMPONENTS * component;
        let plane = columns * row;
        let mut taken = WIDEST;
        let mut take = |len: usize| {
            taken += len;
            first.wrapping_add(taken - len)
        };
        let queue = OldTtiQueue {
            component,
            row,
            plane,
            planes: take(TAPS * plane),
            beside: take((BEFORE + AFTER) * row),
            without_source: [take(component), take(component)],
            ball: [take(component), take(component)],
        };
        (queue, taken)
    }
}

/// The sweep of a tile as a kernel. `X_PML`, `Y_PML`: whether the tile stores damped fluxes of that axis. Its helpers are
/// `#[inline]`: `Isa::run` is compiled in another unit of the crate, and calls to them take a tenth of the time. "Position" of
/// a row is that of its first updated cell.
///
/// # Safety
/// The methods that are unsafe take for granted: the fields have the layout of the coefficients, and the scratch has room
/// for the tile; meanwhile no other thread uses this tile's part of what is written, nor writes what is read; and
/// the processor has the instructions.
struct OldTtiSweep<'a, const X_PML: bool, const Y_PML: bool> {
    step: &'a TileStep<'a, OldTtiPropagator>,
    tile: &'a ActiveTile,
    fields: OldTtiFields<'a>,
    queue: OldTtiQueue,
}

/// Computes the part of a tile that is not at rest.
pub unsafe fn sweep(step: &TileStep<'_, OldTtiPropagator>, tile: &ActiveTile, scratch: *mut f32) {
    let (isa, fields) = (step.isa, OldTtiFields::new(step.fields));
    let queue = OldTtiQueue::new(step.partition, scratch).0;
    match tile.tile.sides.each_ref().map(|side| side.pml) {
        [false, false] => isa.run(&OldTtiSweep::<false, false> { step, tile, fields, queue }),
        [false, true] => isa.run(&OldTtiSweep::<false, true> { step, tile, fields, queue }),
        [true, false] => isa.run(&OldTtiSweep::<true, false> { step, tile, fields, queue }),
        [true, true] => isa.run(&OldTtiSweep::<true, true> { step, tile, fields, queue }),
    }
}

impl<const X_PML: bool, const Y_PML: bool> RowWork for OldTtiSweep<'_, X_PML, Y_PML> {
    #[inline(always)]
    unsafe fn run<L: Lanes>(&self) {
        let [columns, planes] = self.tile.tile.sides.each_ref().map(|side| side.cells.clone());
        for y in planes.start - BEFORE..planes.end + AFTER {
            for x in columns.clone() {
                self.flux::<L>([x, y], self.queued([x, y]));
            }
            if y < planes.start + AFTER {
                continue;
            }
            let y = y - AFTER;
            for x in (columns.start - BEFORE..columns.start).chain(columns.end..columns.end + AFTER) {
                self.flux::<L>([x, y], self.beside(x));
            }
            for x in columns.clone() {
                self.divergence::<L>([x, y]);
            }
        }
    }
}

#[inline]
fn position(field: Rows<'_>, at: usize) -> *const f32 {
    field.as_ptr().wrapping_add(at)
}

impl<const X_PML: bool, const Y_PML: bool> OldTtiSweep<'_, X_PML, Y_PML> {
    /// Returns the place of the fluxes of a row of the tile.
    #[inline]
    fn queued(&self, [x, y]: [usize; 2]) -> *mut f32 {
        let column = x - self.tile.tile.sides[0].cells.start;
        self.queue.planes.wrapping_add(y % TAPS * self.queue.plane + column * self.queue.row)
    }

    /// Returns the place of the fluxes of a row beside the tile.
    #[inline]
    fn beside(&self, x: usize) -> *mut f32 {
        let cells = &self.tile.tile.sides[0].cells;
        let nth = if x < cells.start { x + BEFORE - cells.start } else { BEFORE + x - cells.end };
        self.queue.beside.wrapping_add(nth * self.queue.row)
    }

    /// Returns cosine and sine of theta and phi in a row.
    #[inline(always)]
    fn angles(&self, row: [usize; 2]) -> [*const f32; 4] {
        let c = &self.step.equation.c;
        c.medium.rotation.each_ref().map(|field| c.row(field, row))
    }

    /// Position of a row of a field that has some of the rows.
    #[inline]
    fn nth(&self, row: usize) -> usize {
        let layout = &self.step.equation.c.layout;
        layout.row(row) + layout.active(2).start
    }

    /// Computes the fluxes of a row.
    #[inline(always)]
    unsafe fn flux<L: Lanes>(&self, [x, y]: [usize; 2], to: *mut f32) {
        let OldTtiSweep { step, tile: ActiveTile { tile, len, .. }, fields, queue } = self;
        let TileStep { equation: OldTtiPropagator { c, .. }, from, stream, .. } = **step;
        let (layout, first) = (&c.layout, c.layout.active(2).start);
        let z = &c.operators.axes[2].factors;
        if !(layout.active(0).contains(&x) && layout.active(1).contains(&y)) {
            std::slice::from_raw_parts_mut(to, queue.row).fill(0.0);
            return;
        }
        let at = layout.at([x, y, first]);
        let (own_x, own_y) = (tile.sides[0].cells.contains(&x), tile.sides[1].cells.contains(&y));
        let target = |field: &[Rows<'_>; 2], at: usize, own: bool| match own {
            true => Target { row: field[1 - from].as_ptr().wrapping_add(at), stream },
            false => Target::default(),
        };
        let damped = |axis: usize, own: bool| {
            let (zones, index) = (&step.partition.zones[axis], [x, y][axis]);
            let slot = zones.slot(index).unwrap_or(0);
            let row = layout.row_in_zones(axis, slot, zones.velocities(), [y, x][axis]);
            let (at, factors) = (self.nth(row), &c.operators.axes[axis].factors);
            DampedFlux {
                keep: factors.keep[index],
                rate: factors.velocity_rate[index],
                old: position(fields.zones[axis][from], at),
                new: target(&fields.zones[axis], at, own && tile.sides[axis].own.contains(&index)),
            }
        };
        let row = RotatedFluxRow {
            len: *len,
            pressures: [position(fields.p[from], at), position(fields.q[from], at)],
            strides: [layout.stride(0), layout.stride(1)],
            angles: self.angles([x, y]),
            to: [to, to.wrapping_add(queue.component), to.wrapping_add(2 * queue.component)],
            damped: [
                if X_PML { damped(0, own_y) } else { DampedFlux::default() },
                if Y_PML { damped(1, own_x) } else { DampedFlux::default() },
            ],
            keep: z.keep[HALF_WIDTH..].as_ptr(),
            rate: z.velocity_rate[HALF_WIDTH..].as_ptr(),
            old: position(fields.w[from], at),
            new: target(&fields.w, at, own_x && own_y),
            prefetched: {
                let ([ct, st, cp, sp], next) = (self.angles([x, y + 1]), layout.stride(1));
                let leading = at + (HALF_WIDTH + 1) * next;
                let [p, q] = [position(fields.p[from], leading), position(fields.q[from], leading)];
                [p, q, position(fields.w[from], at + next), ct, st, cp, sp]
            },
        };
        flux::<L, X_PML, Y_PML>(&c.operators.stencils, &row)
    }

    /// Computes the pressures of a row, from fluxes that are all there.
    #[inline(always)]
    unsafe fn divergence<L: Lanes>(&self, [x, y]: [usize; 2]) {
        let OldTtiSweep { step, tile: ActiveTile { tile, len, .. }, fields, queue } = self;
        let TileStep { equation: OldTtiPropagator { c, ball }, from, stream, .. } = **step;
        let (layout, first) = (&c.layout, c.layout.active(2).start);
        let z = &c.operators.axes[2].factors;
        let at = layout.at([x, y, first]);
        let [mut rows_x, mut rows_y] = [[std::ptr::null(); TAPS]; 2];
        for (k, (row_x, row_y)) in rows_x.iter_mut().zip(&mut rows_y).enumerate() {
            let [tap_x, tap_y] = [x + k - HALF_WIDTH, y + k - HALF_WIDTH];
            let inside = tile.sides[0].cells.contains(&tap_x);
            *row_x = if inside { self.queued([tap_x, y]) } else { self.beside(tap_x) };
            *row_y = self.queued([x, tap_y]);
        }
        let split = |axis: usize| {
            let (index, factors) = ([x, y][axis], &c.operators.axes[axis].factors);
            let mut pressure = std::ptr::null_mut();
            if let Some(nth) = layout.in_layer(axis, index) {
                let row = layout.row_in_zones(axis, nth, 2 * layout.width(), [y, x][axis]);
                pressure = fields.split[axis].as_ptr().wrapping_add(self.nth(row));
            }
            let (rate, loss) = ([factors.pressure_rate[index]], [factors.loss[index]]);
            SplitPressure { rate, loss, pressure, apart: 0, ahead: layout.pitch }
        };
        let TiltedMedium { modulus, anisotropy: Anisotropy { e, s }, .. } = &*c.medium;
        let own = [c.row(e, [x, y]), c.row(s, [x, y])];
        let pressures = [position(fields.p[from], at), position(fields.q[from], at)];
        let place = ([x, y], first, *len);
        let pressures = without_source(step.injector, place, layout, queue.without_source, pressures);
        let [row_e, row_s] = in_ball(ball.as_ref(), place, queue.ball, own);
        let row = DivergenceRow {
            len: *len,
            taps: [rows_x, rows_y],
            component: queue.component,
            angles: self.angles([x, y]),
            modulus: c.row(modulus, [x, y]),
            e: row_e,
            s: row_s,
            squares: Axis::squares(&c.operators.axes),
            d: fields.d.as_ptr().wrapping_add(at),
            split: [
                if X_PML { split(0) } else { SplitPressure::NONE },
                if Y_PML { split(1) } else { SplitPressure::NONE },
            ],
            rate: z.pressure_rate[HALF_WIDTH..].as_ptr(),
            loss: z.loss[HALF_WIDTH..].as_ptr(),
            ends: &self.ends([x, y]),
            pressures,
            new: [
                Target { row: fields.p[1 - from].as_ptr().wrapping_add(at), stream },
                Target { row: fields.q[1 - from].as_ptr().wrapping_add(at), stream },
            ],
            prefetched: {
                let next = [x, y + 1];
                let d = position(fields.d, at + layout.stride(1));
                [d, c.row(modulus, next), c.row(e, next), c.row(s, next)]
            },
        };
        divergence::<L, X_PML, Y_PML>(&c.operators.stencils, &row)
    }

    /// Returns the ends of a row with their split pressures.
    #[inline]
    fn ends(&self, [x, y]: [usize; 2]) -> [SplitEnd; 2] {
        let ends = &self.step.partition.ends;
        let [near, far] = ends.damped;
        let nth = (y - HALF_WIDTH) * self.step.equation.c.layout.active(0).len() + x - HALF_WIDTH;
        let pressure = self.fields.split[2].as_ptr().wrapping_add(nth * (near + far));
        [
            SplitEnd { cells: 0..near, pressure },
            SplitEnd { cells: ends.len - far..ends.len, pressure: pressure.wrapping_add(near) },
        ]
    }
}
