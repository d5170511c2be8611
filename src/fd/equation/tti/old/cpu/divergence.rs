//! The pressures of a row of cells, from the fluxes around them. Safety as in `flux.rs`.

use std::ops::Range;

use super::flux::{Target, load};
use crate::fd::one_pass::flux_z::derivative_before;
use crate::fd::one_pass::rows::{SplitPressure, TAPS, damped, derivatives, increment};
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::vector::lanes::{Lanes, splats};

/// A row of pressures. Pointers are to the row's first updated value.
pub struct DivergenceRow<'a> {
    pub len: usize,
    /// Rows of the flux of x that the derivatives along x and y take; those of y and z follow in `component` and twice
    /// as many values. Tap [`HALF_WIDTH`] is the row itself.
    pub taps: [[*const f32; TAPS]; 2],
    pub component: usize,
    /// Cosine and sine of theta, then of phi.
    pub angles: [*const f32; 4],
    /// `vp²`, `1 + 2 epsilon`, `sqrt(1 + 2 delta)`.
    pub modulus: *const f32,
    pub e: *const f32,
    pub s: *const f32,
    /// (dt / h)² of x and y.
    pub squares: [f32; 2],
    /// The increment of the split pressures of x and y that are not damped.
    pub d: *mut f32,
    /// Split pressures of x and y where they or their fluxes are damped; null where only the latter.
    pub split: [SplitPressure<1>; 2],
    /// The damping of the split pressure of z for each cell: `a dt / h`, and `b - 1`.
    pub rate: *const f32,
    pub loss: *const f32,
    /// The split pressure of z at both ends of the row.
    pub ends: &'a [SplitEnd; 2],
    /// Pressures P and Q before and after the step.
    pub pressures: [*const f32; 2],
    pub new: [Target; 2],
    /// Rows that the same row of the next plane reads first, to prefetch.
    pub prefetched: [*const f32; 4],
}

/// The cells at an end of a row that have a split pressure.
pub struct SplitEnd {
    pub cells: Range<usize>,
    pub pressure: *mut f32,
}

/// Computes a row of pressures. `X_PML`, `Y_PML`: whether the fluxes of x and y are damped.
#[inline(always)]
pub unsafe fn divergence<L: Lanes, const X_PML: bool, const Y_PML: bool>(
    stencils: &[[f32; HALF_WIDTH]; 3],
    row: &DivergenceRow<'_>,
) {
    let [cx, cy, cz] = [splats::<L>(&stencils[0]), splats::<L>(&stencils[1]), splats::<L>(&stencils[2])];
    let [rows_x, rows_y] = &row.taps;
    let (this, component) = (rows_x[HALF_WIDTH], row.component);
    let (mut u_before, mut u_at) = (L::splat(0.0), L::load(this));
    let (mut w_before, mut w_at) = (L::splat(0.0), load::<L>(this, 2 * component));
    let squares = [L::splat(row.squares[0]), L::splat(row.squares[1])];
    let [row_ct, row_st, row_cp, row_sp] = row.angles;
    for i in (0..row.len).step_by(L::N) {
        let (ct, st) = (load::<L>(row_ct, i), load::<L>(row_st, i));
        let (cp, sp) = (load::<L>(row_cp, i), load::<L>(row_sp, i));
        for prefetched in row.prefetched {
            L::prefetch_far(prefetched.wrapping_add(i));
        }
        let u_after = load::<L>(this, i + L::N);
        let mut u = L::mul(L::mul(ct, cp), derivatives::<L, 1>(cx, |k| rows_x[k].wrapping_add(i))[0]);
        u = L::fnma(L::mul(ct, sp), derivatives::<L, 1>(cy, |k| rows_y[k].wrapping_add(i))[0], u);
        u = L::fnma(st, derivative_before::<L>(cz, [u_before, u_at, u_after]), u);
        let of_v = i + component;
        let mut v = L::mul(sp, derivatives::<L, 1>(cx, |k| rows_x[k].wrapping_add(of_v))[0]);
        v = L::fma(cp, derivatives::<L, 1>(cy, |k| rows_y[k].wrapping_add(of_v))[0], v);
        let of_w = i + 2 * component;
        let w_after = load::<L>(this, of_w + L::N);
        let mut w = L::mul(L::mul(st, cp), derivatives::<L, 1>(cx, |k| rows_x[k].wrapping_add(of_w))[0]);
        w = L::fnma(L::mul(st, sp), derivatives::<L, 1>(cy, |k| rows_y[k].wrapping_add(of_w))[0], w);
        w = L::fma(ct, derivative_before::<L>(cz, [w_before, w_at, w_after]), w);
        (u_before, u_at, w_before, w_at) = (u_at, u_after, w_at, w_after);

        let modulus = load::<L>(row.modulus, i);
        let undamped = match (X_PML, Y_PML) {
            (false, false) => L::fma(squares[1], v, L::mul(squares[0], u)),
            (false, true) => L::mul(squares[0], u),
            (true, false) => L::mul(squares[1], v),
            (true, true) => L::splat(0.0),
        };
        let d = row.d.wrapping_add(i);
        // Without an undamped flux it has the poles of a source alone.
        let mut horizontal = L::load(d);
        if !(X_PML && Y_PML) {
            horizontal = L::fma(modulus, undamped, horizontal);
            L::store(d, horizontal);
        }
        if Y_PML {
            horizontal = L::add(horizontal, split_increment::<L>(&row.split[1], i, modulus, v));
        }
        if X_PML {
            horizontal = L::add(horizontal, split_increment::<L>(&row.split[0], i, modulus, u));
        }
        let rate = L::mul(modulus, load::<L>(row.rate, i));
        let mut vertical = L::sub(L::splat(0.0), L::mul(rate, w));
        for end in row.ends {
            if end.cells.contains(&i) {
                let pressure = end.pressure.wrapping_add(i - end.cells.start);
                vertical = damped::<L>(pressure, load::<L>(row.loss, i), vertical);
            }
        }
        let (e, s) = (load::<L>(row.e, i), load::<L>(row.s, i));
        let (p, q) = (load::<L>(row.pressures[0], i), load::<L>(row.pressures[1], i));
        row.new[0].write::<L>(i, L::add(p, L::fma(e, horizontal, L::mul(s, vertical))));
        row.new[1].write::<L>(i, L::add(q, L::fma(s, horizontal, vertical)));
    }
}

/// Returns the increment of a split pressure, from the divergence `s` of its flux.
#[inline(always)]
unsafe fn split_increment<L: Lanes>(split: &SplitPressure<1>, i: usize, modulus: L::V, s: L::V) -> L::V {
    if split.pressure.is_null() {
        increment::<L, 1, false>(0, i, s, modulus, split)
    } else {
        increment::<L, 1, true>(0, i, s, modulus, split)
    }
}
