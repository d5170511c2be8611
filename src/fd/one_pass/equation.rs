//! Interface of an equation to the step that all equations with a split PML share.

use std::sync::Arc;

use super::coefficients::Coefficients;
use crate::fd::anisotropy::IsotropicBall;
use crate::fd::edge_field::EdgeField;
use crate::fd::march::kernel_set::KernelSet;
use crate::fd::vector::lanes::Lanes;

/// An equation in a medium, with a time step.
pub trait OnePassEquation: Clone + Send + Sync {
    /// The name of the equation.
    const NAME: &'static str;
    /// Number of pressures, 1 or 2. The fluxes along x and y are those of the first, the flux along
    /// z is that of the last.
    const PRESSURES: usize;
    /// Number of mixing coefficients, by which increments change the pressures: 0 or 2.
    const MIXING: usize;
    /// Points of the source: cells below the shot's source cell, and the factor on the wavelet. The
    /// source is in all pressures while their fluxes are computed, and in none of them after the
    /// step.
    const SOURCE: &'static [(usize, f32)];

    /// Returns the kernels of the equation for GPUs.
    fn kernel_set() -> &'static KernelSet;

    /// Returns the coefficients of a plan.
    fn coefficients(&self) -> &Arc<Coefficients>;

    /// Returns the largest velocity in a padded cell over that along z, and the words for its
    /// properties other than vp and rho.
    fn stretch(&self, _cell: [usize; 3]) -> (f64, String) {
        (1.0, String::new())
    }

    /// Returns the mixing coefficient `number`, below [`OnePassEquation::MIXING`].
    fn mixing(&self, number: usize) -> &EdgeField;

    /// Returns the equation for a shot whose source is at a padded cell.
    fn around(&self, _source: [usize; 3]) -> Self {
        self.clone()
    }

    /// Returns the mixing coefficients around the shot's source, if the shot has its own there.
    fn ball(&self) -> Option<&IsotropicBall> {
        None
    }

    /// Returns the pressures after a step, from those before it without a source, and the
    /// increments. With one pressure the first increment is that of all axes. With two the first is
    /// that of x and y, the second that of z.
    ///
    /// # Safety
    /// The processor has the instructions.
    unsafe fn advance<L: Lanes>(pressures: [L::V; 2], increments: [L::V; 2], mixing: [L::V; 2]) -> [L::V; 2];
}
