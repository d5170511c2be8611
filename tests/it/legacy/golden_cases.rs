//! Compares the files of a call with those of the old library.

use gpusched::legacy::{ACOUSTIC1, ACOUSTIC2, TTI, VTI};

use testkit::Folder;
use testmodels::golden::{Case, floats, names};
use testmodels::reference::Equation;
use testmodels::{gate, shots::Shots};

use super::call::golden_call;

fn check(name: &str) {
    let out = Folder::new();
    out.make("snap");
    let case = Case::load(name);
    let (function, between) = match case.equation {
        Equation::Acoustic1 => (&ACOUSTIC1, ""),
        Equation::Acoustic2 => (&ACOUSTIC2, "_"),
        Equation::Vti => (&VTI, "_"),
        Equation::Tti => (&TTI, "_"),
    };
    function.call(&golden_call(function, name, &out)).unwrap();

    let mut expected = vec!["shot.bin".to_owned(), "snap".to_owned()];
    let mut runs = Vec::new();
    for (shot, (record, recorded)) in
        case.records_in(&out.at("shot.bin")).into_iter().zip(case.snapshots()).enumerate()
    {
        let mut snapshots = Vec::new();
        for (step, _) in recorded {
            let file = format!("snap/ishot_{shot}{between}it_{step}.bin");
            snapshots.push((step, floats(&out.at(&file))));
            expected.push(file);
        }
        runs.push(Shots { record, samples: case.samples(), snapshots });
    }
    expected.sort();
    assert_eq!(out.names(), expected);
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
    let equations = [Equation::Acoustic2, Equation::Acoustic1, Equation::Vti, Equation::Tti];
    assert_eq!(equations.map(names).concat(), CASES);
}

cases! {
    fd2_hetero fd2_homog fd2_is1 fd2_ragged
    iso1_corner iso1_decim5 iso1_hetero iso1_hetero_mute iso1_hetero_w3 iso1_hetero_w3_mute iso1_homog
    iso1_multishot iso1_multishot_mute iso1_wtype1 iso1_wtype2 iso1_wtype3 iso1_wtype4 iso1_wtype5 iso1_wtype6
    vti_hetero vti_hetero_mute vti_homog vti_multishot
    tti_hetero tti_hetero_mute tti_homog
}
