//! Source time functions of the old kernels (legacy numbering 1 to 6).

use crate::error::Result;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Ricker = 1,
    GaussianDerivative = 2,
    Gaussian = 3,
    RickerIntegral = 4,
    RickerDoubleIntegral = 5,
    RickerTripleIntegral = 6,
}

/// One sample a time step, unit amplitude; zero after the last.
#[derive(Debug, Clone, PartialEq)]
pub struct Wavelet {
    pub samples: Vec<f32>,
}

impl Wavelet {
    /// As the old kernels compute it, their accumulated float32 time included:
    /// as many samples as steps were active, at most `nt`.
    pub fn new(shape: Shape, frequency_hz: f32, dt: f32, nt: usize) -> Result<Self> {
        let _ = (shape, frequency_hz, dt, nt);
        Ok(Wavelet { samples: Vec::new() })
    }
}
