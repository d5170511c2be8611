//! What is done to rows of cells, a vector at a time. Each function is inlined into sweeps that are compiled once for
//! each kind of processor. Where several rows lie side by side, they are done together, as they share taps.

use super::lanes::{Lanes, WIDEST};
use crate::fd::stencil::REACH;
use crate::fd::storage::Scale;

/// Taps of a derivative.
pub const TAPS: usize = 2 * REACH;
/// Rows that are done together, at most.
pub const TOGETHER: usize = 4;
/// Taps of so many.
pub const ALL: usize = TAPS + TOGETHER - 1;

/// The coefficients of the derivative, as vectors.
///
/// # Safety
/// The processor has the instructions.
#[inline(always)]
pub unsafe fn splats<L: Lanes>(c: [f32; REACH]) -> [L::V; REACH] {
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
        for (u, s) in slopes.iter_mut().enumerate() {
            *s = slope::<L>(c, &f[u..]);
        }
        slopes
    }
}

/// The derivative between taps 3 and 4.
///
/// # Safety
/// The processor has the instructions.
#[inline(always)]
pub unsafe fn slope<L: Lanes>(c: [L::V; REACH], f: &[L::V]) -> L::V {
    // SAFETY: by the caller's promise.
    unsafe {
        let mut s = L::mul(c[0], L::sub(f[4], f[3]));
        s = L::fma(c[1], L::sub(f[5], f[2]), s);
        s = L::fma(c[2], L::sub(f[6], f[1]), s);
        L::fma(c[3], L::sub(f[7], f[0]), s)
    }
}

/// What the numbers of a row stand for.
#[inline(always)]
pub unsafe fn expanded<L: Lanes>(numbers: *const u16, scale: Scale, len: usize, to: *mut f32) {
    // SAFETY: by the caller's promise.
    unsafe {
        let (low, step) = (L::splat(scale.low), L::splat(scale.step));
        for i in (0..len).step_by(L::N) {
            L::store(to.add(i), L::fma(L::widened(numbers.wrapping_add(i)), step, low));
        }
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

/// How velocities of `U` rows move: `keep` and dt/h.
#[derive(Clone, Copy)]
pub struct Kept<const U: usize> {
    pub keep: [f32; U],
    pub rate: [f32; U],
    /// Of the first row; the others follow in `apart` values.
    pub old: *const f32,
    pub new: *mut f32,
    pub apart: usize,
    /// Which of the rows are written for the next step; other tiles write the others.
    pub own: [usize; 2],
    /// Past the caches.
    pub stream: bool,
    /// How many values on to ask for `old`.
    pub ahead: usize,
}

/// For the next step, past the caches or not.
#[inline(always)]
pub unsafe fn write<L: Lanes>(to: *mut f32, v: L::V, stream: bool) {
    // SAFETY: by the caller's promise.
    unsafe { if stream { L::stream(to, v) } else { L::store(to, v) } }
}

/// Velocities of `U` rows, from the slopes of the pressure.
#[inline(always)]
pub unsafe fn kept<L: Lanes, const U: usize>(c: [f32; REACH], row: Flux, b: [*const f32; U], kept: &Kept<U>) {
    // SAFETY: by the caller's promise.
    unsafe {
        let c = splats::<L>(c);
        for i in (0..row.len).step_by(L::N) {
            let s = slopes::<L, U>(c, |k| row.first_tap.add(k * row.stride + i));
            for u in 0..U {
                let q = L::mul(L::load(b[u].add(i)), s[u]);
                let at = u * kept.apart + i;
                let old = L::mul(L::splat(kept.keep[u]), L::load(kept.old.wrapping_add(at)));
                L::prefetch(kept.old.wrapping_add(at + kept.ahead));
                let v = L::fnma(L::splat(kept.rate[u]), q, old);
                L::store(row.to.add(u * row.apart + i), v);
                if kept.own[0] <= u && u < kept.own[1] {
                    write::<L>(kept.new.wrapping_add(at), v, kept.stream);
                }
            }
        }
    }
}

/// What damps the pressure of `U` rows, or does not.
#[derive(Clone, Copy)]
pub struct Split<const U: usize> {
    pub loss: [f32; U],
    pub rate: [f32; U],
    /// Of the first row; the others follow in `apart` values.
    pub part: *mut f32,
    pub apart: usize,
    /// How many values on to ask for `part`.
    pub ahead: usize,
}

/// What the term of row `u` changes, from the slope of the velocities.
#[inline(always)]
pub unsafe fn change<L: Lanes, const U: usize, const DAMPED: bool>(
    u: usize,
    i: usize,
    s: L::V,
    kappa: L::V,
    split: &Split<U>,
) -> L::V {
    // SAFETY: by the caller's promise.
    unsafe {
        let undamped = L::sub(L::splat(0.0), L::mul(L::mul(kappa, L::splat(split.rate[u])), s));
        if !DAMPED {
            return undamped;
        }
        let at = split.part.add(u * split.apart + i);
        let part = L::load(at);
        L::prefetch(at.wrapping_add(split.ahead));
        let c = L::fma(L::splat(split.loss[u]), part, undamped);
        L::store(at, L::add(part, c));
        c
    }
}

/// Where the terms along y of `U` rows go, which lie side by side along y: `[vector of z]` from each of `to` on.
#[derive(Clone, Copy)]
pub struct Turned<const U: usize> {
    pub to: [*mut f32; U],
    pub beside: usize,
}

impl<const U: usize> Turned<U> {
    /// Where the value `i` of row `u` is.
    #[inline(always)]
    pub fn at(&self, u: usize, i: usize) -> *mut f32 {
        self.to[u].wrapping_add(turned(i, self.beside))
    }
}

/// Where the `i`th value of a row is in `[vector of z][row]`.
#[inline(always)]
pub fn turned(i: usize, beside: usize) -> usize {
    i / WIDEST * beside + i % WIDEST
}

/// The eliminated terms: r² times the slope of what [`flux`] left.
#[inline(always)]
pub unsafe fn eliminated<L: Lanes, const U: usize>(
    c: [f32; REACH],
    len: usize,
    taps: &[*const f32; ALL],
    square: f32,
    turned: Turned<U>,
) {
    // SAFETY: by the caller's promise.
    unsafe {
        let c = splats::<L>(c);
        for i in (0..len).step_by(L::N) {
            let s = slopes::<L, U>(c, |k| taps[k].add(i));
            for (u, s) in s.into_iter().enumerate() {
                L::store(turned.at(u, i), L::mul(L::splat(square), s));
            }
        }
    }
}

/// The terms that are not eliminated.
#[inline(always)]
pub unsafe fn split<L: Lanes, const U: usize, const DAMPED: bool>(
    c: [f32; REACH],
    len: usize,
    taps: &[*const f32; ALL],
    kappa: [*const f32; U],
    split: &Split<U>,
    turned: Turned<U>,
) {
    // SAFETY: by the caller's promise.
    unsafe {
        let c = splats::<L>(c);
        for i in (0..len).step_by(L::N) {
            let s = slopes::<L, U>(c, |k| taps[k].add(i));
            for (u, s) in s.into_iter().enumerate() {
                let c = change::<L, U, DAMPED>(u, i, s, L::load(kappa[u].add(i)), split);
                L::store(turned.at(u, i), c);
            }
        }
    }
}
