//! The computation of a row along z. `mod.rs` of the equation has the order of operations.
//!
//! Safety: rows have `len` values, and pressures `HALF_WIDTH` rows and a vector around them. The processor
//! has the instructions.

use std::ops::Range;

use crate::fd::centred::Weights;
use crate::fd::centred::taps::{Taps, WeightSplats};
use crate::fd::one_pass::rows::write;
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::vector::lanes::{Lanes, splats};

/// Rows of a plane that its divergence along x and z takes: `n_x g`, `n_x w`, `n_z g`, `n_z w`.
pub const FLUXES: usize = 4;
/// Rows that a cell stores until its divergence is complete: the parts along x and z of `B` and `C`, and the Laplacian.
pub const PARTIAL_DIVERGENCES: usize = 3;

/// Coefficients in each lane.
pub struct Splats<L: Lanes> {
    second: WeightSplats<L>,
    first: [[L::V; HALF_WIDTH]; 3],
}

impl<L: Lanes> Splats<L> {
    #[inline(always)]
    pub unsafe fn new(weights: &Weights, [x, y, z]: &[[f32; HALF_WIDTH]; 3]) -> Splats<L> {
        let first = [splats::<L>(x), splats::<L>(y), splats::<L>(z)];
        Splats { second: WeightSplats::new(weights), first }
    }
}

/// A row of fluxes. Pointers are to the row's first updated value.
pub struct TtiFluxRow {
    pub len: usize,
    /// Pressures P and Q.
    pub pressures: [*const f32; 2],
    /// Values from row to row along x and along y.
    pub strides: [usize; 2],
    pub axis: [*const f32; 3],
    /// Values from one of the following rows to the next of its kind.
    pub component: usize,
    /// The first of [`FLUXES`] rows, the last two between zeros.
    pub plane: *mut f32,
    /// `n_y g`, then `n_y w`.
    pub along_y: *mut f32,
    pub laplacian: *mut f32,
    /// Rows that the same row of the next plane reads first, to prefetch.
    pub prefetched: [*const f32; 5],
}

/// Computes a row of fluxes. `X`, `Y`: whether a divergence takes those of x, or those of y. With both also those of z and
/// the Laplacian.
#[inline(always)]
pub unsafe fn flux<L: Lanes, const X: bool, const Y: bool>(c: &Splats<L>, row: &TtiFluxRow) {
    let [p, q] = row.pressures;
    let (mut p_before, mut p_at) = (L::load(p.wrapping_sub(L::N)), L::load(p));
    let (mut q_before, mut q_at) = (L::load(q.wrapping_sub(L::N)), L::load(q));
    let [sx, sy] = row.strides;
    for i in (0..row.len).step_by(L::N) {
        let axis = |nth: usize| L::load(row.axis[nth].wrapping_add(i));
        let (n_x, n_y, n_z) = (axis(0), axis(1), axis(2));
        if X && Y {
            for prefetched in row.prefetched {
                L::prefetch_far(prefetched.wrapping_add(i));
            }
        }
        let p_after = L::load(p.wrapping_add(i + L::N));
        let x = Taps::<L>::around(p.wrapping_add(i), sx);
        let mut g = L::mul(n_x, x.first(&c.first[0]));
        let mut laplacian =
            if X && Y { L::fma(c.second.centre, p_at, x.second(&c.second.axes[0])) } else { p_at };
        let y = Taps::<L>::around(p.wrapping_add(i), sy);
        g = L::fma(n_y, y.first(&c.first[1]), g);
        let z = Taps::<L>::along(p_before, p_at, p_after);
        g = L::fma(n_z, z.first(&c.first[2]), g);
        if X && Y {
            laplacian = L::add(laplacian, y.second(&c.second.axes[1]));
            laplacian = L::add(laplacian, z.second(&c.second.axes[2]));
            L::store(row.laplacian.wrapping_add(i), laplacian);
        }
        let q_after = L::load(q.wrapping_add(i + L::N));
        let x = Taps::<L>::around(q.wrapping_add(i), sx);
        let y = Taps::<L>::around(q.wrapping_add(i), sy);
        let z = Taps::<L>::along(q_before, q_at, q_after);
        let mut w = L::mul(n_x, x.first(&c.first[0]));
        w = L::fma(n_y, y.first(&c.first[1]), w);
        w = L::fma(n_z, z.first(&c.first[2]), w);
        (p_before, p_at, q_before, q_at) = (p_at, p_after, q_at, q_after);
        let of_plane = |nth: usize| row.plane.wrapping_add(nth * row.component + i);
        if X {
            L::store(of_plane(0), L::mul(n_x, g));
            L::store(of_plane(1), L::mul(n_x, w));
        }
        if X && Y {
            L::store(of_plane(2), L::mul(n_z, g));
            L::store(of_plane(3), L::mul(n_z, w));
        }
        if Y {
            L::store(row.along_y.wrapping_add(i), L::mul(n_y, g));
            L::store(row.along_y.wrapping_add(row.component + i), L::mul(n_y, w));
        }
    }
    if X && Y {
        // A longer row may have been there before.
        for nth in [2, 3] {
            L::store(row.plane.wrapping_add(nth * row.component + row.len), L::splat(0.0));
        }
    }
}

/// Computes the parts of a row's divergences along x and z. `plane`: its fluxes; `column`: values from those of a row to those
/// of the next along x; `to`: two rows.
#[inline(always)]
pub unsafe fn divergence_xz<L: Lanes>(
    c: &Splats<L>,
    plane: *const f32,
    [column, component, len]: [usize; 3],
    to: *mut f32,
) {
    for nth in [0, component] {
        let of_z = plane.wrapping_add(2 * component + nth);
        let (mut before, mut at) = (L::splat(0.0), L::load(of_z));
        for i in (0..len).step_by(L::N) {
            let after = L::load(of_z.wrapping_add(i + L::N));
            let x = Taps::<L>::around(plane.wrapping_add(nth + i), column).first(&c.first[0]);
            let z = Taps::<L>::along(before, at, after).first(&c.first[2]);
            L::store(to.wrapping_add(nth + i), L::add(x, z));
            (before, at) = (at, after);
        }
    }
}

/// A row of pressures. Pointers are to the row's first updated value.
pub struct PressureRow<'a> {
    pub len: usize,
    /// Rows of `n_y g` from 4 before to 4 after the row, along y; those of `n_y w` follow after `component` values.
    pub taps: [*const f32; 2 * HALF_WIDTH + 1],
    pub component: usize,
    /// The first of [`PARTIAL_DIVERGENCES`] rows.
    pub partial_divergences: *const f32,
    /// `vp²`, `1 + 2 epsilon`, `sqrt(1 + 2 delta)`.
    pub medium: [*const f32; 3],
    /// The sponge's value of x and y, those of z, and the cells where these are 0.
    pub damping: f32,
    pub damping_z: &'a [f32],
    pub undamped: Range<usize>,
    pub increments: [*mut f32; 2],
    /// Pressures P and Q before and after the step.
    pub pressures: [*const f32; 2],
    pub new: [*mut f32; 2],
    /// Whether the pressures go past the caches.
    pub stream: bool,
    /// Rows that the same row of the next plane reads first, to prefetch.
    pub prefetched: [*const f32; 5],
}

/// Computes a row of increments and pressures.
#[inline(always)]
pub unsafe fn pressure<L: Lanes>(c: &Splats<L>, row: &PressureRow<'_>) {
    let end = row.undamped.end.min(row.len);
    let begin = if row.damping == 0.0 { row.undamped.start.min(end) } else { end };
    cells::<L, true>(c, row, 0..begin);
    cells::<L, false>(c, row, begin..end);
    cells::<L, true>(c, row, end..row.len);
}

/// Computes cells of a row. `DAMPED`: whether some of them are in a layer.
#[inline(always)]
unsafe fn cells<L: Lanes, const DAMPED: bool>(c: &Splats<L>, row: &PressureRow<'_>, cells: Range<usize>) {
    let one = L::splat(1.0);
    let damping = L::splat(row.damping);
    for i in cells.step_by(L::N) {
        for prefetched in row.prefetched {
            L::prefetch_far(prefetched.wrapping_add(i));
        }
        let along_y = |k: usize| row.taps[k].wrapping_add(i);
        let b_y = Taps::<L>::across(along_y).first(&c.first[1]);
        let c_y = Taps::<L>::across(|k| along_y(k).wrapping_add(row.component)).first(&c.first[1]);
        let part = |nth: usize| row.partial_divergences.wrapping_add(nth * row.component + i);
        let at = |row: *const f32| row.wrapping_add(i);
        let [row_h, row_v] = row.increments;
        let (mut h, mut v) = (L::load(at(row_h)), L::load(at(row_v)));
        let (mut p, mut q) = (L::load(at(row.pressures[0])), L::load(at(row.pressures[1])));
        let (mut rate, mut a) = (L::load(at(row.medium[0])), one);
        if DAMPED {
            let r = L::add(damping, L::load(at(row.damping_z.as_ptr())));
            a = L::reciprocal(L::add(one, r));
            let b = L::mul(L::sub(one, r), a);
            rate = L::mul(a, rate);
            (h, v, p, q) = (L::mul(b, h), L::mul(b, v), L::mul(b, p), L::mul(b, q));
        }
        h = L::fma(rate, L::load(part(2)), h);
        h = L::fnma(rate, L::add(L::load(part(0)), b_y), h);
        v = L::fma(rate, L::add(L::load(part(1)), c_y), v);
        L::store(row_h.wrapping_add(i), h);
        L::store(row_v.wrapping_add(i), v);
        let (e, s) = (L::load(at(row.medium[1])), L::load(at(row.medium[2])));
        let (of_p, of_q) = (L::fma(e, h, L::mul(s, v)), L::fma(s, h, v));
        if DAMPED {
            (p, q) = (L::fma(a, of_p, p), L::fma(a, of_q, q));
        } else {
            (p, q) = (L::add(p, of_p), L::add(q, of_q));
        }
        let [to_p, to_q] = row.new.map(|new| new.wrapping_add(i));
        write::<L>(to_p, p, row.stream);
        write::<L>(to_q, q, row.stream);
    }
}
