//! What a sweep does along y: slopes of some planes at a time, of which it keeps as many as the next planes need, and the terms
//! that they make.

use std::ops::Range;

use super::lanes::{Lanes, WIDEST};
use super::pass::Sweep;
use super::rows::{self, Flux, Kept, Split, TAPS, TOGETHER, Turned};
use super::scratch::PLANES;
use crate::fd::stencil::REACH;

/// Rows on that are asked for meanwhile.
const AHEAD: usize = 2;

impl Sweep<'_> {
    /// Where the slopes along y at an index are kept.
    #[inline(always)]
    fn ring(&self, j: usize) -> *mut f32 {
        self.parts.y.wrapping_add((j - self.tile.sides[1].slopes().start) % PLANES * self.parts.plane)
    }

    /// Slopes along y of the tile's columns, at index `j` and perhaps some after it: how many.
    ///
    /// # Safety
    /// As for [`sweep`](super::pass::sweep); so for all below.
    #[inline(always)]
    pub unsafe fn slopes_along_y<L: Lanes, const KEPT: bool>(&self, j: usize) -> usize {
        let active = self.c.layout.active(1);
        // SAFETY: by the caller's promise. Updated cells have `REACH` neighbours on each side.
        unsafe {
            if !active.contains(&j) {
                // At rest.
                std::slice::from_raw_parts_mut(self.ring(j), self.parts.plane).fill(0.0);
                return 1;
            }
            // Planes that are done together lie one after the other.
            let place = (j - self.tile.sides[1].slopes().start) % PLANES;
            if j + TOGETHER <= active.end && place + TOGETHER <= PLANES {
                self.planes_of_slopes::<L, TOGETHER, KEPT>(j);
                return TOGETHER;
            }
            self.planes_of_slopes::<L, 1, KEPT>(j);
            1
        }
    }

    #[inline(always)]
    unsafe fn planes_of_slopes<L: Lanes, const U: usize, const KEPT: bool>(&self, j: usize) {
        let (layout, axis, zones) = (&self.c.layout, &self.c.axes[1], &self.geometry.zones[1]);
        let (nx, stride) = (layout.padded[0], layout.stride(1));
        let own = &self.tile.sides[1].own;
        let mut kept = Kept {
            keep: [0.0; U],
            rate: [0.0; U],
            old: std::ptr::null(),
            new: std::ptr::null_mut(),
            apart: nx * layout.pitch,
            own: [own.start.saturating_sub(j), own.end.saturating_sub(j)],
            stream: self.stream,
            ahead: AHEAD * layout.pitch,
        };
        for u in 0..U {
            (kept.keep[u], kept.rate[u]) = (axis.keep[j + u], axis.velocity_rate[j + u]);
        }
        let slot = zones.slot(j).unwrap_or(0) * nx;
        // SAFETY: by the caller's promise.
        unsafe {
            for (column, x) in self.tile.sides[0].cells.clone().enumerate() {
                let flux = Flux {
                    len: self.len,
                    first_tap: self.old.wrapping_add(self.at(x, j)).wrapping_sub((REACH - 1) * stride),
                    stride,
                    to: self.ring(j).wrapping_add(column * self.parts.row),
                    apart: self.parts.plane,
                };
                let mut b = [std::ptr::null(); U];
                for (u, b) in b.iter_mut().enumerate() {
                    *b = self.row::<L>(&self.c.b, [x, j + u], u);
                }
                if KEPT {
                    let at = self.nth(slot + x);
                    kept.old = self.kept_old[1].wrapping_add(at);
                    kept.new = self.kept_new[1].wrapping_add(at);
                    rows::kept::<L, U>(self.c.stencil, flux, b, &kept);
                } else {
                    rows::flux::<L, U>(self.c.stencil, flux, b);
                }
            }
        }
    }

    /// The terms along y of some planes.
    #[inline(always)]
    pub unsafe fn along_y<L: Lanes, const KEPT: bool>(&self, planes: Range<usize>) {
        let term = |y: usize| self.geometry.zones[1].term(y);
        let alike = !KEPT || planes.clone().all(|y| term(y) == term(planes.start));
        // SAFETY: by the caller's promise.
        unsafe {
            if alike && planes.len() == TOGETHER {
                self.terms_along_y::<L, TOGETHER, KEPT>(planes.start);
            } else {
                planes.for_each(|y| self.terms_along_y::<L, 1, KEPT>(y));
            }
        }
    }

    /// Of planes that have the same.
    #[inline(always)]
    unsafe fn terms_along_y<L: Lanes, const U: usize, const KEPT: bool>(&self, y: usize) {
        let (layout, parts, axis) = (&self.c.layout, &self.parts, &self.c.axes[1]);
        let nx = layout.padded[0];
        let layer = layout.in_layer(1, y);
        let mut planes = [std::ptr::null(); TAPS + TOGETHER - 1];
        for (k, plane) in planes.iter_mut().enumerate().take(TAPS + U - 1) {
            *plane = self.ring(y + k - REACH).cast_const();
        }
        let mut split = Split {
            loss: [0.0; U],
            rate: [0.0; U],
            part: std::ptr::null_mut(),
            apart: nx * layout.pitch,
            ahead: AHEAD * layout.pitch,
        };
        for u in 0..U {
            (split.loss[u], split.rate[u]) = (axis.loss[y + u], axis.pressure_rate[y + u]);
        }
        // SAFETY: by the caller's promise.
        unsafe {
            for (column, x) in self.tile.sides[0].cells.clone().enumerate() {
                let mut taps = planes;
                for tap in &mut taps {
                    *tap = tap.wrapping_add(column * parts.row);
                }
                let mut to = [std::ptr::null_mut(); U];
                let mut kappa = [std::ptr::null(); U];
                for u in 0..U {
                    to[u] = self.terms(y + u).wrapping_add(column * WIDEST);
                    kappa[u] =
                        if KEPT { self.row::<L>(&self.c.kappa, [x, y + u], u) } else { std::ptr::null() };
                }
                let turned = Turned { to, beside: parts.beside };
                split.part = self.part[1].wrapping_add(self.nth(layer.unwrap_or(0) * nx + x));
                match (KEPT, layer) {
                    (false, _) => rows::eliminated::<L, U>(
                        self.c.stencil,
                        self.len,
                        &taps,
                        self.geometry.square[1],
                        turned,
                    ),
                    (true, None) => {
                        rows::split::<L, U, false>(self.c.stencil, self.len, &taps, kappa, &split, turned)
                    }
                    (true, Some(_)) => {
                        rows::split::<L, U, true>(self.c.stencil, self.len, &taps, kappa, &split, turned)
                    }
                }
            }
        }
    }
}
