//! The derivatives of the values of a vector.

use super::Weights;
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::vector::lanes::{Lanes, splats};

/// [`Weights`] in each lane.
pub struct WeightSplats<L: Lanes> {
    pub centre: L::V,
    pub axes: [[L::V; HALF_WIDTH]; 3],
}

impl<L: Lanes> WeightSplats<L> {
    /// The processor must have the instructions.
    #[inline(always)]
    pub unsafe fn new(weights: &Weights) -> WeightSplats<L> {
        let [x, y, z] = &weights.axes;
        WeightSplats {
            centre: L::splat(weights.centre),
            axes: [splats::<L>(x), splats::<L>(y), splats::<L>(z)],
        }
    }
}

/// The values at one to four cells before and after those of a vector.
///
/// # Safety
/// Of its methods: the processor has the instructions, and the values may be read.
pub struct Taps<L: Lanes> {
    pub before: [L::V; HALF_WIDTH],
    pub after: [L::V; HALF_WIDTH],
}

impl<L: Lanes> Taps<L> {
    /// Loads those across rows. `tap`: returns the row that is 4 before, up to the one 4 after.
    #[inline(always)]
    pub unsafe fn across(tap: impl Fn(usize) -> *const f32) -> Self {
        Taps {
            before: [L::load(tap(3)), L::load(tap(2)), L::load(tap(1)), L::load(tap(0))],
            after: [L::load(tap(5)), L::load(tap(6)), L::load(tap(7)), L::load(tap(8))],
        }
    }

    /// Loads those around `at`. `stride`: values from cell to cell along the axis.
    #[inline(always)]
    pub unsafe fn around(at: *const f32, stride: usize) -> Self {
        let first = at.wrapping_sub(HALF_WIDTH * stride);
        Taps::across(|k| first.wrapping_add(k * stride))
    }

    /// Takes those along the row from a vector and its neighbours.
    #[inline(always)]
    pub unsafe fn along(before: L::V, at: L::V, after: L::V) -> Self {
        Taps {
            before: [
                L::earlier::<1>(before, at),
                L::earlier::<2>(before, at),
                L::earlier::<3>(before, at),
                L::earlier::<4>(before, at),
            ],
            after: [
                L::later::<1>(at, after),
                L::later::<2>(at, after),
                L::later::<3>(at, after),
                L::later::<4>(at, after),
            ],
        }
    }

    /// Returns the weighted sum of the differences of neighbours.
    #[inline(always)]
    pub unsafe fn first(&self, k: &[L::V; HALF_WIDTH]) -> L::V {
        let pair = |m: usize| L::sub(self.after[m], self.before[m]);
        let sum = L::fma(k[1], pair(1), L::mul(k[0], pair(0)));
        L::fma(k[3], pair(3), L::fma(k[2], pair(2), sum))
    }

    /// Returns the weighted sum of the pairs of neighbours.
    #[inline(always)]
    pub unsafe fn second(&self, c: &[L::V; HALF_WIDTH]) -> L::V {
        let pair = |m: usize| L::add(self.before[m], self.after[m]);
        let sum = L::fma(c[1], pair(1), L::mul(c[0], pair(0)));
        L::fma(c[3], pair(3), L::fma(c[2], pair(2), sum))
    }
}
