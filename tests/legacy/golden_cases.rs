//! The files that a call leaves, against those that the old library left.

use std::fs;

use gpusched::legacy::acoustic1;

use crate::call::{Folder, golden_call};
use crate::golden::{self, count, floats, list};
use crate::norms::{l2, l2_between, peak, peak_between, relative_l2};

/// A shot's record as a whole. Other compilers' roundings move the old kernel by up to 4.4e-6, the
/// smallest mistakes that were tried (a wrong reference velocity of the absorbing layer) by 1e-4.
const RECORD: f64 = 2e-5;
/// A trace of at least a hundredth of the strongest one's norm; roundings move one by up to 4e-5.
const STRONG_TRACE: f64 = 2e-4;
/// A snapshot's largest difference over the largest value in all of a case's snapshots; roundings: 6.7e-6.
const SNAPSHOT: f64 = 2e-5;

fn check(name: &str) {
    let out = Folder::new(name);
    out.folder("snap");
    acoustic1(&golden_call(name, &out)).unwrap();

    let case = golden::folder().join(name);
    let index = golden::json(&case.join("case.json"));
    let snapshots: Vec<_> =
        list(&index["snapshots"]).iter().map(|entry| entry["file"].as_str().unwrap()).collect();
    let mut expected: Vec<String> = snapshots.iter().map(|&name| name.to_owned()).collect();
    expected.extend(["shot.bin".into(), "snap".into()]);
    expected.sort();
    assert_eq!(out.names(), expected);

    let record = &index["record"];
    assert_eq!(fs::metadata(out.path("shot.bin")).unwrap().len(), record["size_bytes"].as_u64().unwrap());
    let (found, truth) = (floats(&out.path("shot.bin")), floats(&case.join("shot.bin")));
    let shape: Vec<usize> = list(&record["shape_per_shot"]).iter().map(count).collect();
    let size: usize = shape.iter().product();
    let mut end = 0;
    for (shot, offset) in list(&record["byte_offset_per_shot"]).iter().enumerate() {
        let start = count(offset) / 4;
        assert!(found[end..start].iter().all(|v| v.to_bits() == 0), "{name}: gap before shot {shot}");
        end = start + size;
        let (found, truth) = (&found[start..end], &truth[start..end]);
        match record.get("unmuted_l2_per_shot") {
            Some(norms) => {
                let zeros = |record: &[f32]| record.iter().map(|&v| v == 0.0).collect::<Vec<_>>();
                assert!(zeros(found) == zeros(truth), "{name}, shot {shot}: other samples are zero");
                let error = l2_between(found, truth) / norms[shot].as_f64().unwrap();
                assert!(error <= RECORD, "{name}, shot {shot}: muted record off by {error:e}");
            }
            None => check_record(found, truth, shape[2], &format!("{name}, shot {shot}")),
        }
    }
    assert_eq!(end, found.len());

    let snapshots: Vec<_> =
        snapshots.iter().map(|name| (name, floats(&out.path(name)), floats(&case.join(name)))).collect();
    let largest = snapshots.iter().map(|(_, _, truth)| peak(truth)).fold(0.0, f64::max);
    for (file, found, truth) in &snapshots {
        let error = peak_between(found, truth) / largest;
        assert!(error <= SNAPSHOT, "{name}: {file} off by {error:e}");
    }
}

fn check_record(found: &[f32], truth: &[f32], samples: usize, name: &str) {
    let error = relative_l2(found, truth);
    assert!(error <= RECORD, "{name}: record off by {error:e}");
    let traces = || found.chunks(samples).zip(truth.chunks(samples));
    let strongest = traces().map(|(_, truth)| l2(truth)).fold(0.0, f64::max);
    for (trace, (found, truth)) in traces().enumerate() {
        if l2(truth) > 0.01 * strongest {
            let error = relative_l2(found, truth);
            assert!(error <= STRONG_TRACE, "{name}: trace {trace} off by {error:e}");
        }
    }
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
