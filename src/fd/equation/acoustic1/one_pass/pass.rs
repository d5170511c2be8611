//! A step of a tile in one pass: the next pressure from this one.
//!
//! **Order of operations**, the same on every device, `fma(x, y, z) = x y + z` rounded once, slopes and names as
//! in the parent module:
//!
//! ```text
//! slopes of the pressure            q = b s(p)
//! where velocities are kept         u = fma(-rate, q, keep u)
//! undamped change  a = r² s(q) along y;  a = fma(r², s(q), a) along x, then along z;  d = fma(kappa, a, d)
//! change           i = d;  i = i + c along y, then x, then z, with
//!     strip        c = -((kappa rate) s(u))
//!     layer        c = fma(loss, part, -((kappa rate) s(u)));  part = part + c
//! pressure         p = p + i
//! ```
//!
//! A tile sweeps along y. Of the slopes along y it keeps some planes, of those along x a plane, of those along z a few
//! rows: what it needs of its neighbours' slopes it computes itself. So tiles do not depend on each other, and
//! every cell comes out the same whichever tile it is in.

use super::super::coefficients::Coefficients;
use super::super::layout::Tile;
use super::fields::Shared;
use super::geometry::Geometry;
use super::lanes::Lanes;
use super::rows::{self, Flux, Kept, LAYER, Last, MIDDLE, STRIP, Split, TAPS, TOGETHER};
use super::scratch::{PLANES, Rings, Scratch};
use super::source::Poles;
use super::zones::Term;
use crate::fd::stencil::REACH;

/// Rows on that are asked for meanwhile.
const AHEAD: usize = 2;

/// What a sweep is given.
#[derive(Clone, Copy)]
pub struct Step<'a> {
    pub c: &'a Coefficients,
    pub geometry: &'a Geometry,
    pub fields: Shared<'a>,
    /// Which of the two fields is the older one.
    pub from: usize,
    /// If the source is in it.
    pub poles: Option<&'a Poles>,
}

/// # Safety
/// The fields have the layout of the coefficients, the scratch room for the tile. Nobody else uses this tile's part of
/// what is written, nor writes what is read, meanwhile; and the processor has the instructions.
#[inline(always)]
pub unsafe fn sweep<L: Lanes, const STREAM: bool>(step: &Step<'_>, tile: &Tile, scratch: &mut Scratch) {
    let sweep = Sweep::new(step, tile, scratch);
    let zones = &step.geometry.zones[1];
    // SAFETY: by the caller's promise.
    unsafe {
        let mut next = tile.y.start - REACH;
        let mut y = tile.y.start;
        while y < tile.y.end {
            let end = (y + TOGETHER).min(tile.y.end);
            while next < end + REACH - 1 {
                next += sweep.slopes_along_y::<L, STREAM>(next);
            }
            let terms = (y..end).map(|y| zones.term(y));
            sweep.along_y::<L>(y, end - y, terms.clone().all(|term| term == Term::Middle));
            for y in y..end {
                sweep.plane::<L, STREAM>(y);
            }
            y = end;
        }
        if STREAM {
            L::fence();
        }
    }
}

/// A tile's sweep: where everything is. "Position" of a row is that of its first updated cell.
struct Sweep<'a> {
    c: &'a Coefficients,
    stencil: [f32; REACH],
    geometry: &'a Geometry,
    poles: Option<&'a Poles>,
    tile: &'a Tile,
    rings: Rings,
    old: *const f32,
    new: *mut f32,
    d: *mut f32,
    kept_old: [*const f32; 3],
    kept_new: [*mut f32; 3],
    part: [*mut f32; 3],
    /// First index along z, and values of a row.
    first: usize,
    len: usize,
}

impl<'a> Sweep<'a> {
    #[inline(always)]
    fn new(step: &Step<'a>, tile: &'a Tile, scratch: &mut Scratch) -> Sweep<'a> {
        let Step { c, geometry, fields, from, poles } = *step;
        Sweep {
            c,
            stencil: c.stencil,
            geometry,
            poles,
            tile,
            rings: Rings::new(scratch),
            old: fields.p[from].as_ptr(),
            new: fields.p[1 - from].as_ptr(),
            d: fields.d.as_ptr(),
            kept_old: fields.kept.map(|both| both[from].as_ptr().cast_const()),
            kept_new: fields.kept.map(|both| both[1 - from].as_ptr()),
            part: fields.part.map(|part| part.as_ptr()),
            first: c.layout.active(2).start,
            len: geometry.ends.len,
        }
    }

    #[inline(always)]
    fn b(&self, x: usize, y: usize) -> *const f32 {
        self.c.b.row(&self.c.layout, [x, y, self.first], 1).as_ptr()
    }

    #[inline(always)]
    fn kappa(&self, x: usize, y: usize) -> *const f32 {
        self.c.kappa.row(&self.c.layout, [x, y, self.first], 1).as_ptr()
    }

    /// Position of a row of a field.
    #[inline(always)]
    fn at(&self, x: usize, y: usize) -> usize {
        self.c.layout.at([x, y, self.first])
    }

    /// Position of a row of what is kept in some rows only.
    #[inline(always)]
    fn nth(&self, row: usize) -> usize {
        self.c.layout.row(row) + self.first
    }

    /// How many indices from one on can be done together: slopes that are only eliminated ones.
    #[inline(always)]
    fn together(&self, axis: usize, j: usize) -> usize {
        let zones = &self.geometry.zones[axis];
        let plain = |j: usize| zones.eliminated(j) && zones.slot(j).is_none();
        if (j..j + TOGETHER).all(plain) { TOGETHER } else { 1 }
    }

    /// Slopes along y of the tile's columns, at index `j` and perhaps some after it: how many.
    ///
    /// # Safety
    /// See [`sweep`]; so for all below.
    #[inline(always)]
    unsafe fn slopes_along_y<L: Lanes, const STREAM: bool>(&self, j: usize) -> usize {
        let layout = &self.c.layout;
        let stride = layout.stride(1);
        let plane = |ring: *mut f32, j: usize, column: usize| {
            ring.wrapping_add(j % PLANES * self.rings.plane + column * self.rings.row)
        };
        // Planes that are done together lie one after the other, if they begin at a multiple.
        let count = if j.is_multiple_of(TOGETHER) { self.together(1, j) } else { 1 };
        // SAFETY: by the caller's promise. Updated cells have `REACH` neighbours on each side.
        unsafe {
            for (column, x) in self.tile.x.clone().enumerate() {
                let [to, ring] = self.rings.y.map(|ring| plane(ring, j, column));
                let first_tap = self.old.wrapping_add(self.at(x, j)).wrapping_sub((REACH - 1) * stride);
                let flux = Flux { len: self.len, first_tap, stride, to, apart: self.rings.plane };
                if count == TOGETHER {
                    rows::flux::<L, TOGETHER>(
                        self.stencil,
                        flux,
                        [self.b(x, j), self.b(x, j + 1), self.b(x, j + 2), self.b(x, j + 3)],
                    );
                    continue;
                }
                let slot = self.geometry.zones[1].slot(j).map(|slot| self.nth(slot * layout.padded[0] + x));
                self.slope::<L, STREAM>(1, j, flux, self.b(x, j), ring, slot, self.tile.y.contains(&j));
            }
        }
        count
    }

    /// And along x, of plane `y`.
    #[inline(always)]
    unsafe fn slopes_along_x<L: Lanes, const STREAM: bool>(&self, j: usize, y: usize) -> usize {
        let stride = self.c.layout.stride(0);
        let count = self.together(0, j);
        // SAFETY: as above.
        unsafe {
            let row = (j + REACH - self.tile.x.start) * self.rings.row;
            let [to, ring] = self.rings.x.map(|rows| rows.wrapping_add(row));
            let first_tap = self.old.wrapping_add(self.at(j, y)).wrapping_sub((REACH - 1) * stride);
            let flux = Flux { len: self.len, first_tap, stride, to, apart: self.rings.row };
            let b = |j: usize| self.b(j, y);
            if count == TOGETHER {
                rows::flux::<L, TOGETHER>(self.stencil, flux, [b(j), b(j + 1), b(j + 2), b(j + 3)]);
            } else {
                let zones = &self.geometry.zones[0];
                let slot = zones.slot(j).map(|slot| self.nth(y * zones.kept() + slot));
                self.slope::<L, STREAM>(0, j, flux, b(j), ring, slot, self.tile.x.contains(&j));
            }
        }
        count
    }

    /// One row of slopes.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    unsafe fn slope<L: Lanes, const STREAM: bool>(
        &self,
        axis: usize,
        j: usize,
        flux: Flux,
        b: *const f32,
        ring: *mut f32,
        slot: Option<usize>,
        own: bool,
    ) {
        let eliminated = self.geometry.zones[axis].eliminated(j);
        let table = &self.c.axes[axis];
        // SAFETY: by the caller's promise.
        unsafe {
            let Some(at) = slot else {
                if eliminated {
                    rows::flux::<L, 1>(self.stencil, flux, [b]);
                } else {
                    // At rest.
                    std::slice::from_raw_parts_mut(ring, flux.len).fill(0.0);
                }
                return;
            };
            let new = if own { self.kept_new[axis].wrapping_add(at) } else { std::ptr::null_mut() };
            let old = self.kept_old[axis].wrapping_add(at);
            let ahead = AHEAD * self.c.layout.pitch;
            let kept = Kept { keep: table.keep[j], rate: table.velocity_rate[j], old, ring, new, ahead };
            if eliminated {
                rows::kept::<L, true, STREAM>(self.stencil, flux, b, kept)
            } else {
                rows::kept::<L, false, STREAM>(self.stencil, flux, b, kept)
            }
        }
    }

    /// The terms along y of some planes.
    #[inline(always)]
    unsafe fn along_y<L: Lanes>(&self, y: usize, count: usize, middle: bool) {
        let (layout, axis) = (&self.c.layout, &self.c.axes[1]);
        let rings = &self.rings;
        // SAFETY: by the caller's promise.
        unsafe {
            for (column, x) in self.tile.x.clone().enumerate() {
                let place = column * rings.row;
                let taps = |ring: *mut f32, y: usize| {
                    let mut taps = [std::ptr::null(); TAPS + TOGETHER - 1];
                    for (k, tap) in taps.iter_mut().enumerate() {
                        *tap = ring.wrapping_add((y + k - REACH) % PLANES * rings.plane + place).cast_const();
                    }
                    taps
                };
                let to = |y: usize| rings.along_y.wrapping_add(y % TOGETHER * rings.plane + place);
                let square = self.geometry.square[1];
                if middle && count == TOGETHER {
                    let to = [to(y), to(y + 1), to(y + 2), to(y + 3)];
                    rows::eliminated::<L, TOGETHER>(self.stencil, self.len, &taps(rings.y[0], y), square, to);
                    continue;
                }
                for y in y..y + count {
                    let layer = layout.in_layer(1, y).unwrap_or(0);
                    let part = self.part[1].wrapping_add(self.nth(layer * layout.padded[0] + x));
                    let ahead = AHEAD * layout.pitch;
                    let split = Split { loss: axis.loss[y], rate: axis.pressure_rate[y], part, ahead };
                    let kappa = self.kappa(x, y);
                    match self.geometry.zones[1].term(y) {
                        Term::Middle => rows::eliminated::<L, 1>(
                            self.stencil,
                            self.len,
                            &taps(rings.y[0], y),
                            square,
                            [to(y)],
                        ),
                        Term::Strip => rows::split::<L, STRIP>(
                            self.stencil,
                            self.len,
                            &taps(rings.y[1], y),
                            kappa,
                            split,
                            to(y),
                        ),
                        Term::Layer => rows::split::<L, LAYER>(
                            self.stencil,
                            self.len,
                            &taps(rings.y[1], y),
                            kappa,
                            split,
                            to(y),
                        ),
                    }
                }
            }
        }
    }

    /// All rows of a plane whose terms along y there are.
    #[inline(always)]
    unsafe fn plane<L: Lanes, const STREAM: bool>(&self, y: usize) {
        let zones = &self.geometry.zones[0];
        let mut next = self.tile.x.start - REACH;
        let mut x = self.tile.x.start;
        while x < self.tile.x.end {
            let middle = |x: usize| x < self.tile.x.end && zones.term(x) == Term::Middle;
            let count = if (x..x + TOGETHER).all(middle) { TOGETHER } else { 1 };
            // SAFETY: by the caller's promise.
            unsafe {
                while next < x + count + REACH - 1 {
                    next += self.slopes_along_x::<L, STREAM>(next, y);
                }
                // Not one after the other: what was just stored can't be loaded at another alignment at once.
                for u in 0..count {
                    self.slopes_along_z::<L, STREAM>(x + u, y, u);
                }
                for u in 0..count {
                    self.changes_along_z::<L>(x + u, y, u);
                }
                if count == TOGETHER {
                    self.rows::<L, TOGETHER, STREAM>(x, y);
                } else {
                    self.rows::<L, 1, STREAM>(x, y);
                }
            }
            x += count;
        }
    }

    /// All slopes along z of a row, and the velocities at its ends, into row `u` of those done together.
    #[inline(always)]
    unsafe fn slopes_along_z<L: Lanes, const STREAM: bool>(&self, x: usize, y: usize, u: usize) {
        let (ends, rings) = (&self.geometry.ends, &self.rings);
        let row = y * self.c.layout.padded[0] + x;
        // SAFETY: by the caller's promise.
        unsafe {
            let (p, b) = (self.old.add(self.at(x, y)), self.b(x, y));
            let to = rings.slopes.add(u * rings.padded);
            let flux = Flux { len: self.len, first_tap: p.sub(REACH - 1), stride: 1, to, apart: 0 };
            rows::flux::<L, 1>(self.stencil, flux, [b]);
            let mut at = row * (ends.kept[0] + ends.kept[1]);
            for (end, table) in self.geometry.near_and_far.iter().enumerate() {
                let begin = ends.from(end, ends.kept[end]);
                rows::end::<L, STREAM>(rows::End {
                    keep: &table.keep,
                    velocity_rate: &table.velocity_rate,
                    q: to.add(begin),
                    old: self.kept_old[2].add(at),
                    new: self.kept_new[2].add(at),
                    ahead: TOGETHER * (ends.kept[0] + ends.kept[1]),
                    u: rings.ends[end].add(u * rings.padded),
                });
                at += ends.kept[end];
            }
        }
    }

    /// What the velocities at the ends of row `u` change.
    #[inline(always)]
    unsafe fn changes_along_z<L: Lanes>(&self, x: usize, y: usize, u: usize) {
        let (ends, rings) = (&self.geometry.ends, &self.rings);
        let row = y * self.c.layout.padded[0] + x;
        // SAFETY: by the caller's promise.
        unsafe {
            let kappa = self.kappa(x, y);
            let mut at = row * (ends.damped[0] + ends.damped[1]);
            for (end, table) in self.geometry.near_and_far.iter().enumerate() {
                let (count, split, damped) = (ends.kept[end], ends.split[end], ends.damped[end]);
                // The split cells are the outer ones of those with kept velocities, and the damped ones of these.
                let pieces = if end == 0 {
                    [0..damped, damped..split]
                } else {
                    [split - damped..split, 0..split - damped]
                };
                let outer = if end == 0 { 0 } else { count - split };
                for (piece, part) in pieces.into_iter().zip([self.part[2].add(at), std::ptr::null_mut()]) {
                    let to = ends.from(end, split) + piece.start;
                    rows::end_change::<L>(
                        self.stencil,
                        &table.pressure_rate[piece.clone()],
                        &table.loss[piece.clone()],
                        rings.ends[end].add(u * rings.padded + outer + piece.start),
                        kappa.add(to),
                        part,
                        TOGETHER * (ends.damped[0] + ends.damped[1]),
                        rings.along_z.add(u * rings.row + to),
                    );
                }
                at += damped;
            }
        }
    }

    /// What the slopes along y of the planes that are done together next read first, so many planes on. Within the tile's
    /// rows; beyond the last plane it is this row once more.
    #[inline(always)]
    fn coming(&self, x: usize, y: usize) -> [*const f32; 2] {
        let last = self.c.layout.padded[1] - 1;
        let (p, b) = ((y + 2 * TOGETHER + REACH - 1).min(last), (y + TOGETHER + REACH - 1).min(last));
        [self.old.wrapping_add(self.at(x, p)), self.b(x, b)]
    }

    /// The next pressure of `U` rows whose slopes there are.
    #[inline(always)]
    unsafe fn rows<L: Lanes, const U: usize, const STREAM: bool>(&self, x: usize, y: usize) {
        let (layout, axis, rings) = (&self.c.layout, &self.c.axes[0], &self.rings);
        let zones = &self.geometry.zones;
        let (at, len) = (self.at(x, y), self.len);
        let (x_term, y_middle) = (zones[0].term(x), zones[1].term(y) == Term::Middle);
        // SAFETY: by the caller's promise.
        unsafe {
            let mut kappa = [std::ptr::null(); U];
            let mut coming = [[std::ptr::null(); 2]; U];
            let mut p = [std::ptr::null(); U];
            for u in 0..U {
                kappa[u] = self.kappa(x + u, y);
                coming[u] = self.coming(x + u, y);
                p[u] = self.old.add(at + u * layout.pitch);
                if let Some(poles) = self.poles.filter(|poles| poles.are_in([x + u, y])) {
                    // The pressure itself goes on without its source.
                    let clean = std::slice::from_raw_parts_mut(rings.clean, len);
                    clean.copy_from_slice(std::slice::from_raw_parts(p[u], len));
                    poles.restore(at + u * layout.pitch, clean);
                    p[u] = rings.clean;
                }
            }
            let column = (x - self.tile.x.start) * rings.row;
            let layer = layout.in_layer(0, x).unwrap_or(0);
            let row = Last {
                len,
                along_y: rings.along_y.add(y % TOGETHER * rings.plane + column),
                along_z: rings.along_z,
                x: rings.x[usize::from(x_term != Term::Middle)].add(column),
                z: rings.slopes.sub(REACH),
                apart: rings.row,
                apart_z: rings.padded,
                square: self.geometry.square[0],
                squares: self.geometry.squares.as_ptr(),
                split: Split {
                    loss: axis.loss[x],
                    rate: axis.pressure_rate[x],
                    part: self.part[0].wrapping_add(self.nth(y * 2 * layout.width() + layer)),
                    ahead: AHEAD * layout.pitch,
                },
                kappa,
                p,
                d: self.d.add(at),
                new: self.new.add(at),
                pitch: layout.pitch,
                coming,
                ahead: U * layout.pitch,
            };
            match (x_term, y_middle) {
                (Term::Middle, true) => rows::last::<L, U, MIDDLE, true, STREAM>(self.stencil, &row),
                (Term::Middle, false) => rows::last::<L, U, MIDDLE, false, STREAM>(self.stencil, &row),
                (Term::Strip, true) => rows::last::<L, U, STRIP, true, STREAM>(self.stencil, &row),
                (Term::Strip, false) => rows::last::<L, U, STRIP, false, STREAM>(self.stencil, &row),
                (Term::Layer, true) => rows::last::<L, U, LAYER, true, STREAM>(self.stencil, &row),
                (Term::Layer, false) => rows::last::<L, U, LAYER, false, STREAM>(self.stencil, &row),
            }
        }
    }
}
