//! Float32 arithmetic of instructions with `.ftz`: zeros of the same sign replace denormal operands
//! and results.
//!
//! A result is denormal if its magnitude is below 2^-126 after rounding to 24 bits with an
//! unlimited exponent: an exact result from 2^-126 - 2^-151 on becomes 2^-126. That is the rule of
//! x86; the PTX ISA leaves it open.

/// Exact results below this magnitude are flushed: half a unit in the last of 24 bits below 2^-126.
const TINY: f64 = f32::MIN_POSITIVE as f64 * (1.0 - 0.5 / (1 << 24) as f64);

#[inline(always)]
pub(super) fn operand(x: f32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits(if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits })
}

/// A sum below 2^-126 is exact, so it is flushed as an operand is.
#[inline(always)]
pub fn add(a: f32, b: f32) -> f32 {
    operand(operand(a) + operand(b))
}

#[inline(always)]
pub(super) fn sub(a: f32, b: f32) -> f32 {
    operand(operand(a) - operand(b))
}

#[inline(always)]
pub fn mul(a: f32, b: f32) -> f32 {
    let (a, b) = (operand(a), operand(b));
    let exact = f64::from(a) * f64::from(b);
    if exact.abs() < TINY { 0f32.copysign(exact as f32) } else { a * b }
}

#[inline(always)]
pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    let (a, b, c) = (operand(a), operand(b), operand(c));
    let (product, c64) = (f64::from(a) * f64::from(b), f64::from(c));
    // Knuth's sum of two: `sum + error` is exact. The product is, too.
    let sum = product + c64;
    let part = sum - product;
    let error = (product - (sum - part)) + (c64 - part);
    let tiny = sum.abs() < TINY || sum.abs() == TINY && error * sum < 0.0;
    if tiny { 0f32.copysign(sum as f32) } else { a.mul_add(b, c) }
}
