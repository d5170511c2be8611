//! What can be known before a shot runs: stability, sampling, memory.

use super::model::Model;

/// Largest stable time step in seconds: `1 / (1.28631 vmax sqrt(1/dx² + 1/dy² + 1/dz²))`, in double.
pub fn dt_max(model: &Model) -> f64 {
    let _ = model;
    0.0
}

/// Cells per shortest wavelength: `vmin / (fmax max(dx, dy, dz))` with `fmax` = 2.5 peak frequencies.
pub fn cells_per_wavelength(model: &Model, peak_frequency_hz: f32) -> f64 {
    let _ = (model, peak_frequency_hz);
    0.0
}
