//! `rcp.approx`: off by up to a unit in the last place.

/// Returns one of the two numbers around `1 / x`, by the parity of `x`; `1 / x` if it is a number,
/// zero or infinite.
///
/// For the largest mantissa it is the upper one: with the lower one a step of Newton's is not `1 /
/// x` rounded once. GPUs return the upper one, too, because their `rcp.rn` is this instruction and
/// the same step.
pub fn reciprocal(x: f32) -> f32 {
    const MANTISSA: u32 = 0x007f_ffff;
    let near = 1.0 / x;
    // Exact in double precision.
    let short = 1.0 - f64::from(x) * f64::from(near);
    if !near.is_normal() || short == 0.0 {
        return near;
    }
    let inwards = f32::from_bits(near.to_bits() - 1);
    let outwards = f32::from_bits(near.to_bits() + 1);
    let [lower, upper] = if short > 0.0 { [near, outwards] } else { [inwards, near] };
    if x.to_bits() & 1 == 0 || x.to_bits() & MANTISSA == MANTISSA { upper } else { lower }
}
