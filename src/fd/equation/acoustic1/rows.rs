//! What is done to one row of cells. Everything here is inlined into sweeps that are compiled
//! once for each kind of processor, where the loops over `i` become vector code.

use crate::fd::stencil::REACH;

/// How a multiply and an add are rounded.
pub trait Arithmetic {
    /// `x * y + z`.
    fn fma(x: f32, y: f32, z: f32) -> f32;
}

/// Once, where the processor can.
pub struct Fused;
/// Twice, where it can't: a fused one would be a function call a number.
#[cfg(not(target_arch = "aarch64"))]
pub struct Separate;

impl Arithmetic for Fused {
    #[inline(always)]
    fn fma(x: f32, y: f32, z: f32) -> f32 {
        x.mul_add(y, z)
    }
}

#[cfg(not(target_arch = "aarch64"))]
impl Arithmetic for Separate {
    #[inline(always)]
    fn fma(x: f32, y: f32, z: f32) -> f32 {
        x * y + z
    }
}

/// A factor along a row: one value for each cell, or the same for all.
pub trait Factor: Copy {
    /// # Safety
    /// `i` is within the row.
    unsafe fn at(self, i: usize) -> f32;
}

impl Factor for f32 {
    #[inline(always)]
    unsafe fn at(self, _: usize) -> f32 {
        self
    }
}

impl Factor for &[f32] {
    #[inline(always)]
    unsafe fn at(self, i: usize) -> f32 {
        debug_assert!(i < self.len());
        // SAFETY: by the caller's promise.
        unsafe { *self.get_unchecked(i) }
    }
}

/// The eight values that a derivative at each cell of a row needs: tap `k` of cell `i` is
/// `values[k * stride + i]`, and the derivative lies between taps 3 and 4.
#[derive(Clone, Copy)]
pub struct Taps<'a> {
    pub values: &'a [f32],
    pub stride: usize,
    /// Of the derivative.
    pub c: [f32; REACH],
}

impl Taps<'_> {
    /// Values that the taps of a row of `len` cells span.
    #[inline(always)]
    pub fn span(stride: usize, len: usize) -> usize {
        7 * stride + len
    }

    /// # Safety
    /// `values` spans the row, and `i` is within it.
    #[inline(always)]
    unsafe fn slope<A: Arithmetic>(self, i: usize) -> f32 {
        debug_assert!(7 * self.stride + i < self.values.len());
        // SAFETY: by the caller's promise; the last tap is the largest index.
        let tap = |k: usize| unsafe { *self.values.get_unchecked(k * self.stride + i) };
        let c = self.c;
        let mut s = c[0] * (tap(4) - tap(3));
        s = A::fma(c[1], tap(5) - tap(2), s);
        s = A::fma(c[2], tap(6) - tap(1), s);
        A::fma(c[3], tap(7) - tap(0), s)
    }
}

/// A velocity from the pressure around it.
///
/// # Safety
/// `p` spans a row as long as `u`, and `b`, `keep` and `rate` are as long.
#[inline(always)]
pub unsafe fn velocity<A: Arithmetic>(
    u: &mut [f32],
    p: Taps<'_>,
    b: &[f32],
    keep: impl Factor,
    rate: impl Factor,
) {
    for (i, u) in u.iter_mut().enumerate() {
        // SAFETY: `i` is within the row.
        unsafe { *u = A::fma(-(rate.at(i) * b.at(i)), p.slope::<A>(i), keep.at(i) * *u) }
    }
}

/// The pressure from one velocity around it, where nothing is damped along its axis.
///
/// # Safety
/// `u` spans a row as long as `p`, and `kappa` is as long.
#[inline(always)]
pub unsafe fn pressure<A: Arithmetic>(p: &mut [f32], u: Taps<'_>, kappa: &[f32], rate: f32) {
    for (i, p) in p.iter_mut().enumerate() {
        // SAFETY: `i` is within the row.
        unsafe { *p = A::fma(-(kappa.at(i) * rate), u.slope::<A>(i), *p) }
    }
}

/// The same where the absorbing layer damps `part` of the pressure.
///
/// # Safety
/// `u` spans a row as long as `p`, and all others are as long.
#[inline(always)]
pub unsafe fn damped<A: Arithmetic>(
    p: &mut [f32],
    part: &mut [f32],
    u: Taps<'_>,
    kappa: &[f32],
    loss: impl Factor,
    rate: impl Factor,
) {
    for (i, (p, part)) in p.iter_mut().zip(part).enumerate() {
        // SAFETY: `i` is within the row.
        let change = unsafe { A::fma(loss.at(i), *part, -((kappa.at(i) * rate.at(i)) * u.slope::<A>(i))) };
        *part += change;
        *p += change;
    }
}
