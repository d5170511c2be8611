//! A step of a tile in one pass: the next pressure from this one.
//!
//! **Order of operations**, the same on every device, `fma(x, y, z) = x y + z` rounded once. `kappa
//! = (rho vp) vp`, `r = dt/h`; `keep`, `rate`, `loss` are those of an axis's profile: `b`, `a
//! dt/h`, `b - 1`.
//!
//! ```text
//! derivative of f      s = c0 (f[1]-f[0]);  s = fma(c_m, f[1+m]-f[-m], s) for m = 1, 2, 3
//! 1/rho at i + 1/2     b = 1 / (rho[i]/2 + rho[i+1]/2),
//!                      with i in the place of i+1 if the density is taken at cells
//! flux                 q = b s(p)
//! PML velocity         u = fma(-rate, q, keep u)
//! undamped increment   a = r² s(q) along y;  a = fma(r², s(q), a) along x, then along z;
//!                      d = fma(kappa, a, d)
//! increment            i = d;  i = i + c along y, then x, then z, with
//!     strip            c = -((kappa rate) s(u))
//!     layer            c = fma(loss, split, -((kappa rate) s(u)));  split = split + c
//! pressure             p = p + i
//! ```
//!
//! A tile sweeps along y. It keeps the fluxes along y of some planes, and all other intermediate
//! values of a few rows or in registers. It computes the fluxes that it needs of its neighbours
//! itself. So tiles do not depend on each other, and every cell has the same value in any tile.

use std::marker::PhantomData;
use std::ops::Range;

use super::equation::OnePassEquation;
use super::flux_xy::Line;
use super::flux_z::{FluxRow, RowEnd};
use super::prefetch::PREFETCH_DISTANCE;
use super::sweep::Sweep;
use super::update::Update;
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::tiled::copies::{in_ball, without_source};
use crate::fd::tiled::tiles::ROWS_PER_BLOCK;

impl<P: OnePassEquation> Sweep<'_, P> {
    /// Updates the active part of the tile.
    pub unsafe fn run(&self) {
        let [columns, planes] = self.tile.sides.each_ref().map(|side| side.cells.clone());
        let line = |(column, x): (usize, usize)| Line {
            axis: 1,
            pml: self.tile.sides[1].pml,
            other: x,
            fluxes: self.scratch.y.wrapping_add(column * self.scratch.row),
            apart: self.scratch.plane,
            to: self.scratch.term_y.wrapping_add(column * self.scratch.row),
            onto: std::ptr::null(),
            b: (std::ptr::null(), 0),
            kappa: (std::ptr::null(), 0),
        };
        let lines = || columns.clone().enumerate().map(line);
        for line in lines() {
            self.begin_fluxes(&line);
        }
        let mut y = planes.start;
        while y < planes.end {
            let mut together = 1;
            for line in lines() {
                together = self.rows_per_block(&line, y);
                self.terms(&line, y, together);
            }
            for u in 0..together {
                self.plane(y + u, self.scratch.term_y.wrapping_add(u * self.scratch.plane));
            }
            y += together;
        }
    }

    /// Updates all rows of a plane whose terms along y are computed.
    unsafe fn plane(&self, y: usize, term_y: *const f32) {
        let (layout, scratch) = (&self.c.layout, &self.scratch);
        let side = &self.tile.sides[0];
        let beside = self.c.beside.unwrap_or(0);
        let Range { start, end } = side.fluxes();
        let b = self.rows(&self.c.b, y, start..end + beside, scratch.b, self.len + beside);
        let kappa = self.rows(&self.c.kappa, y, side.cells.clone(), scratch.kappa, self.len);
        let mixing = self.mixing_rows(y);
        let mut line = Line {
            axis: 0,
            pml: side.pml,
            other: y,
            fluxes: scratch.x,
            apart: scratch.row,
            to: scratch.term_x,
            onto: std::ptr::null(),
            b,
            kappa,
        };
        self.begin_fluxes(&line);
        let mut x = side.cells.start;
        while x < side.cells.end {
            let term_y = term_y.wrapping_add((x - side.cells.start) * scratch.row);
            line.onto = if self.tile.sides[1].pml { std::ptr::null() } else { term_y };
            let together = self.rows_per_block(&line, x);
            self.terms(&line, x, together);
            for u in 0..together {
                let x = x + u;
                let nearest = layout.nearest(0, x);
                let terms =
                    [scratch.term_x.cast_const(), term_y].map(|first| first.wrapping_add(u * scratch.row));
                let row = |(first, step): (*const f32, usize)| first.wrapping_add(nearest * step);
                let c = [b, kappa].map(row);
                self.finish([x, y], terms, c, mixing.map(row));
            }
            x += together;
        }
    }

    /// Updates a row whose terms along y and x are computed.
    unsafe fn finish(
        &self,
        [x, y]: [usize; 2],
        [term_x, term_y]: [*const f32; 2],
        [b, kappa]: [*const f32; 2],
        mixing: [*const f32; 2],
    ) {
        let Sweep { step, scratch, .. } = self;
        let layout = &self.c.layout;
        let ends = &step.partition.ends;
        // Number of the row among the updated rows.
        let nth = (y - HALF_WIDTH) * layout.active(0).len() + x - HALF_WIDTH;
        let place = self.at(x, y);
        let p = self.old.map(|old| old.wrapping_add(place));
        let q = scratch.fluxes;
        let row = ([x, y], self.first, self.len);
        let old = without_source(step.injector, row, layout, scratch.without_source, p);
        let mixing = in_ball(step.equation.ball.as_ref(), row, scratch.adapted, mixing);
        let prefetch = self.prefetch([x, y]);
        let (stencil, len) = (&self.c.stencil, self.len);
        let beside = self.c.beside.map_or(std::ptr::null(), |beside| b.wrapping_add(beside));
        let prefetched = [prefetch.p, prefetch.beside];
        step.isa.run(&FluxRow { stencil, len, p: p[1], b, beside, q, prefetched });
        let [apart, apart_damped] = [ends.pml, ends.damped].map(|both| both[0] + both[1]);
        let (mut at, mut at_damped) = (nth * apart, nth * apart_damped);
        let factors = self.c.axes[2].factors.all();
        for (pml, damped) in [0, 1].map(|end| (ends.pml(end), ends.damped(end))) {
            let begin = pml.start;
            if begin >= self.len {
                break;
            }
            step.isa.run(&RowEnd {
                stencil,
                len: pml.len(),
                factors: factors.map(|values| values[HALF_WIDTH + begin..].as_ptr()),
                q: q.wrapping_add(begin),
                kappa: kappa.wrapping_add(begin),
                velocity: self.velocity_new[2].wrapping_add(at),
                split: self.split[2].wrapping_add(at_damped),
                damped: damped.clone(),
                ahead: [ROWS_PER_BLOCK * apart, ROWS_PER_BLOCK * apart_damped],
                to: scratch.increments.wrapping_add(begin),
            });
            (at, at_damped) = (at + pml.len(), at_damped + damped.len());
        }
        step.isa.run(&Update {
            equation: PhantomData::<P>,
            stencil,
            len,
            pml: self.tile.sides.each_ref().map(|side| side.pml),
            ends: [ends.pml(0), ends.pml(1)],
            increments: scratch.increments,
            q,
            squares: &self.c.squares[HALF_WIDTH..],
            term_y,
            term_x,
            kappa,
            mixing,
            d: self.d.map(|d| d.wrapping_add(place)),
            p: old,
            new: self.new.map(|new| new.wrapping_add(place)),
            stream: step.stream,
            distance: PREFETCH_DISTANCE * layout.pitch,
            prefetched: prefetch.b,
        });
    }

    /// Returns the mixing coefficients of a plane, in the form of [`Sweep::rows`].
    unsafe fn mixing_rows(&self, y: usize) -> [(*const f32, usize); 2] {
        let cells = &self.tile.sides[0].cells;
        let mut rows = [(std::ptr::null(), 0); 2];
        let fields = self.step.equation.mixing().zip(self.scratch.mixing);
        for (rows, (field, buffer)) in rows.iter_mut().zip(fields) {
            *rows = self.rows(field, y, cells.clone(), buffer, self.len);
        }
        rows
    }
}
