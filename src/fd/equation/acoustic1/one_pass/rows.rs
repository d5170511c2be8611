//! What is done to rows of cells, a vector at a time. Each function is inlined into sweeps that are compiled once for
//! each kind of processor. Where several rows lie side by side, they are done together, as they share taps.

use super::lanes::Lanes;
use crate::fd::stencil::REACH;

/// Taps of a derivative.
pub const TAPS: usize = 2 * REACH;
/// Rows that are done together, at most.
pub const TOGETHER: usize = 4;
/// Taps of so many.
const ALL: usize = TAPS + TOGETHER - 1;

/// The coefficients of the derivative, as vectors.
///
/// # Safety
/// The processor has the instructions.
#[inline(always)]
unsafe fn splats<L: Lanes>(c: [f32; REACH]) -> [L::V; REACH] {
    // SAFETY: by the caller's promise.
    unsafe { [L::splat(c[0]), L::splat(c[1]), L::splat(c[2]), L::splat(c[3])] }
}

/// The derivatives of `U` neighbours, the first of them between taps 3 and 4.
///
/// # Safety
/// The taps may be read; the processor has the instructions; so for all below.
#[inline(always)]
unsafe fn slopes<L: Lanes, const U: usize>(c: [L::V; REACH], tap: impl Fn(usize) -> *const f32) -> [L::V; U] {
    // SAFETY: by the caller's promise.
    unsafe {
        let mut f = [L::splat(0.0); ALL];
        for (k, f) in f.iter_mut().enumerate().take(TAPS + U - 1) {
            *f = L::load(tap(k));
        }
        let mut slopes = [L::splat(0.0); U];
        for (u, slope) in slopes.iter_mut().enumerate() {
            let mut s = L::mul(c[0], L::sub(f[u + 4], f[u + 3]));
            s = L::fma(c[1], L::sub(f[u + 5], f[u + 2]), s);
            s = L::fma(c[2], L::sub(f[u + 6], f[u + 1]), s);
            *slope = L::fma(c[3], L::sub(f[u + 7], f[u]), s);
        }
        slopes
    }
}

/// Where slopes are taken, and where they go: rows of `len` values.
#[derive(Clone, Copy)]
pub struct Flux {
    pub len: usize,
    /// Of the first row's first value, and values from tap to tap, which is from row to row.
    pub first_tap: *const f32,
    pub stride: usize,
    pub to: *mut f32,
    /// From row to row there.
    pub apart: usize,
}

/// Slopes of the pressure times b, of `U` rows.
#[inline(always)]
pub unsafe fn flux<L: Lanes, const U: usize>(c: [f32; REACH], row: Flux, b: [*const f32; U]) {
    // SAFETY: by the caller's promise.
    unsafe {
        let c = splats::<L>(c);
        for i in (0..row.len).step_by(L::N) {
            let s = slopes::<L, U>(c, |k| row.first_tap.add(k * row.stride + i));
            for u in 0..U {
                L::store(row.to.add(u * row.apart + i), L::mul(L::load(b[u].add(i)), s[u]));
            }
        }
    }
}

/// How velocities of a row move: `keep` and a dt/h.
#[derive(Clone, Copy)]
pub struct Kept {
    pub keep: f32,
    pub rate: f32,
    pub old: *const f32,
    /// Where the thread keeps them, and where they are kept for the next step: null if another tile does that.
    pub ring: *mut f32,
    pub new: *mut f32,
    /// How many values on to ask for `old`.
    pub ahead: usize,
}

/// For the next step: past the caches if it is not there any more then.
#[inline(always)]
unsafe fn write<L: Lanes, const STREAM: bool>(to: *mut f32, v: L::V) {
    // SAFETY: by the caller's promise.
    unsafe { if STREAM { L::stream(to, v) } else { L::store(to, v) } }
}

/// Velocities of a row, and if some are eliminated the slopes too.
#[inline(always)]
pub unsafe fn kept<L: Lanes, const ELIMINATED: bool, const STREAM: bool>(
    c: [f32; REACH],
    row: Flux,
    b: *const f32,
    kept: Kept,
) {
    // SAFETY: by the caller's promise.
    unsafe {
        let c = splats::<L>(c);
        for i in (0..row.len).step_by(L::N) {
            let [s] = slopes::<L, 1>(c, |k| row.first_tap.add(k * row.stride + i));
            let q = L::mul(L::load(b.add(i)), s);
            if ELIMINATED {
                L::store(row.to.add(i), q);
            }
            let old = L::mul(L::splat(kept.keep), L::load(kept.old.add(i)));
            L::prefetch(kept.old.wrapping_add(i + kept.ahead));
            let u = L::fnma(L::splat(kept.rate), q, old);
            L::store(kept.ring.add(i), u);
            if !kept.new.is_null() {
                write::<L, STREAM>(kept.new.add(i), u);
            }
        }
    }
}

pub const MIDDLE: u8 = 0;
pub const STRIP: u8 = 1;
pub const LAYER: u8 = 2;

/// The term of an axis where it is not eliminated.
#[derive(Clone, Copy)]
pub struct Split {
    pub loss: f32,
    pub rate: f32,
    pub part: *mut f32,
    /// How many values on to ask for `part`.
    pub ahead: usize,
}

/// What the term changes, from the slope of the velocities.
#[inline(always)]
unsafe fn change<L: Lanes, const TERM: u8>(i: usize, s: L::V, kappa: L::V, split: Split) -> L::V {
    // SAFETY: by the caller's promise.
    unsafe {
        let undamped = L::sub(L::splat(0.0), L::mul(L::mul(kappa, L::splat(split.rate)), s));
        if TERM != LAYER {
            return undamped;
        }
        let part = L::load(split.part.add(i));
        L::prefetch(split.part.wrapping_add(i + split.ahead));
        let c = L::fma(L::splat(split.loss), part, undamped);
        L::store(split.part.add(i), L::add(part, c));
        c
    }
}

/// The eliminated terms of `U` rows, side by side along their axis: r² times the slope of what [`flux`] left.
#[inline(always)]
pub unsafe fn eliminated<L: Lanes, const U: usize>(
    c: [f32; REACH],
    len: usize,
    taps: &[*const f32; ALL],
    square: f32,
    to: [*mut f32; U],
) {
    // SAFETY: by the caller's promise.
    unsafe {
        let c = splats::<L>(c);
        for i in (0..len).step_by(L::N) {
            let s = slopes::<L, U>(c, |k| taps[k].add(i));
            for u in 0..U {
                L::store(to[u].add(i), L::mul(L::splat(square), s[u]));
            }
        }
    }
}

/// The term of a row that is not eliminated.
#[inline(always)]
pub unsafe fn split<L: Lanes, const TERM: u8>(
    c: [f32; REACH],
    len: usize,
    taps: &[*const f32; ALL],
    kappa: *const f32,
    split: Split,
    to: *mut f32,
) {
    // SAFETY: by the caller's promise.
    unsafe {
        let c = splats::<L>(c);
        for i in (0..len).step_by(L::N) {
            let [s] = slopes::<L, 1>(c, |k| taps[k].add(i));
            L::store(to.add(i), change::<L, TERM>(i, s, L::load(kappa.add(i)), split));
        }
    }
}

/// An end of a row along z, whose velocities are kept. All pointers are to its first value.
pub struct End<'a> {
    pub keep: &'a [f32],
    pub velocity_rate: &'a [f32],
    /// The slopes times b.
    pub q: *const f32,
    pub old: *const f32,
    pub new: *mut f32,
    pub ahead: usize,
    /// Where the thread keeps them, with REACH values that are 0 before and after.
    pub u: *mut f32,
}

/// Velocities along z.
#[inline(always)]
pub unsafe fn end<L: Lanes, const STREAM: bool>(end: End<'_>) {
    // SAFETY: by the caller's promise.
    unsafe {
        for i in (0..end.keep.len()).step_by(L::N) {
            let old = L::mul(L::load(end.keep.as_ptr().add(i)), L::load(end.old.add(i)));
            let u = L::fnma(L::load(end.velocity_rate.as_ptr().add(i)), L::load(end.q.add(i)), old);
            L::prefetch(end.old.wrapping_add(i + end.ahead));
            L::store(end.u.add(i), u);
            write::<L, STREAM>(end.new.add(i), u);
        }
    }
}

/// And what they change; `part` is null where nothing is damped.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub unsafe fn end_change<L: Lanes>(
    c: [f32; REACH],
    rate: &[f32],
    loss: &[f32],
    u: *const f32,
    kappa: *const f32,
    part: *mut f32,
    ahead: usize,
    to: *mut f32,
) {
    // SAFETY: by the caller's promise.
    unsafe {
        let c = splats::<L>(c);
        for i in (0..rate.len()).step_by(L::N) {
            let [s] = slopes::<L, 1>(c, |k| u.add(i).sub(REACH).add(k));
            let rate = L::mul(L::load(kappa.add(i)), L::load(rate.as_ptr().add(i)));
            let mut change = L::sub(L::splat(0.0), L::mul(rate, s));
            if !part.is_null() {
                let old = L::load(part.add(i));
                L::prefetch(part.wrapping_add(i + ahead));
                change = L::fma(L::load(loss.as_ptr().add(i)), old, change);
                L::store(part.add(i), L::add(old, change));
            }
            L::store(to.add(i), change);
        }
    }
}

/// The last part of rows side by side: their pressure from what was collected along y and z.
#[derive(Clone, Copy)]
pub struct Last<const U: usize> {
    pub len: usize,
    /// Of the first row; the others follow in `apart` values.
    pub along_y: *const f32,
    pub along_z: *const f32,
    /// The first tap along x.
    pub x: *const f32,
    /// The first tap along z; the other rows' follow in `apart_z` values.
    pub z: *const f32,
    pub apart: usize,
    pub apart_z: usize,
    /// r² of x, and of z for each value of a row.
    pub square: f32,
    pub squares: *const f32,
    pub split: Split,
    pub kappa: [*const f32; U],
    pub p: [*const f32; U],
    /// The other rows follow in `pitch` values.
    pub d: *mut f32,
    pub new: *mut f32,
    pub pitch: usize,
    /// Rows that are asked for meanwhile: the pressure and b that the slopes of later planes need.
    pub coming: [[*const f32; 2]; U],
    /// How many values on to ask for `d` and kappa.
    pub ahead: usize,
}

#[inline(always)]
pub unsafe fn last<L: Lanes, const U: usize, const X: u8, const Y_MIDDLE: bool, const STREAM: bool>(
    c: [f32; REACH],
    row: &Last<U>,
) {
    // SAFETY: by the caller's promise.
    unsafe {
        let c = splats::<L>(c);
        for i in (0..row.len).step_by(L::N) {
            let x = slopes::<L, U>(c, |k| row.x.add(k * row.apart + i));
            for (u, x) in x.into_iter().enumerate() {
                let at = u * row.pitch + i;
                let y = L::load(row.along_y.add(u * row.apart + i));
                let kappa = L::load(row.kappa[u].add(i));
                L::prefetch(row.d.wrapping_add(at + row.ahead));
                L::prefetch(row.kappa[u].wrapping_add(i + row.ahead));
                L::prefetch_far(row.coming[u][0].wrapping_add(i));
                L::prefetch_far(row.coming[u][1].wrapping_add(i));
                let mut a = if Y_MIDDLE { y } else { L::splat(0.0) };
                if X == MIDDLE {
                    a = L::fma(L::splat(row.square), x, a);
                }
                let [z] = slopes::<L, 1>(c, |k| row.z.add(u * row.apart_z + k + i));
                a = L::fma(L::load(row.squares.add(i)), z, a);
                let d = L::fma(kappa, a, L::load(row.d.add(at)));
                L::store(row.d.add(at), d);
                let mut all = d;
                if !Y_MIDDLE {
                    all = L::add(all, y);
                }
                if X != MIDDLE {
                    all = L::add(all, change::<L, X>(i, x, kappa, row.split));
                }
                all = L::add(all, L::load(row.along_z.add(u * row.apart + i)));
                let p = L::add(L::load(row.p[u].add(i)), all);
                write::<L, STREAM>(row.new.add(at), p);
            }
        }
    }
}
