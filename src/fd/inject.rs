//! The source's pressure at each step, and the medium that a source with a unit reads.

use super::grid::layout::Layout;
use super::host_memory::collected;
use super::model::WATER;
use super::survey::Shot;
use crate::backend::float_mode::FloatMode;
use crate::error::Result;

/// Poles of the dipole source of the old kernels: cells below the source's own, and sign.
pub const DIPOLE: [(usize, f32); 2] = [(0, -1.0), (2, 1.0)];

/// An equation in a medium, as a source with a unit reads it.
pub trait SourceMedium {
    /// Returns the layout of fields on the CPU.
    fn layout(&self) -> &Layout;

    /// Returns rho vp² of a padded cell in Pa. Equations without density have that of water.
    fn modulus(&self, cell: [usize; 3]) -> f64;

    /// Returns 1/rho in m³/kg, half a cell after a padded cell along an axis.
    fn buoyancy(&self, _cell: [usize; 3], _axis: usize) -> f64 {
        1.0 / f64::from(WATER)
    }

    /// Returns the sign with which a source's increment enters.
    fn increment_factor(&self) -> f64 {
        1.0
    }
}

/// Returns the amplitude times the wavelet, for the steps of a shot that have a source. Denormals
/// are flushed, as in a step on the CPU, which computes the product itself.
pub fn source_pressures(shot: &Shot) -> Result<Vec<f32>> {
    let _mode = FloatMode::flushing();
    let samples = shot.wavelet.samples.iter().take(shot.nt);
    collected(samples.map(|sample| shot.amplitude * sample), "the wavelet of a shot")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fd::wavelet::Wavelet;

    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    #[test]
    fn source_pressures_are_flushed() {
        let shot = Shot {
            wavelet: Wavelet { samples: vec![1e-20, -1e-20, 1e-40, 0.5, 1.0] },
            amplitude: 1e-20,
            nt: 4,
            ..Shot::default()
        };
        let found: Vec<u32> = source_pressures(&shot).unwrap().into_iter().map(f32::to_bits).collect();
        assert_eq!(found, [0.0, -0.0, 0.0, 0.5e-20].map(f32::to_bits));
    }
}
