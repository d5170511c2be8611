//! The files that a call leaves, against those that the old library left.

use gpusched::legacy::acoustic1;

use testkit::Folder;
use testmodels::golden::{Case, floats};
use testmodels::{gate, shots::Shots};

use super::call::golden_call;

fn check(name: &str) {
    let out = Folder::new();
    out.make("snap");
    acoustic1(&golden_call(name, &out)).unwrap();

    let case = Case::load(name);
    let mut expected = vec!["shot.bin".to_owned(), "snap".to_owned()];
    let mut runs = Vec::new();
    for (shot, (record, recorded)) in
        case.records_in(&out.at("shot.bin")).into_iter().zip(case.snapshots()).enumerate()
    {
        let mut snapshots = Vec::new();
        for (step, _) in recorded {
            let file = format!("snap/ishot_{shot}it_{step}.bin");
            snapshots.push((step, floats(&out.at(&file))));
            expected.push(file);
        }
        runs.push(Shots { record, samples: case.samples(), snapshots });
    }
    expected.sort();
    assert_eq!(out.names(), expected);
    gate::pass(name, &case, &runs);
}

macro_rules! cases {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            check(stringify!($name));
        })*
    };
}

cases! {
    iso1_corner iso1_decim5 iso1_hetero iso1_hetero_mute iso1_hetero_w3 iso1_hetero_w3_mute iso1_homog
    iso1_multishot iso1_multishot_mute iso1_wtype1 iso1_wtype2 iso1_wtype3 iso1_wtype4 iso1_wtype5 iso1_wtype6
}
