//! What is done along x and along y: slopes, and the terms that they complete, of a few rows beside each other at a time. As many slopes
//! are kept as the next rows need.

use super::prefetch::AHEAD;
use super::rows::{self, Along, HELD, Kept, Split, TOGETHER};
use super::scratch::PLACES;
use super::sweep::Sweep;
use crate::fd::stencil::REACH;
use crate::fd::vector::lanes::Lanes;

/// A line of rows along an axis: where its slopes and terms are, and its coefficients.
#[derive(Clone, Copy)]
pub struct Line {
    /// Index along the other axis.
    pub other: usize,
    /// Slopes, `[index % PLACES]`, and values from place to place.
    pub slopes: *mut f32,
    pub apart: usize,
    /// Where the terms of the first of a few rows go, and of the others.
    pub to: *mut f32,
    pub to_apart: usize,
    /// What the first one's are added to if they are eliminated, and the others', so far apart as well.
    pub onto: Option<*const f32>,
    /// Along x only, coefficients: of the user's first row, and values from row to row.
    pub b: (*const f32, usize),
    pub kappa: (*const f32, usize),
}

impl Sweep<'_> {
    /// The slopes before the first row's last.
    ///
    /// # Safety
    /// See [`Sweep`]; so for all below.
    #[inline(always)]
    pub unsafe fn begin_along<L: Lanes, const AXIS: usize, const KEPT: bool>(&self, line: &Line) {
        let first = self.tile.sides[AXIS].slopes().start;
        let active = self.c.layout.active(AXIS);
        let mut j = first;
        // SAFETY: by the caller's promise. Updated cells have `REACH` neighbours on each side.
        unsafe {
            while j < first + HELD {
                if !active.contains(&j) {
                    self.few::<L, AXIS, 1, KEPT, false, false, false>(line, j);
                    j += 1;
                } else if j + TOGETHER <= active.end.min(first + HELD) {
                    self.few::<L, AXIS, TOGETHER, KEPT, false, true, false>(line, j);
                    j += TOGETHER;
                } else {
                    self.few::<L, AXIS, 1, KEPT, false, true, false>(line, j);
                    j += 1;
                }
            }
        }
    }

    /// How many rows are done together from an index on.
    #[inline(always)]
    pub fn together<const AXIS: usize, const KEPT: bool>(&self, at: usize) -> usize {
        let (cells, active) = (&self.tile.sides[AXIS].cells, self.c.layout.active(AXIS));
        let term = |at: usize| self.geometry.zones[AXIS].term(at);
        let fits = at + TOGETHER <= cells.end && at + REACH - 1 + TOGETHER <= active.end;
        let alike = fits && (!KEPT || (1..TOGETHER).all(|u| term(at + u) == term(at)));
        if alike { TOGETHER } else { 1 }
    }

    /// The terms of rows that are done together.
    #[inline(always)]
    pub unsafe fn along<L: Lanes, const AXIS: usize, const KEPT: bool>(
        &self,
        line: &Line,
        at: usize,
        together: usize,
    ) {
        let j = at + REACH - 1;
        let damped = KEPT && self.c.layout.in_layer(AXIS, at).is_some();
        // SAFETY: by the caller's promise.
        unsafe {
            match (together == TOGETHER, damped) {
                (true, false) => self.few::<L, AXIS, TOGETHER, KEPT, false, true, true>(line, j),
                (false, false) => self.few::<L, AXIS, 1, KEPT, false, true, true>(line, j),
                _ if !KEPT => {}
                (true, true) => self.few::<L, AXIS, TOGETHER, KEPT, true, true, true>(line, j),
                (false, true) if j < self.c.layout.active(AXIS).end => {
                    self.few::<L, AXIS, 1, KEPT, true, true, true>(line, j)
                }
                (false, true) => self.few::<L, AXIS, 1, KEPT, true, false, true>(line, j),
            }
        }
    }

    #[inline(always)]
    fn place<const AXIS: usize>(&self, line: &Line, j: usize) -> *mut f32 {
        line.slopes.wrapping_add((j - self.tile.sides[AXIS].slopes().start) % PLACES * line.apart)
    }

    /// Slopes from index `j` on, at rest if they do not `MOVE`, and the `TERMS` that they complete.
    #[inline(always)]
    unsafe fn few<
        L: Lanes,
        const AXIS: usize,
        const U: usize,
        const KEPT: bool,
        const DAMPED: bool,
        const MOVE: bool,
        const TERMS: bool,
    >(
        &self,
        line: &Line,
        j: usize,
    ) {
        let (layout, axis, zones) = (&self.c.layout, &self.c.axes[AXIS], &self.geometry.zones[AXIS]);
        let (nx, stride) = (layout.padded[0], layout.stride(AXIS));
        let position = |i: usize| if AXIS == 0 { [i, line.other] } else { [line.other, i] };
        // The index of the first term.
        let at = (j + 1).wrapping_sub(REACH);
        // Of what is kept in some places along the axis only.
        let nth = |place: usize, places: usize| {
            self.nth(if AXIS == 0 { (line.other - REACH) * places + place } else { place * nx + line.other })
        };
        // SAFETY: by the caller's promise.
        unsafe {
            let [x, y] = position(j);
            let mut this = Along::<U> {
                len: self.len,
                p: self.old.wrapping_add(self.at(x, y)).wrapping_sub((REACH - 1) * stride),
                stride,
                b: [std::ptr::null(); U],
                slopes: [std::ptr::null_mut(); rows::ALL],
                square: self.geometry.square[AXIS],
                onto: line.onto,
                to: line.to,
                to_apart: line.to_apart,
                kappa: [std::ptr::null(); U],
                asked: &[],
            };
            for k in 0..HELD + U {
                if k >= HELD || TERMS {
                    this.slopes[k] = self.place::<AXIS>(line, j + k - HELD);
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
                if TERMS && KEPT {
                    this.kappa[u] = if AXIS == 0 {
                        line.kappa.0.wrapping_add(layout.nearest(0, at + u) * line.kappa.1)
                    } else {
                        self.row::<L>(&self.c.kappa, position(at + u), TOGETHER + u)
                    };
                }
            }
            let (mut kept, mut split) = (Kept::<U>::NONE, Split::<U>::NONE);
            let ahead = if AXIS == 0 { TOGETHER } else { AHEAD } * layout.pitch;
            if KEPT && MOVE {
                let own = &self.tile.sides[AXIS].own;
                let first = nth(zones.slot(j).unwrap_or(0), zones.kept());
                kept = Kept {
                    keep: std::array::from_fn(|u| axis.keep[j + u]),
                    rate: std::array::from_fn(|u| axis.velocity_rate[j + u]),
                    old: self.kept_old[AXIS].wrapping_add(first),
                    new: self.kept_new[AXIS].wrapping_add(first),
                    apart: stride,
                    own: [own.start.saturating_sub(j), own.end.saturating_sub(j)],
                    stream: self.stream,
                    ahead,
                };
            }
            if KEPT && TERMS {
                let first = nth(layout.in_layer(AXIS, at).unwrap_or(0), 2 * layout.width());
                split = Split {
                    loss: std::array::from_fn(|u| axis.loss[at + u]),
                    rate: std::array::from_fn(|u| axis.pressure_rate[at + u]),
                    part: self.part[AXIS].wrapping_add(first),
                    apart: stride,
                    ahead,
                };
            }
            // What the planes' rows add to, while their slopes along y are made of what there is.
            let coming: [_; U] = std::array::from_fn(|u| {
                let [x, y] = position(at.wrapping_add(u));
                if AXIS == 0 || !TERMS {
                    return [std::ptr::null(); 2];
                }
                [self.d.wrapping_add(self.at(x, y)).cast_const(), self.asked(&self.c.kappa, [x, y])]
            });
            if AXIS == 1 && TERMS {
                this.asked = coming.as_flattened();
            }
            rows::along::<L, U, KEPT, DAMPED, MOVE, TERMS>(self.c.stencil, &this, &kept, &split);
        }
    }
}
