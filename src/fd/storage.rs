//! Number format of a step's coefficients: float32, or 16-bit numbers that stand for values between
//! the smallest and the largest of their field.

use crate::error::{Error, Result};

/// Number format of the coefficients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Storage {
    #[default]
    Float32,
    /// See [`Scale`].
    Bits16,
}

/// Largest relative error of a coefficient. A field with a larger error is refused in 16 bits.
pub const WORST: f64 = 1e-3;

impl Storage {
    pub const ALL: [Storage; 2] = [Storage::Float32, Storage::Bits16];

    pub fn name(self) -> &'static str {
        if self == Storage::Float32 { "float32" } else { "16-bit" }
    }

    /// Returns the bytes of a value.
    pub fn bytes(self) -> usize {
        if self == Storage::Float32 { size_of::<f32>() } else { size_of::<u16>() }
    }

    /// Returns the factor on the largest stable time step: 1 for exact coefficients, less for 16
    /// bits. The square of a speed is a product of `factors` coefficients, each at most [`WORST`]
    /// too large.
    pub fn stable(self, factors: i32) -> f64 {
        if self == Storage::Float32 { 1.0 } else { 1.0 - 0.5 * f64::from(factors) * WORST }
    }
}

/// Map from the 16-bit numbers of a field to values: `q` stands for `low + step q`, rounded once.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[repr(C)]
pub struct Scale {
    pub low: f32,
    pub step: f32,
}

impl Scale {
    /// Returns the scale for values from `low` to `high`. Numbers stand for `low` exactly, and for
    /// `high` to a rounding of float32.
    pub fn new(low: f32, high: f32) -> Scale {
        Scale { low, step: ((f64::from(high) - f64::from(low)) / f64::from(u16::MAX)) as f32 }
    }

    /// Returns the number nearest to a value, which differs from it by at most half a step.
    pub fn number(self, value: f32) -> u16 {
        // In a field of one value this is 0 / 0, which becomes 0.
        ((f64::from(value) - f64::from(self.low)) / f64::from(self.step) + 0.5) as u16
    }

    pub fn value(self, number: u16) -> f32 {
        f32::from(number).mul_add(self.step, self.low)
    }
}

/// Refuses a field whose largest relative error `off` exceeds [`WORST`].
pub fn check(what: &str, off: f64) -> Result<()> {
    if off <= WORST {
        return Ok(());
    }
    let value = format!("off by up to {off:.1e} of a cell's value, because the largest value is far larger");
    let accepted = format!("at most {WORST:e}; store it in float32");
    Err(Error::argument(format!("{what} in 16 bits"), value, accepted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_are_exact_and_all_else_is_within_half_a_step() {
        for (low, high) in
            [(2.25e9f32, 4.455e10f32), (1.0 / 2700.0, 1.0 / 1000.0), (1e-3, 1.000001e-3), (3.0, 3e7)]
        {
            let scale = Scale::new(low, high);
            assert_eq!((scale.number(low), scale.value(0)), (0, low));
            assert_eq!((scale.number(high), scale.value(u16::MAX)), (u16::MAX, high));
            for part in 0..=10_000 {
                let value = low + (high - low) * (part as f32 / 10_000.0);
                let off = (f64::from(scale.value(scale.number(value))) - f64::from(value)).abs();
                // Half a step and a rounding.
                let most = 0.5 * f64::from(scale.step) + 6e-8 * f64::from(value);
                assert!(off <= most, "{value} of {low} to {high} is off by {off}");
            }
        }
        for value in [1e-3, 2.25e9, f32::MIN_POSITIVE, f32::MAX] {
            let scale = Scale::new(value, value);
            assert_eq!((scale.number(value), scale.value(0)), (0, value));
        }
    }
}
