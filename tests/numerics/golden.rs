//! Records, snapshots and mutes against every recorded result of the old kernels.

use testmodels::gate;
use testmodels::golden::{Case, names};
use testmodels::reference::Equation;
use testmodels::shots::fire_with;

fn check(name: &str) {
    let case = Case::load(name);
    let options = case.options();
    let fire = |shot| fire_with(&case.model, case.dt, shot, options, 2);
    let runs: Vec<_> = gate::shots(&case).iter().map(fire).collect();
    let [record, trace, snapshot] = gate::pass(name, &case, &runs);
    println!("{name}: record {record:.1e}, strong trace {trace:.1e}, snapshot {snapshot:.1e}");
}

macro_rules! cases {
    ($($name:ident)*) => {
        const CASES: &[&str] = &[$(stringify!($name)),*];

        $(#[test]
        fn $name() {
            check(stringify!($name));
        })*
    };
}

#[test]
fn no_case_is_left_out() {
    let all = [Equation::Acoustic1, Equation::Vti, Equation::Tti].map(names).concat();
    assert_eq!(all, CASES);
}

cases! {
    iso1_corner iso1_decim5 iso1_hetero iso1_hetero_mute iso1_hetero_w3 iso1_hetero_w3_mute iso1_homog
    iso1_multishot iso1_multishot_mute iso1_wtype1 iso1_wtype2 iso1_wtype3 iso1_wtype4 iso1_wtype5 iso1_wtype6
    vti_hetero vti_hetero_mute vti_homog vti_multishot
    tti_hetero tti_hetero_mute tti_homog
}
