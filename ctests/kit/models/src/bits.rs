//! Comparison bit for bit of what kernels and the CPU propagator compute.

use crate::shots::Shots;

pub fn fused() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    return cfg!(target_arch = "aarch64");
}

/// Returns [`fused`], and reports that the test is skipped where it is false.
#[track_caller]
pub fn fused_or_skip() -> bool {
    if !fused() {
        testkit::skip("this processor does not fuse products and sums as a GPU does");
    }
    fused()
}

pub fn same(found: &Shots, expected: &Shots, what: &str) {
    assert!(expected.record.is_empty() || expected.record.iter().any(|v| *v != 0.0), "{what}: nothing heard");
    let compare = |found: &[f32], expected: &[f32], part: &str| {
        assert_eq!(found.len(), expected.len(), "{what}: {part}");
        let apart = found.iter().zip(expected).position(|(a, b)| a.to_bits() != b.to_bits());
        let values = apart.map(|i| (i, found[i], expected[i]));
        assert_eq!(values, None, "{what}: {part}, index, kernels, Rust");
    };
    compare(&found.record, &expected.record, "record");
    assert_eq!(found.snapshots.len(), expected.snapshots.len(), "{what}: snapshots");
    for ((step, found), (expected_step, expected)) in found.snapshots.iter().zip(&expected.snapshots) {
        assert_eq!(step, expected_step, "{what}: steps of the snapshots");
        compare(found, expected, &format!("snapshot {step}"));
    }
}
