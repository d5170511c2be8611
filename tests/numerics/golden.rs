//! Records, snapshots and mutes against every recorded result of the old kernel.

use testmodels::gate;
use testmodels::golden::{Case, names};
use testmodels::reference::Equation;
use testmodels::shots::fire;

fn check(name: &str) {
    let case = Case::load(name);
    let runs: Vec<_> = gate::shots(&case).iter().map(|shot| fire(&case.model, case.dt, shot)).collect();
    let [record, trace, snapshot] = gate::pass(name, &case, &runs);
    println!("{name}: record {record:.1e}, strong trace {trace:.1e}, snapshot {snapshot:.1e}");
}

macro_rules! cases {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            check(stringify!($name));
        })*

        #[test]
        fn no_case_is_left_out() {
            assert_eq!(names(Equation::Acoustic1), [$(stringify!($name)),*]);
        }
    };
}

cases! {
    iso1_corner iso1_decim5 iso1_hetero iso1_hetero_mute iso1_hetero_w3 iso1_hetero_w3_mute iso1_homog
    iso1_multishot iso1_multishot_mute iso1_wtype1 iso1_wtype2 iso1_wtype3 iso1_wtype4 iso1_wtype5 iso1_wtype6
}
