//! A row along z: its taps are neighbours in the same vectors, so they are shifted out of registers.

use super::rows::{derivative, splats, write};
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::vector::lanes::Lanes;

/// A row. Pointers are to its first updated value.
#[derive(Clone, Copy)]
pub struct FluxRow {
    pub len: usize,
    pub p: *const f32,
    pub b: *const f32,
    /// Room for its fluxes of the pressure times b, between vectors of zeros.
    pub q: *mut f32,
    /// Rows to ask for meanwhile.
    pub coming: [*const f32; 2],
}

/// The derivative between a value and the one after it.
#[inline(always)]
pub unsafe fn derivative_after<L: Lanes>(c: [L::V; HALF_WIDTH], before: L::V, at: L::V, after: L::V) -> L::V {
    // SAFETY: by the caller's promise.
    unsafe {
        derivative::<L>(
            c,
            &[
                L::earlier::<3>(before, at),
                L::earlier::<2>(before, at),
                L::earlier::<1>(before, at),
                at,
                L::later::<1>(at, after),
                L::later::<2>(at, after),
                L::later::<3>(at, after),
                L::later::<4>(at, after),
            ],
        )
    }
}

/// And between the one before it and the value.
#[inline(always)]
pub unsafe fn derivative_before<L: Lanes>(
    c: [L::V; HALF_WIDTH],
    before: L::V,
    at: L::V,
    after: L::V,
) -> L::V {
    // SAFETY: by the caller's promise.
    unsafe {
        derivative::<L>(
            c,
            &[
                L::earlier::<4>(before, at),
                L::earlier::<3>(before, at),
                L::earlier::<2>(before, at),
                L::earlier::<1>(before, at),
                at,
                L::later::<1>(at, after),
                L::later::<2>(at, after),
                L::later::<3>(at, after),
            ],
        )
    }
}

/// Fluxes of the pressure times b.
///
/// # Safety
/// The row has a vector of pressures before and after it that may be read; the processor has the instructions; so for
/// all below.
#[inline(always)]
pub unsafe fn fluxes<L: Lanes>(c: [f32; HALF_WIDTH], row: &FluxRow) {
    // SAFETY: by the caller's promise.
    unsafe {
        let c = splats::<L>(c);
        let (mut before, mut at) = (L::load(row.p.wrapping_sub(L::N)), L::load(row.p));
        for i in (0..row.len).step_by(L::N) {
            let after = L::load(row.p.add(i + L::N));
            L::prefetch_far(row.coming[0].wrapping_add(i));
            L::prefetch_far(row.coming[1].wrapping_add(i));
            let s = derivative_after::<L>(c, before, at, after);
            L::store(row.q.add(i), L::mul(L::load(row.b.add(i)), s));
            (before, at) = (at, after);
        }
        // A longer row may have been there before.
        L::store(row.q.add(row.len), L::splat(0.0));
    }
}

/// An end of a row, which stores PML velocities: tables and pointers are to its first value.
pub struct RowEnd<'a> {
    pub keep: &'a [f32],
    pub velocity_rate: &'a [f32],
    pub loss: &'a [f32],
    pub pressure_rate: &'a [f32],
    pub q: *const f32,
    pub kappa: *const f32,
    pub old: *const f32,
    pub new: *mut f32,
    /// Whether that is written past the caches.
    pub stream: bool,
    /// The split pressure, and which of the values have one.
    pub split: *mut f32,
    pub damped: std::ops::Range<usize>,
    /// How many values on to ask for old velocities and scratch.
    pub ahead: [usize; 2],
    /// Where the increments go.
    pub to: *mut f32,
}

/// Velocities, and what they change.
#[inline(always)]
pub unsafe fn end<L: Lanes>(c: [f32; HALF_WIDTH], end: &RowEnd<'_>) {
    // SAFETY: by the caller's promise.
    unsafe {
        let c = splats::<L>(c);
        let table = |values: &[f32], i: usize| values.as_ptr().wrapping_add(i);
        let (mut u2, mut u1) = (L::splat(0.0), L::splat(0.0));
        for i in (0..=end.keep.len()).step_by(L::N) {
            let mut u = L::splat(0.0);
            if i < end.keep.len() {
                let old = L::mul(L::load(table(end.keep, i)), L::load(end.old.add(i)));
                L::prefetch(end.old.wrapping_add(i + end.ahead[0]));
                u = L::fnma(L::load(table(end.velocity_rate, i)), L::load(end.q.add(i)), old);
                write::<L>(end.new.add(i), u, end.stream);
            }
            if i > 0 {
                let i = i - L::N;
                let rate = L::mul(L::load(end.kappa.add(i)), L::load(table(end.pressure_rate, i)));
                let mut increment = L::sub(L::splat(0.0), L::mul(rate, derivative_before::<L>(c, u2, u1, u)));
                if end.damped.contains(&i) {
                    let split = end.split.wrapping_add(i).wrapping_sub(end.damped.start);
                    let old = L::load(split);
                    L::prefetch(split.wrapping_add(end.ahead[1]));
                    increment = L::fma(L::load(table(end.loss, i)), old, increment);
                    L::store(split, L::add(old, increment));
                }
                L::store(end.to.add(i), increment);
            }
            (u2, u1) = (u1, u);
        }
    }
}
