//! The staggered first derivative of eighth order: four values on each side.

/// Values that the derivative needs on each side; this many outermost layers of a padded grid are never updated.
pub const REACH: usize = 4;

/// The Taylor coefficients 1225/1024, -245/3072, 49/5120, -5/7168, to the seven digits that the
/// old kernels have. The difference from the exact ones is 2e-6 of a record.
pub const COEFFICIENTS: [f32; REACH] = [1.196289, -0.0797526, 0.009570313, -0.0006975447];

/// Time steps up to `1 / (COURANT vmax sqrt(1/dx² + 1/dy² + 1/dz²))` are stable: the sum of the
/// magnitudes of the exact coefficients.
pub const COURANT: f64 = 1.28631;
