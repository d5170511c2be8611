//! Rounds numbers to the digits that a user would write.

/// Returns the shortest decimal of this float32, as float64: 0.001 stays 0.001 in a JSON file.
pub fn decimal(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}

/// Rounds to twelve significant digits, which hides the error of float64.
pub fn tidy(value: f64) -> f64 {
    format!("{value:.11e}").parse().unwrap_or(value)
}
