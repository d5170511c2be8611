//! The reciprocal of `kernels/one_pass_cells.cuh`: an approximation and a step of Newton's.

use fakecuda::ptx::reciprocal;

fn step(x: f32, approximation: f32) -> f32 {
    (-x).mul_add(approximation, 1.0).mul_add(approximation, approximation)
}

/// All mantissas, with both numbers around the reciprocal: an approximation is off by less than a
/// unit in the last place. The exponent changes nothing as long as all numbers are normal.
#[test]
fn a_step_rounds_any_approximate_reciprocal_as_a_division_does() {
    const ALL_ONES: u32 = 0x3fff_ffff;
    let first = 1f32.to_bits();
    let wrong = (first..=ALL_ONES).filter(|bits| {
        let x = f32::from_bits(*bits);
        let near = 1.0 / x;
        let below = f64::from(x) * f64::from(near) < 1.0;
        let other = if below { near.next_up() } else { near.next_down() };
        assert_eq!(step(x, reciprocal(x)), near, "{x:e}");
        [near, other].iter().any(|approximation| step(x, *approximation) != near)
    });
    // Its lower neighbour is 0.5, and 0.5 + 2^-25 is rounded to it.
    assert_eq!(wrong.collect::<Vec<_>>(), [ALL_ONES]);
}

#[test]
fn approximate_reciprocals_are_off() {
    let off = (0..1000u32).map(|i| 1.0 + i as f32 / 1024.0).filter(|x| reciprocal(*x) != 1.0 / x);
    assert!((300..700).contains(&off.count()));
    assert_eq!([4.0, 0.0, f32::INFINITY].map(reciprocal), [0.25, f32::INFINITY, 0.0]);
}
