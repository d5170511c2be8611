//! Flushing of the interpreter at the boundary of denormal numbers. `backend::float_mode` has the
//! same values of the CPU.

use fakecuda::ptx::flush::{add, fma, mul};

#[test]
fn interpreter_flushes_at_the_boundary_as_the_cpu() {
    let (least, ulp) = (f32::MIN_POSITIVE, f32::EPSILON);
    // Rounded to 24 bits the last is 2^-126.
    let products = [
        (least, 1.0, least),
        (least, 1.0 - ulp / 2.0, 0.0),
        (1e-20, 1e-20, 0.0),
        (1e-40, 1e30, 0.0),
        (2f32.powi(-100) * (1.0 - ulp), 2f32.powi(-26) * (1.0 + ulp), least),
    ];
    for (a, b, expected) in products {
        assert_eq!(mul(a, b), expected, "{a:e} times {b:e}");
    }
    assert_eq!([add(1.5 * least, -least), add(-2.5 * least, least)], [0.0, -1.5 * least]);
    for (a, b, c, expected) in
        [(least, 0.75, 0.0, 0.0), (1e-20, 1e-20, -least, -0.0), (least, 3.0, -least, 2.0 * least)]
    {
        assert_eq!(fma(a, b, c).to_bits(), f32::to_bits(expected), "{a:e} times {b:e} and {c:e}");
    }
}
