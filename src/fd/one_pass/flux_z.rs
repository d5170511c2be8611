//! Fluxes and increments of a row along z. Its taps are neighbours in the same vectors, so they are
//! shifted within registers.

use super::rows::{TAPS, damped, derivative, halfway};
use crate::fd::centred::taps::Taps;
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::vector::isa::RowWork;
use crate::fd::vector::lanes::{Lanes, splats};

/// Computes the fluxes of a row: b times the derivatives of the pressure. Pointers are to the first
/// updated value. The row has a vector of pressures before and after it.
pub struct FluxRow<'a> {
    pub stencil: &'a [f32; HALF_WIDTH],
    pub len: usize,
    pub p: *const f32,
    /// See [`halfway`].
    pub b: *const f32,
    pub beside: *const f32,
    /// Target of the fluxes, between vectors of zeros.
    pub q: *mut f32,
    /// Rows to prefetch.
    pub prefetched: [*const f32; 2],
}

/// Returns the values from the fourth before a value to the fourth after it.
#[inline(always)]
unsafe fn taps<L: Lanes>([before, at, after]: [L::V; 3]) -> [L::V; TAPS + 1] {
    let Taps { before: [b1, b2, b3, b4], after: [a1, a2, a3, a4] } = Taps::<L>::along(before, at, after);
    [b4, b3, b2, b1, at, a1, a2, a3, a4]
}

/// Returns the derivative between a value and the one after it.
#[inline(always)]
pub unsafe fn derivative_after<L: Lanes>(c: [L::V; HALF_WIDTH], row: [L::V; 3]) -> L::V {
    derivative::<L>(c, &taps::<L>(row)[1..])
}

/// Returns the derivative between a value and the one before it.
#[inline(always)]
pub unsafe fn derivative_before<L: Lanes>(c: [L::V; HALF_WIDTH], row: [L::V; 3]) -> L::V {
    derivative::<L>(c, &taps::<L>(row))
}

impl RowWork for FluxRow<'_> {
    #[inline(always)]
    unsafe fn run<L: Lanes>(&self) {
        let c = splats::<L>(self.stencil);
        let (mut before, mut at) = (L::load(self.p.wrapping_sub(L::N)), L::load(self.p));
        for i in (0..self.len).step_by(L::N) {
            let after = L::load(self.p.add(i + L::N));
            L::prefetch_far(self.prefetched[0].wrapping_add(i));
            L::prefetch_far(self.prefetched[1].wrapping_add(i));
            let s = derivative_after::<L>(c, [before, at, after]);
            L::store(self.q.add(i), L::mul(halfway::<L>(self.b, self.beside, i), s));
            (before, at) = (at, after);
        }
        // A longer row may have left fluxes here.
        L::store(self.q.add(self.len), L::splat(0.0));
    }
}

/// Computes the PML velocities and the increments of one end of a row. Pointers are to the end's first
/// value.
pub struct RowEnd<'a> {
    pub stencil: &'a [f32; HALF_WIDTH],
    /// The end's values, and keep, velocity rate, loss and pressure rate of each.
    pub len: usize,
    pub factors: [*const f32; 4],
    pub q: *const f32,
    pub kappa: *const f32,
    pub velocity: *mut f32,
    /// Split pressure, and the values that have one.
    pub split: *mut f32,
    pub damped: std::ops::Range<usize>,
    /// Prefetch distances in values, of velocities and of the split pressure.
    pub ahead: [usize; 2],
    /// Target of the increments.
    pub to: *mut f32,
}

impl RowWork for RowEnd<'_> {
    #[inline(always)]
    unsafe fn run<L: Lanes>(&self) {
        let c = splats::<L>(self.stencil);
        let ([keep, velocity_rate, loss, pressure_rate], len) = (self.factors, self.len);
        let (mut u2, mut u1) = (L::splat(0.0), L::splat(0.0));
        for i in (0..=len).step_by(L::N) {
            let mut u = L::splat(0.0);
            if i < len {
                let velocity = self.velocity.add(i);
                let old = L::mul(L::load(keep.wrapping_add(i)), L::load(velocity));
                L::prefetch(velocity.wrapping_add(self.ahead[0]));
                u = L::fnma(L::load(velocity_rate.wrapping_add(i)), L::load(self.q.add(i)), old);
                L::store(velocity, u);
            }
            if i > 0 {
                let i = i - L::N;
                let rate = L::mul(L::load(self.kappa.add(i)), L::load(pressure_rate.wrapping_add(i)));
                let mut increment =
                    L::sub(L::splat(0.0), L::mul(rate, derivative_before::<L>(c, [u2, u1, u])));
                if self.damped.contains(&i) {
                    let split = self.split.wrapping_add(i).wrapping_sub(self.damped.start);
                    L::prefetch(split.wrapping_add(self.ahead[1]));
                    increment = damped::<L>(split, L::load(loss.wrapping_add(i)), increment);
                }
                L::store(self.to.add(i), increment);
            }
            (u2, u1) = (u1, u);
        }
    }
}
