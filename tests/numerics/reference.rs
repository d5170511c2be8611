//! The double-precision reference against the old kernel's results: how much of a difference is rounding.

use testmodels::golden::Case;
use testmodels::norms::relative_l2;
use testmodels::reference;

/// Float32 fields against double ones; the largest that was measured is in `docs/numerics.md`.
const ROUNDING: f64 = 5e-6;

fn check(name: &str) {
    let case = Case::load(name);
    for (is, (shot, truth)) in case.shots().iter().zip(case.records()).enumerate() {
        let run = reference::run(&case.model, case.dt, 20, shot);
        let error = relative_l2(&run.record_f32(), &truth);
        println!("reference, {name}, shot {is}: {error:.1e}");
        assert!(error <= ROUNDING, "{name}, shot {is}: {error:e}");
    }
}

#[test]
fn homogeneous() {
    check("iso1_homog");
}
#[test]
fn heterogeneous() {
    check("iso1_hetero");
}
#[test]
fn corner() {
    check("iso1_corner");
}
#[test]
fn odd() {
    check("iso1_wtype6");
}
