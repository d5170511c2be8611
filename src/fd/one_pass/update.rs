//! Last part of a row's computation: the pressures after the step.

use std::marker::PhantomData;
use std::ops::Range;

use super::equation::OnePassEquation;
use super::flux_z::derivative_before;
use super::rows::write;
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::vector::isa::RowWork;
use crate::fd::vector::lanes::{Lanes, splats};

/// Computes the pressures of a row after the step, and its undamped increments. Pointers are to the
/// first updated value.
pub struct Update<'a, P> {
    pub equation: PhantomData<P>,
    pub stencil: &'a [f32; HALF_WIDTH],
    pub len: usize,
    /// Whether the tile stores PML velocities along x and along y.
    pub pml: [bool; 2],
    /// Values of both ends that have increments of their own along z, and these increments.
    pub ends: [Range<usize>; 2],
    pub increments: *const f32,
    /// Fluxes along z, between vectors of zeros; r² for each value.
    pub q: *const f32,
    pub squares: &'a [f32],
    /// Terms along y and along x.
    pub term_y: *const f32,
    pub term_x: *const f32,
    pub kappa: *const f32,
    pub mixing: [*const f32; 2],
    pub d: [*mut f32; 2],
    /// Pressures without a source, and those after the step, which may be written past the caches.
    pub p: [*const f32; 2],
    pub new: [*mut f32; 2],
    pub stream: bool,
    /// Prefetch distance in values of kappa, `d` and the mixing coefficients; and a row to
    /// prefetch.
    pub distance: usize,
    pub prefetched: *const f32,
}

impl<P: OnePassEquation> RowWork for Update<'_, P> {
    #[inline(always)]
    unsafe fn run<L: Lanes>(&self) {
        match self.pml {
            [false, false] => self.run_with::<L, false, false>(),
            [false, true] => self.run_with::<L, false, true>(),
            [true, false] => self.run_with::<L, true, false>(),
            [true, true] => self.run_with::<L, true, true>(),
        }
    }
}

impl<P: OnePassEquation> Update<'_, P> {
    /// Updates one row. `X_PML`, `Y_PML`: whether the tile stores PML velocities along that axis.
    #[inline(always)]
    unsafe fn run_with<L: Lanes, const X_PML: bool, const Y_PML: bool>(&self) {
        let c = splats::<L>(self.stencil);
        let (mut before, mut at) = (L::load(self.q.wrapping_sub(L::N)), L::load(self.q));
        for i in (0..self.len).step_by(L::N) {
            let after = L::load(self.q.add(i + L::N));
            let s = derivative_before::<L>(c, [before, at, after]);
            (before, at) = (at, after);
            let x = L::load(self.term_x.wrapping_add(i));
            let y = if X_PML || Y_PML { L::load(self.term_y.wrapping_add(i)) } else { x };
            let others = match (X_PML, Y_PML) {
                (false, _) => x,
                (true, false) => y,
                (true, true) => L::splat(0.0),
            };
            self.prefetch::<L>(i);
            let square = L::load(self.squares.as_ptr().wrapping_add(i));
            let kappa = L::load(self.kappa.wrapping_add(i));
            let undamped = |number: usize, a: L::V| {
                let d = self.d[number].wrapping_add(i);
                let undamped = L::fma(kappa, a, L::load(d));
                L::store(d, undamped);
                undamped
            };
            let (mut all, mut vertical) = if P::PRESSURES == 1 {
                (undamped(0, L::fma(square, s, others)), s)
            } else {
                (undamped(0, others), undamped(1, L::mul(square, s)))
            };
            if Y_PML {
                all = L::add(all, y);
            }
            if X_PML {
                all = L::add(all, x);
            }
            if self.ends[0].contains(&i) || self.ends[1].contains(&i) {
                let z = L::load(self.increments.wrapping_add(i));
                if P::PRESSURES == 1 {
                    all = L::add(all, z);
                } else {
                    vertical = L::add(vertical, z);
                }
            }
            let load = |rows: [*const f32; 2], count: usize, number: usize| {
                if number < count { L::load(rows[number].wrapping_add(i)) } else { all }
            };
            let p = [load(self.p, P::PRESSURES, 0), load(self.p, P::PRESSURES, 1)];
            let mixing = [load(self.mixing, P::MIXING, 0), load(self.mixing, P::MIXING, 1)];
            let after = P::advance::<L>(p, [all, vertical], mixing);
            for (new, after) in self.new.into_iter().zip(after).take(P::PRESSURES) {
                write::<L>(new.wrapping_add(i), after, self.stream);
            }
        }
    }

    /// Prefetches the values of a later row.
    #[inline(always)]
    fn prefetch<L: Lanes>(&self, i: usize) {
        L::prefetch_far(self.prefetched.wrapping_add(i));
        for number in 0..P::PRESSURES {
            L::prefetch(self.d[number].wrapping_add(i + self.distance));
        }
        L::prefetch(self.kappa.wrapping_add(i + self.distance));
        for number in 0..P::MIXING {
            L::prefetch(self.mixing[number].wrapping_add(i + self.distance));
        }
    }
}
