//! A step of a tile in one pass: the next pressure from this one.
//!
//! **Order of operations**, the same on every device, `fma(x, y, z) = x y + z` rounded once. `b = 1/rho`,
//! `kappa = (rho vp) vp`, `r = dt/h`; `keep`, `rate`, `loss` are those of an axis's profile: `b`, `a dt/h`, `b - 1`.
//!
//! ```text
//! derivative of f                        s = c0 (f[1]-f[0]);  s = fma(c_m, f[1+m]-f[-m], s) for m = 1, 2, 3
//! fluxes of the pressure            q = b s(p)
//! where velocities are kept         u = fma(-rate, q, keep u)
//! undamped change  a = r² s(q) along y;  a = fma(r², s(q), a) along x, then along z;  d = fma(kappa, a, d)
//! change           i = d;  i = i + c along y, then x, then z, with
//!     strip        c = -((kappa rate) s(u))
//!     layer        c = fma(loss, part, -((kappa rate) s(u)));  part = part + c
//! pressure         p = p + i
//! ```
//!
//! A tile sweeps along y. Of the fluxes along y it keeps some planes, of what else a plane needs a few rows or registers; what it
//! needs of its neighbours' fluxes it computes itself. So tiles do not depend on each other, and every cell comes out the same
//! whichever tile it is in.

use super::activity::Part;
use super::flux_xy::Line;
use super::flux_z;
use super::prefetch::PREFETCH_DISTANCE;
use super::rows::ROWS_PER_BLOCK;
use super::scratch::Scratch;
use super::sweep::{Step, Sweep};
use super::update::{Update, update};
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::vector::lanes::Lanes;

/// Updates a part of a tile. `X_KEPT`, `Y_KEPT`: whether the tile keeps velocities along that axis.
///
/// # Safety
/// See [`Sweep`].
#[inline(always)]
pub unsafe fn sweep<L: Lanes, const X_KEPT: bool, const Y_KEPT: bool>(
    step: &Step<'_>,
    part: &Part,
    scratch: &mut Scratch,
) {
    // SAFETY: by the caller's promise.
    unsafe {
        Sweep::new(step, part, scratch).run::<L, X_KEPT, Y_KEPT>();
        if step.stream {
            L::fence();
        }
    }
}

impl Sweep<'_> {
    /// # Safety
    /// See [`Sweep`]; so for all below.
    #[inline(always)]
    unsafe fn run<L: Lanes, const X_KEPT: bool, const Y_KEPT: bool>(&self) {
        let [columns, planes] = self.tile.sides.each_ref().map(|side| side.cells.clone());
        let line = |(column, x): (usize, usize)| Line {
            other: x,
            fluxes: self.parts.y.wrapping_add(column * self.parts.row),
            apart: self.parts.plane,
            to: self.parts.term_y.wrapping_add(column * self.parts.row),
            to_apart: self.parts.plane,
            onto: None,
            b: (std::ptr::null(), 0),
            kappa: (std::ptr::null(), 0),
        };
        let lines = || columns.clone().enumerate().map(line);
        // SAFETY: by the caller's promise.
        unsafe {
            for line in lines() {
                self.begin_fluxes::<L, 1, Y_KEPT>(&line);
            }
            let mut y = planes.start;
            while y < planes.end {
                let together = self.rows_per_block::<1, Y_KEPT>(y);
                for line in lines() {
                    self.terms::<L, 1, Y_KEPT>(&line, y, together);
                }
                for u in 0..together {
                    self.plane::<L, X_KEPT, Y_KEPT>(
                        y + u,
                        self.parts.term_y.wrapping_add(u * self.parts.plane),
                    );
                }
                y += together;
            }
        }
    }

    /// All rows of a plane whose terms along y there are.
    #[inline(always)]
    unsafe fn plane<L: Lanes, const X_KEPT: bool, const Y_KEPT: bool>(&self, y: usize, term_y: *const f32) {
        let (layout, parts) = (&self.c.layout, &self.parts);
        let side = &self.tile.sides[0];
        // SAFETY: by the caller's promise.
        unsafe {
            let b = self.rows::<L>(&self.c.b, y, side.fluxes(), parts.b);
            let kappa = self.rows::<L>(&self.c.kappa, y, side.cells.clone(), parts.kappa);
            let source = self.clean_source(y);
            let mut line = Line {
                other: y,
                fluxes: parts.x,
                apart: parts.row,
                to: parts.term_x,
                to_apart: parts.row,
                onto: None,
                b,
                kappa,
            };
            self.begin_fluxes::<L, 0, X_KEPT>(&line);
            let mut x = side.cells.start;
            while x < side.cells.end {
                let term_y = term_y.wrapping_add((x - side.cells.start) * parts.row);
                line.onto = (!Y_KEPT).then_some(term_y);
                let together = self.rows_per_block::<0, X_KEPT>(x);
                self.terms::<L, 0, X_KEPT>(&line, x, together);
                for u in 0..together {
                    let x = x + u;
                    let nearest = layout.nearest(0, x);
                    let terms =
                        [parts.term_x.cast_const(), term_y].map(|first| first.wrapping_add(u * parts.row));
                    let c = [b, kappa].map(|(first, step)| first.wrapping_add(nearest * step));
                    self.finish::<L, X_KEPT, Y_KEPT>([x, y], terms, c, source == Some(x));
                }
                x += together;
            }
        }
    }

    /// What a row becomes, whose terms along y and x there are.
    #[inline(always)]
    unsafe fn finish<L: Lanes, const X_KEPT: bool, const Y_KEPT: bool>(
        &self,
        [x, y]: [usize; 2],
        [term_x, term_y]: [*const f32; 2],
        [b, kappa]: [*const f32; 2],
        source: bool,
    ) {
        let Sweep { geometry, parts, .. } = self;
        let ends = &geometry.ends;
        // Counted over the updated rows.
        let nth = (y - HALF_WIDTH) * self.c.layout.active(0).len() + x - HALF_WIDTH;
        let place = self.at(x, y);
        let p = self.old.wrapping_add(place);
        let q = parts.fluxes;
        // SAFETY: by the caller's promise.
        unsafe {
            let coming = self.coming([x, y]);
            let row = flux_z::Row { len: self.len, p, b, q, coming: [coming.p, coming.beside] };
            flux_z::fluxes::<L>(self.c.stencil, &row);
            let [apart, apart_damped] = [ends.kept, ends.damped].map(|both| both[0] + both[1]);
            let (mut at, mut at_damped) = (nth * apart, nth * apart_damped);
            for (end, table) in geometry.near_and_far.iter().enumerate() {
                let (kept, damped) = (ends.kept(end), ends.damped(end));
                let begin = kept.start;
                if begin >= self.len {
                    break;
                }
                flux_z::end::<L>(
                    self.c.stencil,
                    &flux_z::End {
                        keep: &table.keep,
                        velocity_rate: &table.velocity_rate,
                        loss: &table.loss,
                        pressure_rate: &table.pressure_rate,
                        q: q.wrapping_add(begin),
                        kappa: kappa.wrapping_add(begin),
                        old: self.kept_old[2].wrapping_add(at),
                        new: self.kept_new[2].wrapping_add(at),
                        stream: self.stream,
                        part: self.part[2].wrapping_add(at_damped),
                        damped: damped.clone(),
                        ahead: [ROWS_PER_BLOCK * apart, ROWS_PER_BLOCK * apart_damped],
                        to: parts.increments.wrapping_add(begin),
                    },
                );
                (at, at_damped) = (at + kept.len(), at_damped + damped.len());
            }
            update::<L, X_KEPT, Y_KEPT>(
                self.c.stencil,
                &Update {
                    len: self.len,
                    ends: [ends.kept(0), ends.kept(1)],
                    increments: parts.increments,
                    q,
                    squares: &geometry.squares,
                    term_y,
                    term_x,
                    kappa,
                    d: self.d.wrapping_add(place),
                    p: if source { parts.clean } else { p },
                    new: self.new.wrapping_add(place),
                    stream: self.stream,
                    ahead: PREFETCH_DISTANCE * self.c.layout.pitch,
                    coming: coming.b,
                },
            );
        }
    }

    /// The row of this tile and plane that has the source; its pressure goes on without it, from the scratch.
    #[inline(always)]
    unsafe fn clean_source(&self, y: usize) -> Option<usize> {
        let poles = self.poles?;
        let x = self.tile.sides[0].cells.clone().find(|x| poles.are_in([*x, y]))?;
        let at = self.at(x, y);
        // SAFETY: by the caller's promise.
        unsafe {
            let clean = std::slice::from_raw_parts_mut(self.parts.clean, self.len);
            clean.copy_from_slice(std::slice::from_raw_parts(self.old.wrapping_add(at), self.len));
            poles.restore(at, clean);
        }
        Some(x)
    }
}
