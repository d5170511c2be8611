//! Distances of two fields.

pub fn l2(values: &[f32]) -> f64 {
    values.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>().sqrt()
}

pub fn l2_between(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len(), "fields of different sizes");
    a.iter().zip(b).map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum::<f64>().sqrt()
}

/// Returns the norm of the difference over the norm of `truth`; infinite if a value of `found` is
/// not finite.
pub fn relative_l2(found: &[f32], truth: &[f32]) -> f64 {
    let error = l2_between(found, truth) / l2(truth);
    if error.is_nan() { f64::INFINITY } else { error }
}

pub fn peak(values: &[f32]) -> f64 {
    values.iter().fold(0.0, |most, &v| f64::from(v.abs()).max(most))
}

/// Returns the largest absolute difference; infinite if a value is not finite.
pub fn peak_between(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len(), "fields of different sizes");
    a.iter().zip(b).fold(0.0, |most, (&a, &b)| {
        let difference = (f64::from(a) - f64::from(b)).abs();
        if difference.is_nan() { f64::INFINITY } else { difference.max(most) }
    })
}

pub fn ulps(a: f32, b: f32) -> u32 {
    let place = |v: f32| {
        let bits = v.to_bits() as i32;
        if bits < 0 { i64::from(i32::MIN) - i64::from(bits) } else { i64::from(bits) }
    };
    assert!(a.is_finite() && b.is_finite(), "{a} or {b} is not finite");
    u32::try_from((place(a) - place(b)).abs()).unwrap()
}
