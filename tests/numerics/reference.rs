//! Compares the references with results of the old kernels. `edges` and `check` compare the library
//! with the references.

use testmodels::golden::Case;
use testmodels::reference::{Medium, Reference};
use testmodels::{gate, shots::Shots};

fn check(name: &str) {
    let case = Case::load(name);
    let medium = Medium::from(&*case.model);
    let reference = Reference::new(case.equation, &medium, case.dt);
    let runs: Vec<Shots> = gate::shots(&case).iter().map(|shot| reference.run(shot)).collect();
    let [record, trace, snapshot] = gate::pass(name, &case, &runs);
    println!("reference, {name}: record {record:.1e}, strong trace {trace:.1e}, snapshot {snapshot:.1e}");
}

#[test]
fn references_compute_what_the_old_kernels_did() {
    ["iso1_corner", "fd2_is1", "vti_multishot"].into_iter().for_each(check);
}

#[test]
fn tilted_reference_computes_what_the_old_kernel_did() {
    check("tti_hetero");
}
