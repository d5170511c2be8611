//! The references against results of the old kernels. `edges` and `check` compare the library with them.

use testmodels::golden::Case;
use testmodels::reference::{Medium, Reference};
use testmodels::{gate, shots::Shots};

#[test]
fn references_compute_what_the_old_kernels_did() {
    for name in ["iso1_corner", "fd2_is1", "vti_multishot", "tti_hetero"] {
        let case = Case::load(name);
        let medium = Medium::from(&*case.model);
        let reference = Reference::new(case.equation, &medium, case.dt);
        let runs: Vec<Shots> = gate::shots(&case).iter().map(|shot| reference.run(shot)).collect();
        let [record, trace, snapshot] = gate::pass(name, &case, &runs);
        println!("reference, {name}: record {record:.1e}, strong trace {trace:.1e}, snapshot {snapshot:.1e}");
    }
}
