//! The references against every result of the old kernels, in float32 and in double precision.

use testmodels::golden::{Case, count, float, floats, folder, json, list, names, second_order_ricker};
use testmodels::norms::ulps;
use testmodels::reference::{Equation, Precision, Reference};
use testmodels::{gate, shots::Shots};

/// Float32 fields against double ones. The largest that was measured is in `docs/numerics.md`.
const ROUNDING: f64 = 5e-6;
/// Float32 fields are equal bit for bit, where the mathematics library of the machine rounds as that of the old run.
const SAME: f64 = 5e-7;

fn check<R: Precision>(name: &str, bound: f64) {
    let case = Case::load(name);
    let reference = Reference::new(case.equation, &case.medium, case.dt);
    let runs: Vec<Shots> = gate::shots(&case).iter().map(|shot| reference.run::<R>(shot)).collect();
    let [record, trace, snapshot] = gate::pass(name, &case, &runs);
    let bytes = size_of::<R>();
    println!(
        "reference, {name}, {bytes} bytes: record {record:.1e}, strong trace {trace:.1e}, snapshot {snapshot:.1e}"
    );
    assert!(record <= bound, "{name}: {record:e}");
}

/// A small case of each equation whose reference `edges` uses in every run.
#[test]
fn references_compute_what_the_old_kernels_did() {
    for name in ["iso1_corner", "fd2_is1", "vti_multishot"] {
        check::<f32>(name, SAME);
    }
    for name in ["iso1_corner", "vti_multishot"] {
        check::<f64>(name, ROUNDING);
    }
}

#[test]
fn references_compute_every_case_of_the_old_kernels() {
    for equation in [Equation::Acoustic1, Equation::Acoustic2, Equation::Vti, Equation::Tti] {
        let names = names(equation);
        assert!(names.len() >= 3, "{names:?}");
        names.iter().for_each(|name| check::<f32>(name, SAME));
    }
    let first_order = ["iso1_homog", "iso1_hetero", "iso1_corner", "iso1_wtype6"];
    for name in first_order.iter().chain(&["fd2_is1", "vti_hetero", "vti_hetero_mute", "tti_hetero"]) {
        check::<f64>(name, ROUNDING);
    }
}

#[test]
fn the_second_order_source_is_that_of_the_old_kernel() {
    let tables = folder().join("tables");
    let values = floats(&tables.join("wavelets_fd2.bin"));
    let index = json(&tables.join("tables.json"));
    for entry in list(&index["wavelets_fd2"]["entries"]) {
        let nt = count(&entry["nt"]);
        let found = second_order_ricker(float(&entry["fm"]), float(&entry["dt"]), nt).samples;
        let truth = &values[count(&entry["offset_floats"])..][..nt];
        let worst = found.iter().zip(truth).map(|(&found, &truth)| ulps(found, truth)).max();
        assert!(worst <= Some(2), "{entry}: {worst:?}");
    }
}
