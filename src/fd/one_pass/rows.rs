//! Kernels on rows of cells, a vector at a time. Neighbouring rows are computed together, because
//! they share taps.

use crate::fd::stencil::HALF_WIDTH;
use crate::fd::storage::Scale;
use crate::fd::tiled::tiles::ROWS_PER_BLOCK;
use crate::fd::vector::isa::RowWork;
use crate::fd::vector::lanes::{Lanes, WIDEST, splats};

/// Taps of a derivative.
pub const TAPS: usize = 2 * HALF_WIDTH;
/// Most rows that only the update of a row reads, and no other part of the sweep.
pub const PREFETCHED: usize = 6;
/// Fluxes that a term reads before its last.
pub const FLUX_PLANES: usize = TAPS - 1;
/// Taps of the terms of a block of rows.
pub const MAX_TAPS: usize = FLUX_PLANES + ROWS_PER_BLOCK;

/// Returns the derivatives of `U` neighbours, the first of them between taps 3 and 4.
///
/// # Safety
/// The taps may be read; the processor has the instructions. The same holds for all functions
/// below.
#[inline(always)]
pub unsafe fn derivatives<L: Lanes, const U: usize>(
    c: [L::V; HALF_WIDTH],
    tap: impl Fn(usize) -> *const f32,
) -> [L::V; U] {
    let mut f = [L::splat(0.0); MAX_TAPS];
    for (k, f) in f.iter_mut().enumerate().take(TAPS + U - 1) {
        *f = L::load(tap(k));
    }
    let mut derivatives = [L::splat(0.0); U];
    for (u, s) in derivatives.iter_mut().enumerate() {
        *s = derivative::<L>(c, &f[u..]);
    }
    derivatives
}

/// Returns the derivative between taps 3 and 4.
#[inline(always)]
pub unsafe fn derivative<L: Lanes>(c: [L::V; HALF_WIDTH], f: &[L::V]) -> L::V {
    let mut s = L::mul(c[0], L::sub(f[4], f[3]));
    s = L::fma(c[1], L::sub(f[5], f[2]), s);
    s = L::fma(c[2], L::sub(f[6], f[1]), s);
    L::fma(c[3], L::sub(f[7], f[0]), s)
}

/// Returns 1/rho of half points: `b`, or if `beside` is not null the reciprocal of the sum of both
/// rows.
#[inline(always)]
pub unsafe fn halfway<L: Lanes>(b: *const f32, beside: *const f32, i: usize) -> L::V {
    let b = L::load(b.wrapping_add(i));
    if beside.is_null() { b } else { L::reciprocal(L::add(b, L::load(beside.wrapping_add(i)))) }
}

/// Writes the values that the 16-bit numbers of a row stand for.
pub struct Expansion {
    pub numbers: *const u16,
    pub scale: Scale,
    pub len: usize,
    pub to: *mut f32,
}

impl RowWork for Expansion {
    #[inline(always)]
    unsafe fn run<L: Lanes>(&self) {
        let (low, step) = (L::splat(self.scale.low), L::splat(self.scale.step));
        for i in (0..self.len).step_by(L::N) {
            L::store(self.to.add(i), L::fma(L::widened(self.numbers.wrapping_add(i)), step, low));
        }
    }
}

/// PML velocities of `U` rows: profile factors `keep` and `velocity_rate`, and places.
#[derive(Clone, Copy)]
pub struct PmlVelocity<const U: usize> {
    pub keep: [f32; U],
    pub rate: [f32; U],
    /// Velocities of the first row before and after the step; the other rows follow in `apart`
    /// values.
    pub old: *const f32,
    pub new: *mut f32,
    pub apart: usize,
    /// Range of the rows that are written for the next step; other tiles write the others.
    pub own: [usize; 2],
    /// Whether `new` is written past the caches.
    pub stream: bool,
    /// Prefetch distance of `old` in values.
    pub ahead: usize,
}

impl<const U: usize> PmlVelocity<U> {
    pub const NONE: Self = PmlVelocity {
        keep: [0.0; U],
        rate: [0.0; U],
        old: std::ptr::null(),
        new: std::ptr::null_mut(),
        apart: 0,
        own: [0; 2],
        stream: false,
        ahead: 0,
    };

    /// Advances the velocity of row `u` at value `i` with the flux `q`, and returns it.
    #[inline(always)]
    unsafe fn moved<L: Lanes>(&self, u: usize, i: usize, q: L::V) -> L::V {
        let at = u * self.apart + i;
        let old = L::mul(L::splat(self.keep[u]), L::load(self.old.wrapping_add(at)));
        L::prefetch(self.old.wrapping_add(at + self.ahead));
        let v = L::fnma(L::splat(self.rate[u]), q, old);
        if self.own[0] <= u && u < self.own[1] {
            // Half lines of several rows in turn are slower past the caches:
            // docs/performance-notes.md.
            write::<L>(self.new.wrapping_add(at), v, self.stream && L::N == WIDEST);
        }
        v
    }
}

/// Stores a vector, past the caches if `stream`.
#[inline(always)]
pub unsafe fn write<L: Lanes>(to: *mut f32, v: L::V, stream: bool) {
    if stream { L::stream(to, v) } else { L::store(to, v) }
}

/// Split pressures of `U` rows: profile factors `loss` and `pressure_rate`, and places.
#[derive(Clone, Copy)]
pub struct SplitPressure<const U: usize> {
    pub loss: [f32; U],
    pub rate: [f32; U],
    /// Split pressure of the first row; the other rows follow in `apart` values.
    pub pressure: *mut f32,
    pub apart: usize,
    /// Prefetch distance of `pressure` in values.
    pub ahead: usize,
}

impl<const U: usize> SplitPressure<U> {
    pub const NONE: Self =
        SplitPressure { loss: [0.0; U], rate: [0.0; U], pressure: std::ptr::null_mut(), apart: 0, ahead: 0 };
}

/// Returns the increment of row `u` from the derivative `s` of the velocities. If `DAMPED`, updates
/// the split pressure.
#[inline(always)]
pub unsafe fn increment<L: Lanes, const U: usize, const DAMPED: bool>(
    u: usize,
    i: usize,
    s: L::V,
    kappa: L::V,
    split: &SplitPressure<U>,
) -> L::V {
    let undamped = L::sub(L::splat(0.0), L::mul(L::mul(kappa, L::splat(split.rate[u])), s));
    if !DAMPED {
        return undamped;
    }
    let at = split.pressure.add(u * split.apart + i);
    L::prefetch(at.wrapping_add(split.ahead));
    damped::<L>(at, L::splat(split.loss[u]), undamped)
}

/// Adds the increment to a split pressure, and returns it.
#[inline(always)]
pub unsafe fn damped<L: Lanes>(split: *mut f32, loss: L::V, undamped: L::V) -> L::V {
    let old = L::load(split);
    let increment = L::fma(loss, old, undamped);
    L::store(split, L::add(old, increment));
    increment
}

/// `U` neighbouring rows along an axis. Pointers are to a row's first value.
pub struct RowBlock<const U: usize> {
    pub len: usize,
    /// First tap of the first derivative; values from tap to tap, which is from row to row.
    pub p: *const f32,
    pub stride: usize,
    /// See [`halfway`].
    pub b: [*const f32; U],
    pub beside: [*const f32; U],
    /// Fluxes, or PML velocities where they are stored, oldest first. Those of these rows replace
    /// the first.
    pub fluxes: [*mut f32; FLUX_PLANES],
    /// r², if velocities are eliminated; and sums to which the terms are added, or null.
    pub square: f32,
    pub onto: *const f32,
    /// Target of the terms, and values from row to row.
    pub to: *mut f32,
    pub to_apart: usize,
    /// kappa of the rows, if velocities are not eliminated.
    pub kappa: [*const f32; U],
    /// Rows to prefetch: the first `count` kinds, for each row.
    pub prefetched: [[*const f32; U]; PREFETCHED],
    pub count: usize,
}

/// Computes the fluxes of a block of rows, and the `TERMS` that they complete. Without `MOVE` the
/// fluxes are zero.
// The fields are borrowed: a copy reads in wide pieces what was written in narrow ones just before,
// for which the processor waits.
pub struct BlockFluxes<
    'a,
    const U: usize,
    const PML: bool,
    const DAMPED: bool,
    const MOVE: bool,
    const TERMS: bool,
> {
    pub stencil: &'a [f32; HALF_WIDTH],
    pub rows: &'a RowBlock<U>,
    pub velocity: &'a PmlVelocity<U>,
    pub split: &'a SplitPressure<U>,
}

impl<const U: usize, const PML: bool, const DAMPED: bool, const MOVE: bool, const TERMS: bool> RowWork
    for BlockFluxes<'_, U, PML, DAMPED, MOVE, TERMS>
{
    #[inline(always)]
    unsafe fn run<L: Lanes>(&self) {
        let BlockFluxes { rows, velocity, split, .. } = self;
        let c = splats::<L>(self.stencil);
        for i in (0..rows.len).step_by(L::N) {
            let mut s = [L::splat(0.0); MAX_TAPS];
            for kind in &rows.prefetched[..rows.count] {
                kind.iter().for_each(|row| L::prefetch_far(row.wrapping_add(i)));
            }
            if MOVE {
                let q = derivatives::<L, U>(c, |k| rows.p.wrapping_add(k * rows.stride + i));
                for u in 0..U {
                    let q = L::mul(halfway::<L>(rows.b[u], rows.beside[u], i), q[u]);
                    s[FLUX_PLANES + u] = if PML { velocity.moved::<L>(u, i, q) } else { q };
                }
            }
            if TERMS {
                for (s, from) in s.iter_mut().zip(rows.fluxes).take(FLUX_PLANES) {
                    *s = L::load(from.wrapping_add(i));
                }
            }
            // The places of the new fluxes have been read.
            for (to, s) in rows.fluxes.iter().zip(&s[FLUX_PLANES..]).take(U) {
                L::store(to.wrapping_add(i), *s);
            }
            if TERMS {
                for u in 0..U {
                    let derivative = derivative::<L>(c, &s[u..]);
                    let to = u * rows.to_apart + i;
                    let term = if PML {
                        let kappa = L::load(rows.kappa[u].wrapping_add(i));
                        increment::<L, U, DAMPED>(u, i, derivative, kappa, split)
                    } else if rows.onto.is_null() {
                        L::mul(L::splat(rows.square), derivative)
                    } else {
                        L::fma(L::splat(rows.square), derivative, L::load(rows.onto.wrapping_add(to)))
                    };
                    L::store(rows.to.wrapping_add(to), term);
                }
            }
        }
    }
}
