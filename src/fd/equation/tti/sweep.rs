//! The step of a tile: a sweep along y that computes the fluxes of a plane, the parts of its divergences along x and z, and
//! the pressures of the plane four before it, whose divergences are complete then. Tiles do not depend on each other.

use super::TtiPropagator;
use super::coefficients::SelfAdjoint;
use super::material::TiltedMedium;
use super::rows::{
    FLUXES, PARTIAL_DIVERGENCES, PressureRow, Splats, TtiFluxRow, divergence_xz, flux, pressure,
};
use crate::fd::anisotropy::Anisotropy;
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::tiled::activity::ActiveTile;
use crate::fd::tiled::copies::{Room, in_ball, without_source};
use crate::fd::tiled::equation::TileStep;
use crate::fd::tiled::partition::Partition;
use crate::fd::vector::isa::RowWork;
use crate::fd::vector::lanes::{Lanes, WIDEST};

/// The number of the increments of `h`, after the pressures of even and of odd steps.
pub const INCREMENTS: usize = 4;
/// Planes whose fluxes along y are stored, and planes whose parts of divergences are.
const PLANES: usize = 2 * HALF_WIDTH + 1;
const DIVERGENCE_PLANES: usize = HALF_WIDTH + 1;

/// The memory of one thread. Each row lies between vectors of zeros.
#[derive(Clone, Copy)]
pub struct TtiQueue {
    /// Values from row to row.
    component: usize,
    /// Columns of a tile, at most.
    columns: usize,
    /// Fluxes of one plane, from four columns before the tile to four after it.
    plane: *mut f32,
    /// Fluxes along y, `[iy % PLANES][ix]`.
    along_y: *mut f32,
    /// Parts of divergences, `[iy % DIVERGENCE_PLANES][ix]`.
    partial_divergences: *mut f32,
    without_source: Room,
    ball: Room,
}

impl TtiQueue {
    /// For any tile of any tiling: returns the positions after `first`, and how many values they are.
    #[inline]
    pub fn new(tiles: &Partition, first: *mut f32) -> (TtiQueue, usize) {
        let (columns, len) = (tiles.columns, tiles.ends.len);
        // An odd number of lines, so that rows beside each other lie in different sets of a cache.
        let component = ((len / WIDEST + 1) | 1) * WIDEST;
        let mut taken = WIDEST;
        let mut take = |rows: usize| {
            taken += rows * component;
            first.wrapping_add(taken - rows * component)
        };
        let queue = TtiQueue {
            component,
            columns,
            plane: take(FLUXES * (columns + 2 * HALF_WIDTH)),
            along_y: take(PLANES * columns * 2),
            partial_divergences: take(DIVERGENCE_PLANES * columns * PARTIAL_DIVERGENCES),
            without_source: [take(1), take(1)],
            ball: [take(1), take(1)],
        };
        (queue, taken)
    }
}

/// A sweep as a kernel. Its helpers are inlined: `Isa::run` is compiled in another unit of the crate.
///
/// # Safety
/// To run it: the fields have the layout of the coefficients, and the queue has room for the tile. Meanwhile no other thread
/// uses this tile's part of what is written, nor writes what is read. The processor has the instructions.
pub struct TtiSweep<'a> {
    pub step: &'a TileStep<'a, TtiPropagator>,
    pub tile: &'a ActiveTile,
    pub queue: TtiQueue,
}

impl RowWork for TtiSweep<'_> {
    #[inline(always)]
    unsafe fn run<L: Lanes>(&self) {
        let SelfAdjoint { weights, first, .. } = &self.step.equation.c.operators;
        let [columns, planes] = self.tile.tile.sides.each_ref().map(|side| side.cells.clone());
        let splats = Splats::<L>::new(weights, first);
        for y in planes.start - HALF_WIDTH..planes.end + HALF_WIDTH {
            if planes.contains(&y) {
                for x in columns.start - HALF_WIDTH..columns.start {
                    self.flux::<L, true, false>(&splats, [x, y]);
                }
                for x in columns.clone() {
                    self.flux::<L, true, true>(&splats, [x, y]);
                }
                for x in columns.end..columns.end + HALF_WIDTH {
                    self.flux::<L, true, false>(&splats, [x, y]);
                }
                for x in columns.clone() {
                    let TtiQueue { component, .. } = self.queue;
                    let sizes = [FLUXES * component, component, self.tile.len];
                    divergence_xz(&splats, self.fluxes(x), sizes, self.partial_divergences([x, y]));
                }
            } else {
                for x in columns.clone() {
                    self.flux::<L, false, true>(&splats, [x, y]);
                }
            }
            if y >= planes.start + HALF_WIDTH {
                for x in columns.clone() {
                    self.pressure::<L>(&splats, [x, y - HALF_WIDTH]);
                }
            }
        }
    }
}

impl TtiSweep<'_> {
    /// Returns the number of a column in the tile, from four before it on.
    #[inline(always)]
    fn column(&self, x: usize) -> usize {
        x + HALF_WIDTH - self.tile.tile.sides[0].cells.start
    }

    /// Returns the first row of a column's fluxes in the plane.
    #[inline(always)]
    fn fluxes(&self, x: usize) -> *mut f32 {
        self.queue.plane.wrapping_add(self.column(x) * FLUXES * self.queue.component)
    }

    #[inline(always)]
    fn along_y(&self, [x, y]: [usize; 2]) -> *mut f32 {
        let column = self.column(x) - HALF_WIDTH;
        self.queue.along_y.wrapping_add((y % PLANES * self.queue.columns + column) * 2 * self.queue.component)
    }

    #[inline(always)]
    fn partial_divergences(&self, [x, y]: [usize; 2]) -> *mut f32 {
        let column = self.column(x) - HALF_WIDTH;
        let row = (y % DIVERGENCE_PLANES * self.queue.columns + column) * PARTIAL_DIVERGENCES;
        self.queue.partial_divergences.wrapping_add(row * self.queue.component)
    }

    /// Computes the fluxes of a row.
    #[inline(always)]
    unsafe fn flux<L: Lanes, const X: bool, const Y: bool>(&self, splats: &Splats<L>, [x, y]: [usize; 2]) {
        let (c, TtiQueue { component, .. }) = (&self.step.equation.c, self.queue);
        let (layout, null) = (&c.layout, std::ptr::null_mut());
        let plane = if X { self.fluxes(x) } else { null };
        let along_y = if Y { self.along_y([x, y]) } else { null };
        if !(layout.active(0).contains(&x) && layout.active(1).contains(&y)) {
            let to = if X { plane } else { along_y };
            std::slice::from_raw_parts_mut(to, 2 * component - WIDEST).fill(0.0);
            return;
        }
        let at = layout.at([x, y, layout.active(2).start]);
        let field = |number: usize| self.step.fields[number + self.step.from].as_ptr().wrapping_add(at);
        let row = TtiFluxRow {
            len: self.tile.len,
            pressures: [field(0), field(2)].map(<*mut f32>::cast_const),
            strides: [layout.stride(0), layout.stride(1)],
            axis: c.medium.rotation.each_ref().map(|field| c.row(field, [x, y])),
            component,
            plane,
            along_y,
            laplacian: if X && Y {
                self.partial_divergences([x, y]).wrapping_add(2 * component)
            } else {
                null
            },
            prefetched: {
                let [n_x, n_y, n_z] = c.medium.rotation.each_ref().map(|field| c.row(field, [x, y + 1]));
                let leading = (HALF_WIDTH + 1) * layout.stride(1);
                [field(0).wrapping_add(leading), field(2).wrapping_add(leading), n_x, n_y, n_z]
            },
        };
        flux::<L, X, Y>(splats, &row)
    }

    /// Computes the pressures of a row, whose divergences are complete but for y.
    #[inline(always)]
    unsafe fn pressure<L: Lanes>(&self, splats: &Splats<L>, [x, y]: [usize; 2]) {
        let TileStep { equation: TtiPropagator { c, ball }, fields, from, injector, .. } = *self.step;
        let (layout, TtiQueue { component, ball: room, .. }) = (&c.layout, self.queue);
        let TiltedMedium { modulus, anisotropy: Anisotropy { e, s }, .. } = &*c.medium;
        let SelfAdjoint { damping, .. } = &c.operators;
        let (first, len) = (layout.active(2).start, self.tile.len);
        let at = layout.at([x, y, first]);
        let field = |number: usize| fields[number].as_ptr().wrapping_add(at);
        let mut taps = [std::ptr::null(); PLANES];
        for (k, tap) in taps.iter_mut().enumerate() {
            *tap = self.along_y([x, y + k - HALF_WIDTH]).cast_const();
        }
        let pressures = [field(from), field(2 + from)].map(<*mut f32>::cast_const);
        let place = ([x, y], first, len);
        let own = [c.row(e, [x, y]), c.row(s, [x, y])];
        let pressures = without_source(injector, place, layout, self.queue.without_source, pressures);
        let [row_e, row_s] = in_ball(ball.as_ref(), place, room, own);
        let user = layout.width()..layout.width() + layout.inner[2];
        let row = PressureRow {
            len,
            taps,
            component,
            partial_divergences: self.partial_divergences([x, y]),
            medium: [c.row(modulus, [x, y]), row_e, row_s],
            damping: damping[0][x] + damping[1][y],
            damping_z: &c.operators.damping[2][HALF_WIDTH..],
            undamped: user.start.next_multiple_of(WIDEST)..user.end / WIDEST * WIDEST,
            increments: [field(INCREMENTS), field(INCREMENTS + 1)],
            pressures,
            new: [field(1 - from), field(3 - from)],
            stream: self.step.stream,
            prefetched: {
                let (next, stride) = ([x, y + 1], layout.stride(1));
                let [h, v] = [field(INCREMENTS), field(INCREMENTS + 1)].map(|row| row.wrapping_add(stride));
                [h, v, c.row(modulus, next), c.row(e, next), c.row(s, next)]
            },
        };
        pressure::<L>(splats, &row)
    }
}
