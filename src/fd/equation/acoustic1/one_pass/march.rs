//! The last part of a plane: a march along x over the rows of a tile, for one vector of z. Pressures and slopes along x that the
//! next rows need stay in registers.

use std::ops::Range;

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
    /// Values from row to row.
    pub pitch: usize,
    pub old: *const f32,
    pub new: *mut f32,
    pub d: *mut f32,
    /// Coefficients: of the user's first row, and values from row to row.
    pub b: *const f32,
    pub b_step: usize,
    pub kappa: *const f32,
    pub kappa_step: usize,
    /// Where the user's rows begin, and the last of them from there.
    pub pml: usize,
    pub last: usize,
    /// Of the first row that is updated, the others follow as vectors: terms along y, slopes along z, changes at its ends.
    pub along_y: *const f32,
    pub along_z: *const f32,
    pub changes: *const f32,
    /// Whether the terms along y are those of kept velocities, and whether there are changes.
    pub y_kept: bool,
    pub z_end: bool,
    /// r² of x, and of z for each value of the vector.
    pub square: f32,
    pub squares: *const f32,
    /// Velocities that are kept: tables by index; values by index, one after the other as vectors; those that are written.
    pub keep: &'a [f32],
    pub velocity_rate: &'a [f32],
    pub kept_old: *const f32,
    pub kept_new: *mut f32,
    pub own: &'a Range<usize>,
    /// The layers: tables by index, and of the damped part the value of the first layer's first row, as vectors.
    pub loss: &'a [f32],
    pub pressure_rate: &'a [f32],
    pub part: *mut f32,
    pub part_rows: usize,
    /// Values to this march's next vector of kept velocities.
    pub kept_rows: usize,
    /// The row whose pressure without a source is at `clean`.
    pub source: Option<usize>,
    pub clean: *const f32,
    /// How many values on to ask for `d` and kappa.
    pub ahead: usize,
    /// Values from the pressure and from `b` to what the slopes along y will read first.
    pub coming: [usize; 2],
}

impl March<'_> {
    /// The user's row that an index takes its coefficients from.
    #[inline(always)]
    fn nearest(&self, x: usize) -> usize {
        x.saturating_sub(self.pml).min(self.last)
    }

    /// Whether a velocity ever moves.
    #[inline(always)]
    fn moves(&self, j: usize) -> bool {
        (REACH..2 * self.pml + self.last + 1 - REACH).contains(&j)
    }

    /// A velocity that is kept, from the slope of the pressure.
    #[inline(always)]
    unsafe fn velocity<L: Lanes, const STREAM: bool>(&self, j: usize, q: L::V) -> L::V {
        let (old, new) = (self.kept_old.wrapping_add(j * WIDEST), self.kept_new.wrapping_add(j * WIDEST));
        // SAFETY: by the caller's promise.
        unsafe {
            L::prefetch(old.wrapping_add(self.kept_rows));
            let kept = L::mul(L::splat(self.keep[j]), L::load(old));
            let v = L::fnma(L::splat(self.velocity_rate[j]), q, kept);
            if self.own.contains(&j) {
                write::<L, STREAM>(new, v);
            }
            v
        }
    }

    /// Where a row that is updated is in a layer, and the end of the rows from there on that are in it as well, or as little.
    #[inline(always)]
    fn layer(&self, x: usize) -> (Option<usize>, usize) {
        let far = self.pml + self.last + 1;
        if x < self.pml {
            (Some(x - REACH), self.pml)
        } else if x < far {
            (None, far)
        } else {
            (Some(self.pml - REACH + x - far), usize::MAX)
        }
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
pub unsafe fn march<L: Lanes, const X_KEPT: bool, const STREAM: bool>(m: &March<'_>) {
    // SAFETY: by the caller's promise.
    unsafe {
        let mut held = Held::<L> { p: [L::splat(0.0); HELD], slopes: [L::splat(0.0); HELD] };
        // The slopes before the first row take pressures as far before them; the row may be less far from the first of all.
        let before = m.old.wrapping_add(m.rows.start * m.pitch).wrapping_sub(HELD * m.pitch);
        for k in 0..HELD {
            held.p[k] = L::load(before.wrapping_add(k * m.pitch));
        }
        windows::<L, TOGETHER, X_KEPT, STREAM>(m, m.rows.start - REACH, &mut held);
        windows::<L, { HELD - TOGETHER }, X_KEPT, STREAM>(m, m.rows.start - REACH + TOGETHER, &mut held);
        let mut x = m.rows.start;
        while x < m.rows.end {
            let (layer, alike) = if X_KEPT { m.layer(x) } else { (None, usize::MAX) };
            let many = x + TOGETHER <= alike.min(m.rows.end);
            let held = &mut held;
            match (layer, many) {
                (None, true) => group::<L, TOGETHER, X_KEPT, false, STREAM>(m, x, 0, held),
                (None, false) => group::<L, 1, X_KEPT, false, STREAM>(m, x, 0, held),
                (Some(at), true) => group::<L, TOGETHER, X_KEPT, true, STREAM>(m, x, at, held),
                (Some(at), false) => group::<L, 1, X_KEPT, true, STREAM>(m, x, at, held),
            }
            x += if many { TOGETHER } else { 1 };
        }
    }
}

/// The slopes from index `first` on, `U` of them, and all pressures and slopes that there are then.
#[inline(always)]
unsafe fn windows<L: Lanes, const U: usize, const X_KEPT: bool, const STREAM: bool>(
    m: &March<'_>,
    first: usize,
    held: &mut Held<L>,
) -> [[L::V; ALL]; 2] {
    // SAFETY: by the caller's promise.
    unsafe {
        let mut p = [L::splat(0.0); ALL];
        let mut slopes = [L::splat(0.0); ALL];
        for k in 0..HELD {
            (p[k], slopes[k]) = (held.p[k], held.slopes[k]);
        }
        let next = m.old.wrapping_add((first + REACH) * m.pitch);
        for u in 0..U {
            p[HELD + u] = L::load(next.wrapping_add(u * m.pitch));
        }
        let b = m.b.wrapping_add(m.nearest(first) * m.b_step);
        for u in 0..U {
            let j = first + u;
            let b =
                if X_KEPT { m.b.wrapping_add(m.nearest(j) * m.b_step) } else { b.wrapping_add(u * m.b_step) };
            let q = L::mul(L::load(b), slope::<L>(splats::<L>(m.stencil), &p[u..]));
            slopes[HELD + u] = q;
            if X_KEPT {
                slopes[HELD + u] = if m.moves(j) { m.velocity::<L, STREAM>(j, q) } else { L::splat(0.0) };
            }
        }
        for k in 0..HELD {
            (held.p[k], held.slopes[k]) = (p[k + U], slopes[k + U]);
        }
        [p, slopes]
    }
}

/// The next pressures of `U` rows, which are `layer` rows into the layers if they are damped.
#[inline(always)]
unsafe fn group<L: Lanes, const U: usize, const X_KEPT: bool, const DAMPED: bool, const STREAM: bool>(
    m: &March<'_>,
    x: usize,
    layer: usize,
    held: &mut Held<L>,
) {
    // SAFETY: by the caller's promise.
    unsafe {
        let [p, slopes] = windows::<L, U, X_KEPT, STREAM>(m, x + REACH - 1, held);
        let column = (x - m.rows.start) * WIDEST;
        let [along_y, along_z, changes] =
            [m.along_y, m.along_z, m.changes].map(|all| all.wrapping_add(column));
        let kappa = m.kappa.wrapping_add(m.nearest(x) * m.kappa_step);
        let (d, new) = (m.d.wrapping_add(x * m.pitch), m.new.wrapping_add(x * m.pitch));
        let coming_p = m.old.wrapping_add(x * m.pitch).wrapping_add(m.coming[0]);
        let coming_b = m.b.wrapping_add(m.nearest(x) * m.b_step).wrapping_add(m.coming[1]);
        let split = Split {
            loss: std::array::from_fn(|u| if X_KEPT { m.loss[x + u] } else { 0.0 }),
            rate: std::array::from_fn(|u| if X_KEPT { m.pressure_rate[x + u] } else { 0.0 }),
            part: m.part.wrapping_add(layer * WIDEST),
            apart: WIDEST,
            ahead: m.part_rows,
        };
        for u in 0..U {
            let s = slope::<L>(splats::<L>(m.stencil), &slopes[u..]);
            let kappa = if X_KEPT {
                m.kappa.wrapping_add(m.nearest(x + u) * m.kappa_step)
            } else {
                kappa.wrapping_add(u * m.kappa_step)
            };
            let (d, new) = (d.wrapping_add(u * m.pitch), new.wrapping_add(u * m.pitch));
            L::prefetch(d.wrapping_add(m.ahead));
            L::prefetch(kappa.wrapping_add(m.ahead));
            L::prefetch_far(coming_p.wrapping_add(u * m.pitch));
            L::prefetch_far(coming_b.wrapping_add(u * m.b_step));
            let kappa = L::load(kappa);
            let y = L::load(along_y.wrapping_add(u * WIDEST));
            let mut a = if m.y_kept { L::splat(0.0) } else { y };
            if !X_KEPT {
                a = L::fma(L::splat(m.square), s, a);
            }
            a = L::fma(L::load(m.squares), L::load(along_z.wrapping_add(u * WIDEST)), a);
            let undamped = L::fma(kappa, a, L::load(d));
            L::store(d, undamped);
            let mut all = undamped;
            if m.y_kept {
                all = L::add(all, y);
            }
            if X_KEPT {
                all = L::add(all, change::<L, U, DAMPED>(u, 0, s, kappa, &split));
            }
            if m.z_end {
                all = L::add(all, L::load(changes.wrapping_add(u * WIDEST)));
            }
            let clean = if m.source == Some(x + u) { L::load(m.clean) } else { p[u] };
            write::<L, STREAM>(new, L::add(clean, all));
        }
    }
}
