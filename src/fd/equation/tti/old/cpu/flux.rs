//! The fluxes of a row of cells.
//!
//! Safety: rows have `len` values, and pressures `HALF_WIDTH` rows and a vector around them. The processor
//! has the instructions.

use crate::fd::one_pass::flux_z::derivative_after;
use crate::fd::one_pass::rows::{derivatives, write};
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::vector::lanes::{Lanes, splats};

/// A row of fluxes. Pointers are to the row's first updated value.
pub struct RotatedFluxRow {
    pub len: usize,
    /// Pressures P and Q.
    pub pressures: [*const f32; 2],
    /// Values from row to row along x and along y.
    pub strides: [usize; 2],
    /// Cosine and sine of theta, then of phi.
    pub angles: [*const f32; 4],
    /// Rows for the fluxes of x, y, z, each followed by room for a vector of zeros.
    pub to: [*mut f32; 3],
    /// The damped fluxes of x and y.
    pub damped: [DampedFlux; 2],
    /// The damping of the flux of z for each cell: `b`, and `a dt / h`.
    pub keep: *const f32,
    pub rate: *const f32,
    /// The flux of z of the step before, and of this one.
    pub old: *const f32,
    pub new: Target,
    /// Rows that the same row of the next plane reads first, to prefetch.
    pub prefetched: [*const f32; 7],
}

/// A flux that is stored for the next step.
#[derive(Clone, Copy, Default)]
pub struct DampedFlux {
    pub keep: f32,
    pub rate: f32,
    pub old: *const f32,
    pub new: Target,
}

/// A row that is written, or null for one that another tile writes.
#[derive(Clone, Copy, Default)]
pub struct Target {
    pub row: *mut f32,
    /// Whether the values go past the caches.
    pub stream: bool,
}

impl Target {
    #[inline(always)]
    pub unsafe fn write<L: Lanes>(self, i: usize, value: L::V) {
        if !self.row.is_null() {
            write::<L>(self.row.wrapping_add(i), value, self.stream);
        }
    }
}

/// Loads a vector of a row.
#[inline(always)]
pub unsafe fn load<L: Lanes>(row: *const f32, i: usize) -> L::V {
    L::load(row.wrapping_add(i))
}

/// Computes a row of fluxes. `X_PML`, `Y_PML`: whether those of x and y are damped.
#[inline(always)]
pub unsafe fn flux<L: Lanes, const X_PML: bool, const Y_PML: bool>(
    stencils: &[[f32; HALF_WIDTH]; 3],
    row: &RotatedFluxRow,
) {
    let [cx, cy, cz] = [splats::<L>(&stencils[0]), splats::<L>(&stencils[1]), splats::<L>(&stencils[2])];
    let ([p, q], [stride_x, stride_y]) = (row.pressures, row.strides);
    let first = |row: *const f32, stride: usize| row.wrapping_sub((HALF_WIDTH - 1) * stride);
    let (px, py, qx, qy) = (first(p, stride_x), first(p, stride_y), first(q, stride_x), first(q, stride_y));
    let (mut p_before, mut p_at) = (L::load(p.wrapping_sub(L::N)), L::load(p));
    let (mut q_before, mut q_at) = (L::load(q.wrapping_sub(L::N)), L::load(q));
    let [row_ct, row_st, row_cp, row_sp] = row.angles;
    for i in (0..row.len).step_by(L::N) {
        let (ct, st) = (load::<L>(row_ct, i), load::<L>(row_st, i));
        let (cp, sp) = (load::<L>(row_cp, i), load::<L>(row_sp, i));
        for prefetched in row.prefetched {
            L::prefetch_far(prefetched.wrapping_add(i));
        }
        let p_after = load::<L>(p, i + L::N);
        let [x] = derivatives::<L, 1>(cx, |k| px.wrapping_add(i + k * stride_x));
        let [y] = derivatives::<L, 1>(cy, |k| py.wrapping_add(i + k * stride_y));
        let z = derivative_after::<L>(cz, [p_before, p_at, p_after]);
        let mut u = L::mul(L::mul(ct, cp), x);
        u = L::fnma(L::mul(ct, sp), y, u);
        u = L::fnma(st, z, u);
        let mut v = L::fma(cp, y, L::mul(sp, x));
        let q_after = load::<L>(q, i + L::N);
        let [x] = derivatives::<L, 1>(cx, |k| qx.wrapping_add(i + k * stride_x));
        let [y] = derivatives::<L, 1>(cy, |k| qy.wrapping_add(i + k * stride_y));
        let z = derivative_after::<L>(cz, [q_before, q_at, q_after]);
        let mut w = L::mul(L::mul(st, cp), x);
        w = L::fnma(L::mul(st, sp), y, w);
        w = L::fma(ct, z, w);
        (p_before, p_at, q_before, q_at) = (p_at, p_after, q_at, q_after);
        if X_PML {
            u = damped::<L>(&row.damped[0], i, u);
        }
        if Y_PML {
            v = damped::<L>(&row.damped[1], i, v);
        }
        let old = L::mul(L::load(row.keep.wrapping_add(i)), L::load(row.old.wrapping_add(i)));
        w = L::fnma(L::load(row.rate.wrapping_add(i)), w, old);
        row.new.write::<L>(i, w);
        L::store(row.to[0].wrapping_add(i), u);
        L::store(row.to[1].wrapping_add(i), v);
        L::store(row.to[2].wrapping_add(i), w);
    }
    // A longer row may have been there before.
    for to in row.to {
        L::store(to.wrapping_add(row.len), L::splat(0.0));
    }
}

#[inline(always)]
unsafe fn damped<L: Lanes>(flux: &DampedFlux, i: usize, value: L::V) -> L::V {
    let old = L::mul(L::splat(flux.keep), L::load(flux.old.wrapping_add(i)));
    let value = L::fnma(L::splat(flux.rate), value, old);
    flux.new.write::<L>(i, value);
    value
}
