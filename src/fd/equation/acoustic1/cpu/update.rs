//! The last part of a row: what all its terms make of the pressure.

use std::ops::Range;

use super::flux_z::derivative_before;
use super::rows::{splats, write};
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::vector::lanes::Lanes;

/// What a row becomes. Pointers are to its first updated value.
pub struct Update<'a> {
    pub len: usize,
    /// Where vectors of values are changed at the ends, and by how much.
    pub ends: [Range<usize>; 2],
    pub increments: *const f32,
    /// Fluxes along z, between vectors of zeros; r² for each value.
    pub q: *const f32,
    pub squares: &'a [f32],
    /// The terms along y and along x.
    pub term_y: *const f32,
    pub term_x: *const f32,
    pub kappa: *const f32,
    pub d: *mut f32,
    /// This pressure, without a source, and the next, which may go past the caches.
    pub p: *const f32,
    pub new: *mut f32,
    pub stream: bool,
    /// How many values on to ask for kappa and `d`; and a row to ask for.
    pub ahead: usize,
    pub coming: *const f32,
}

/// The next pressures, and what the undamped terms change.
///
/// # Safety
/// Everything is where it is said to be; the processor has the instructions.
#[inline(always)]
pub unsafe fn update<L: Lanes, const X_PML: bool, const Y_PML: bool>(c: [f32; HALF_WIDTH], row: &Update<'_>) {
    // SAFETY: by the caller's promise.
    unsafe {
        let c = splats::<L>(c);
        let (mut before, mut at) = (L::load(row.q.wrapping_sub(L::N)), L::load(row.q));
        for i in (0..row.len).step_by(L::N) {
            let after = L::load(row.q.add(i + L::N));
            let s = derivative_before::<L>(c, before, at, after);
            (before, at) = (at, after);
            let x = L::load(row.term_x.wrapping_add(i));
            let y = if X_PML || Y_PML { L::load(row.term_y.wrapping_add(i)) } else { x };
            let others = match (X_PML, Y_PML) {
                (false, _) => x,
                (true, false) => y,
                (true, true) => L::splat(0.0),
            };
            let a = L::fma(L::load(row.squares.as_ptr().wrapping_add(i)), s, others);
            let d = row.d.wrapping_add(i);
            L::prefetch_far(row.coming.wrapping_add(i));
            L::prefetch(d.wrapping_add(row.ahead));
            L::prefetch(row.kappa.wrapping_add(i + row.ahead));
            let undamped = L::fma(L::load(row.kappa.wrapping_add(i)), a, L::load(d));
            L::store(d, undamped);
            let mut all = undamped;
            if Y_PML {
                all = L::add(all, y);
            }
            if X_PML {
                all = L::add(all, x);
            }
            if row.ends[0].contains(&i) || row.ends[1].contains(&i) {
                all = L::add(all, L::load(row.increments.wrapping_add(i)));
            }
            write::<L>(row.new.wrapping_add(i), L::add(L::load(row.p.wrapping_add(i)), all), row.stream);
        }
    }
}
