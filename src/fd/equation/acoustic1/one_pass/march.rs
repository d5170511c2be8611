//! The terms along x of a plane: a march along x over the rows of a tile, for one vector of z. Pressures and slopes that the next
//! rows need stay in registers.

use std::ops::Range;

use super::super::layout::Layout;
use super::lanes::{Lanes, WIDEST};
use super::rows::{ALL, Split, TAPS, TOGETHER, change, slope, splats, write};
use crate::fd::stencil::REACH;

/// What stays in registers from row to row.
const HELD: usize = TAPS - 1;

/// The rows of a tile in a plane. Pointers are to the vector's values of the row with index 0, unless something else is said.
#[derive(Clone, Copy)]
pub struct March<'a> {
    /// Coefficients of the derivative.
    pub stencil: [f32; REACH],
    /// The rows that are updated.
    pub rows: &'a Range<usize>,
    pub layout: Layout,
    pub old: *const f32,
    /// Coefficients: of the user's first row, and values from row to row.
    pub b: *const f32,
    pub b_step: usize,
    pub kappa: *const f32,
    pub kappa_step: usize,
    /// Of the first row that is updated, the others follow as vectors: eliminated terms along y, if they are, and where the
    /// terms along x go: the change where velocities are kept, else what is eliminated along x and y.
    pub along_y: Option<*const f32>,
    pub along_x: *mut f32,
    /// r² of x.
    pub square: f32,
    /// Velocities that are kept: tables by index; values by index, one after the other as vectors; those that are written.
    pub keep: &'a [f32],
    pub velocity_rate: &'a [f32],
    pub kept_old: *const f32,
    pub kept_new: *mut f32,
    pub own: &'a Range<usize>,
    /// Whether what the next step reads is written past the caches.
    pub stream: bool,
    /// The layers: tables by index, and of the damped part the value of the first layer's first row, as vectors.
    pub loss: &'a [f32],
    pub pressure_rate: &'a [f32],
    pub part: *mut f32,
    pub part_rows: usize,
    /// Values to this march's next vector of kept velocities.
    pub kept_rows: usize,
    /// What the update reads of a row, as it does kappa: asked for.
    pub d: *const f32,
}

impl March<'_> {
    /// Whether a velocity ever moves.
    #[inline(always)]
    fn moves(&self, j: usize) -> bool {
        self.layout.active(0).contains(&j)
    }

    /// A velocity that is kept, from the slope of the pressure.
    #[inline(always)]
    unsafe fn velocity<L: Lanes>(&self, j: usize, q: L::V) -> L::V {
        let (old, new) = (self.kept_old.wrapping_add(j * WIDEST), self.kept_new.wrapping_add(j * WIDEST));
        // SAFETY: by the caller's promise.
        unsafe {
            L::prefetch(old.wrapping_add(self.kept_rows));
            let kept = L::mul(L::splat(self.keep[j]), L::load(old));
            let v = L::fnma(L::splat(self.velocity_rate[j]), q, kept);
            if self.own.contains(&j) {
                write::<L>(new, v, self.stream);
            }
            v
        }
    }

    /// Where a row that is updated is in a layer, and the end of the rows from there on that are in it as well, or as little.
    #[inline(always)]
    fn layer(&self, x: usize) -> (Option<usize>, usize) {
        let Layout { pml, inner, .. } = self.layout;
        let end = [pml, pml + inner[0]].into_iter().find(|&end| x < end);
        (self.layout.in_layer(0, x), end.unwrap_or(usize::MAX))
    }
}

/// The registers.
struct Held<L: Lanes> {
    p: [L::V; HELD],
    slopes: [L::V; HELD],
}

/// All rows.
///
/// # Safety
/// Everything is where it is said to be; the processor has the instructions; so for all below.
#[inline(always)]
pub unsafe fn march<L: Lanes, const X_KEPT: bool>(m: &March<'_>) {
    // SAFETY: by the caller's promise.
    unsafe {
        let mut held = Held::<L> { p: [L::splat(0.0); HELD], slopes: [L::splat(0.0); HELD] };
        // The slopes before the first row take pressures as far before them; the row may be less far from the first of all.
        let before = m.old.wrapping_add(m.rows.start * m.layout.pitch).wrapping_sub(HELD * m.layout.pitch);
        for k in 0..HELD {
            held.p[k] = L::load(before.wrapping_add(k * m.layout.pitch));
        }
        windows::<L, TOGETHER, X_KEPT>(m, m.rows.start - REACH, &mut held);
        windows::<L, { HELD - TOGETHER }, X_KEPT>(m, m.rows.start - REACH + TOGETHER, &mut held);
        let mut x = m.rows.start;
        while x < m.rows.end {
            let (layer, alike) = if X_KEPT { m.layer(x) } else { (None, usize::MAX) };
            let many = x + TOGETHER <= alike.min(m.rows.end);
            let held = &mut held;
            match (layer, many) {
                (None, true) => group::<L, TOGETHER, X_KEPT, false>(m, x, 0, held),
                (None, false) => group::<L, 1, X_KEPT, false>(m, x, 0, held),
                (Some(at), true) => group::<L, TOGETHER, X_KEPT, true>(m, x, at, held),
                (Some(at), false) => group::<L, 1, X_KEPT, true>(m, x, at, held),
            }
            x += if many { TOGETHER } else { 1 };
        }
    }
}

/// The slopes from index `first` on, `U` of them, after all that there are.
#[inline(always)]
unsafe fn windows<L: Lanes, const U: usize, const X_KEPT: bool>(
    m: &March<'_>,
    first: usize,
    held: &mut Held<L>,
) -> [L::V; ALL] {
    // SAFETY: by the caller's promise.
    unsafe {
        let mut p = [L::splat(0.0); ALL];
        let mut slopes = [L::splat(0.0); ALL];
        for k in 0..HELD {
            (p[k], slopes[k]) = (held.p[k], held.slopes[k]);
        }
        let next = m.old.wrapping_add((first + REACH) * m.layout.pitch);
        for u in 0..U {
            p[HELD + u] = L::load(next.wrapping_add(u * m.layout.pitch));
        }
        let b = m.b.wrapping_add(m.layout.nearest(0, first) * m.b_step);
        for u in 0..U {
            let j = first + u;
            let b = if X_KEPT {
                m.b.wrapping_add(m.layout.nearest(0, j) * m.b_step)
            } else {
                b.wrapping_add(u * m.b_step)
            };
            let q = L::mul(L::load(b), slope::<L>(splats::<L>(m.stencil), &p[u..]));
            slopes[HELD + u] = q;
            if X_KEPT {
                slopes[HELD + u] = if m.moves(j) { m.velocity::<L>(j, q) } else { L::splat(0.0) };
            }
        }
        for k in 0..HELD {
            (held.p[k], held.slopes[k]) = (p[k + U], slopes[k + U]);
        }
        slopes
    }
}

/// The terms of `U` rows, which are `layer` rows into the layers if they are damped.
#[inline(always)]
unsafe fn group<L: Lanes, const U: usize, const X_KEPT: bool, const DAMPED: bool>(
    m: &March<'_>,
    x: usize,
    layer: usize,
    held: &mut Held<L>,
) {
    // SAFETY: by the caller's promise.
    unsafe {
        let slopes = windows::<L, U, X_KEPT>(m, x + REACH - 1, held);
        let column = (x - m.rows.start) * WIDEST;
        let split = Split {
            loss: std::array::from_fn(|u| if X_KEPT { m.loss[x + u] } else { 0.0 }),
            rate: std::array::from_fn(|u| if X_KEPT { m.pressure_rate[x + u] } else { 0.0 }),
            part: m.part.wrapping_add(layer * WIDEST),
            apart: WIDEST,
            ahead: m.part_rows,
        };
        for u in 0..U {
            let s = slope::<L>(splats::<L>(m.stencil), &slopes[u..]);
            L::prefetch(m.old.wrapping_add((x + u + HELD) * m.layout.pitch + WIDEST));
            L::prefetch_far(m.d.wrapping_add((x + u) * m.layout.pitch));
            let kappa = m.kappa.wrapping_add(m.layout.nearest(0, x + u) * m.kappa_step);
            L::prefetch_far(kappa);
            let term = if X_KEPT {
                change::<L, U, DAMPED>(u, 0, s, L::load(kappa), &split)
            } else {
                let y = match m.along_y {
                    Some(y) => L::load(y.wrapping_add(column + u * WIDEST)),
                    None => L::splat(0.0),
                };
                L::fma(L::splat(m.square), s, y)
            };
            L::store(m.along_x.wrapping_add(column + u * WIDEST), term);
        }
    }
}
