//! Fluxes along x and along y, and the terms that they complete, for a few neighbouring rows at a
//! time. The sweep keeps the fluxes that the next rows need.

use super::policy::Policy;
use super::prefetch::PREFETCH_DISTANCE;
use super::rows::{self, FLUX_PLANES, PREFETCHED, PmlVelocity, ROWS_PER_BLOCK, RowBlock, SplitPressure};
use super::scratch::PLACES;
use super::sweep::Sweep;
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::vector::lanes::Lanes;

/// A line of rows along an axis: where its fluxes and terms are, and its coefficients.
#[derive(Clone, Copy)]
pub struct Line {
    /// Index along the other axis.
    pub other: usize,
    /// Fluxes, `[index % PLACES]`, and values from place to place.
    pub fluxes: *mut f32,
    pub apart: usize,
    /// Where the terms of the first of a few rows go, and of the others.
    pub to: *mut f32,
    pub to_apart: usize,
    /// Sums to which the first row's terms are added where velocities are eliminated; `to_apart` from row
    /// to row.
    pub onto: Option<*const f32>,
    /// RowBlock x only, coefficients: of the user's first row, and values from row to row.
    pub b: (*const f32, usize),
    pub kappa: (*const f32, usize),
}

impl<P: Policy> Sweep<'_, P> {
    /// The fluxes before the first row's last.
    ///
    /// # Safety
    /// See [`Sweep`]; so for all below.
    #[inline(always)]
    pub unsafe fn begin_fluxes<L: Lanes, const AXIS: usize, const PML: bool>(&self, line: &Line) {
        let first = self.tile.sides[AXIS].fluxes().start;
        let active = self.c.layout.active(AXIS);
        let mut j = first;
        // SAFETY: by the caller's promise. Updated cells have `HALF_WIDTH` neighbours on each side.
        unsafe {
            while j < first + FLUX_PLANES {
                if !active.contains(&j) {
                    self.row_block::<L, AXIS, 1, PML, false, false, false>(line, j);
                    j += 1;
                } else if j + ROWS_PER_BLOCK <= active.end.min(first + FLUX_PLANES) {
                    self.row_block::<L, AXIS, ROWS_PER_BLOCK, PML, false, true, false>(line, j);
                    j += ROWS_PER_BLOCK;
                } else {
                    self.row_block::<L, AXIS, 1, PML, false, true, false>(line, j);
                    j += 1;
                }
            }
        }
    }

    /// How many rows are done together from an index on.
    #[inline(always)]
    pub fn rows_per_block<const AXIS: usize, const PML: bool>(&self, at: usize) -> usize {
        let (cells, active) = (&self.tile.sides[AXIS].cells, self.c.layout.active(AXIS));
        let term = |at: usize| self.geometry.partition.zones[AXIS].term(at);
        let fits = at + ROWS_PER_BLOCK <= cells.end && at + HALF_WIDTH - 1 + ROWS_PER_BLOCK <= active.end;
        let alike = fits && (!PML || (1..ROWS_PER_BLOCK).all(|u| term(at + u) == term(at)));
        if alike { ROWS_PER_BLOCK } else { 1 }
    }

    /// Computes the terms of rows that are done together.
    ///
    /// # Safety
    /// See [`Sweep`].
    #[inline(always)]
    pub unsafe fn terms<L: Lanes, const AXIS: usize, const PML: bool>(
        &self,
        line: &Line,
        at: usize,
        together: usize,
    ) {
        let j = at + HALF_WIDTH - 1;
        let damped = PML && self.c.layout.in_layer(AXIS, at).is_some();
        // SAFETY: by the caller's promise.
        unsafe {
            match (together == ROWS_PER_BLOCK, damped) {
                (true, false) => self.row_block::<L, AXIS, ROWS_PER_BLOCK, PML, false, true, true>(line, j),
                (false, false) => self.row_block::<L, AXIS, 1, PML, false, true, true>(line, j),
                _ if !PML => {}
                (true, true) => self.row_block::<L, AXIS, ROWS_PER_BLOCK, PML, true, true, true>(line, j),
                (false, true) if j < self.c.layout.active(AXIS).end => {
                    self.row_block::<L, AXIS, 1, PML, true, true, true>(line, j)
                }
                (false, true) => self.row_block::<L, AXIS, 1, PML, true, false, true>(line, j),
            }
        }
    }

    #[inline(always)]
    fn place<const AXIS: usize>(&self, line: &Line, j: usize) -> *mut f32 {
        line.fluxes.wrapping_add((j - self.tile.sides[AXIS].fluxes().start) % PLACES * line.apart)
    }

    /// Fluxes from index `j` on, at rest if they do not `MOVE`, and the `TERMS` that they complete.
    #[inline(always)]
    unsafe fn row_block<
        L: Lanes,
        const AXIS: usize,
        const U: usize,
        const PML: bool,
        const DAMPED: bool,
        const MOVE: bool,
        const TERMS: bool,
    >(
        &self,
        line: &Line,
        j: usize,
    ) {
        let (layout, axis, zones) =
            (&self.c.layout, &self.c.axes[AXIS], &self.geometry.partition.zones[AXIS]);
        let (nx, stride) = (layout.padded[0], layout.stride(AXIS));
        let position = |i: usize| if AXIS == 0 { [i, line.other] } else { [line.other, i] };
        // The index of the first term.
        let at = (j + 1).wrapping_sub(HALF_WIDTH);
        // Position in an array that covers some indices of the axis only.
        let nth = |place: usize, places: usize| {
            self.nth(if AXIS == 0 {
                (line.other - HALF_WIDTH) * places + place
            } else {
                place * nx + line.other
            })
        };
        // SAFETY: by the caller's promise.
        unsafe {
            let [x, y] = position(j);
            let mut this = RowBlock::<U> {
                len: self.len,
                p: self.old[0].wrapping_add(self.at(x, y)).wrapping_sub((HALF_WIDTH - 1) * stride),
                stride,
                b: [std::ptr::null(); U],
                fluxes: [std::ptr::null_mut(); rows::MAX_TAPS],
                square: self.geometry.square[AXIS],
                onto: line.onto,
                to: line.to,
                to_apart: line.to_apart,
                kappa: [std::ptr::null(); U],
                prefetched: [[std::ptr::null(); PREFETCHED]; U],
                count: 0,
            };
            for k in 0..FLUX_PLANES + U {
                if k >= FLUX_PLANES || TERMS {
                    this.fluxes[k] = self.place::<AXIS>(line, j + k - FLUX_PLANES);
                }
            }
            for u in 0..U {
                if MOVE {
                    this.b[u] = if AXIS == 0 {
                        line.b.0.wrapping_add(layout.nearest(0, j + u) * line.b.1)
                    } else {
                        self.row::<L>(&self.c.b, position(j + u), u)
                    };
                }
                if TERMS && PML {
                    this.kappa[u] = if AXIS == 0 {
                        line.kappa.0.wrapping_add(layout.nearest(0, at + u) * line.kappa.1)
                    } else {
                        self.row::<L>(&self.c.kappa, position(at + u), ROWS_PER_BLOCK + u)
                    };
                }
            }
            let (mut velocity, mut split) = (PmlVelocity::<U>::NONE, SplitPressure::<U>::NONE);
            let ahead = if AXIS == 0 { ROWS_PER_BLOCK } else { PREFETCH_DISTANCE } * layout.pitch;
            if PML && MOVE {
                let own = &self.tile.sides[AXIS].own;
                let first = nth(zones.slot(j).unwrap_or(0), zones.velocities());
                velocity = PmlVelocity {
                    keep: std::array::from_fn(|u| axis.keep[j + u]),
                    rate: std::array::from_fn(|u| axis.velocity_rate[j + u]),
                    old: self.velocity_old[AXIS].wrapping_add(first),
                    new: self.velocity_new[AXIS].wrapping_add(first),
                    apart: stride,
                    own: [own.start.saturating_sub(j), own.end.saturating_sub(j)],
                    stream: self.stream,
                    ahead,
                };
            }
            if PML && TERMS {
                let first = nth(layout.in_layer(AXIS, at).unwrap_or(0), 2 * layout.width());
                split = SplitPressure {
                    loss: std::array::from_fn(|u| axis.loss[at + u]),
                    rate: std::array::from_fn(|u| axis.pressure_rate[at + u]),
                    pressure: self.split[AXIS].wrapping_add(first),
                    apart: stride,
                    ahead,
                };
            }
            // The rows that the planes' updates read are prefetched while the fluxes along y are computed.
            if AXIS == 1 && TERMS {
                this.prefetched = std::array::from_fn(|u| self.update_rows(position(at.wrapping_add(u))));
                this.count = if P::PRESSURES == 1 { 2 } else { 4 + P::MIXING };
            }
            rows::compute::<L, U, PML, DAMPED, MOVE, TERMS>(self.c.stencil, &this, &velocity, &split);
        }
    }
}
