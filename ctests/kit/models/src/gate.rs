//! Accepted differences of shots from the recorded results of the old kernels; `docs/numerics.md`
//! has the reasons.

use gpusched::fd::{survey::Shot, verify::direct_wave_mute};

use crate::golden::Case;
use crate::norms::{l2, l2_between, peak, peak_between, relative_l2};
use crate::reference::Equation;
use crate::shots::Shots;

/// Relative error of a record as a whole. Double-precision fields are up to 2.8e-6 away from the
/// old kernels'.
pub const RECORD: f64 = 5e-6;
/// Relative error of a trace of at least a hundredth of the strongest one's norm.
const STRONG_TRACE: f64 = 2e-4;
/// A snapshot's largest difference over the largest value in all of a case's snapshots.
const SNAPSHOT: f64 = 2e-5;

pub fn shots(case: &Case) -> Vec<Shot> {
    let muted = |mut shot: Shot| {
        if case.muted {
            shot.mute = Some(direct_wave_mute(&case.model, &shot, case.dt, case.frequency(), 2.0).unwrap());
        }
        shot
    };
    case.shots().into_iter().map(muted).collect()
}

/// Returns the largest errors of a case's shots: of records, strong traces and snapshots. Panics if
/// an error is too large.
pub fn pass(name: &str, case: &Case, runs: &[Shots]) -> [f64; 3] {
    let records = case.records();
    assert_eq!(runs.len(), records.len());

    let mut worst = [0.0f64; 3];
    for (is, (run, truth)) in runs.iter().zip(&records).enumerate() {
        if case.muted {
            let error = l2_between(&run.record, truth) / case.unmuted_norms()[is];
            let zero = |record: &[f32]| record.iter().map(|&v| v == 0.0).collect::<Vec<_>>();
            assert!(zero(&run.record) == zero(truth), "{name}, shot {is}: the mute's zeros differ");
            worst[0] = worst[0].max(error);
            continue;
        }
        worst[0] = worst[0].max(relative_l2(&run.record, truth));
        let traces = || run.record.chunks(run.samples).zip(truth.chunks(run.samples));
        let strongest = traces().map(|(_, truth)| l2(truth)).fold(0.0, f64::max);
        for (found, truth) in traces().filter(|(_, truth)| l2(truth) > 0.01 * strongest) {
            worst[1] = worst[1].max(relative_l2(found, truth));
        }
    }

    let snapshots = case.snapshots();
    let largest = snapshots.iter().flatten().map(|(_, field)| peak(field)).fold(0.0, f64::max);
    for (run, truth) in runs.iter().zip(&snapshots) {
        let steps = |shots: &[(usize, Vec<f32>)]| shots.iter().map(|(step, _)| *step).collect::<Vec<_>>();
        // The old TTI kernel wrote no snapshot of step 0.
        let skipped = run.snapshots.partition_point(|(step, _)| case.equation == Equation::Tti && *step == 0);
        let found = &run.snapshots[skipped..];
        assert_eq!(steps(found), steps(truth), "{name}: steps of the snapshots");
        for ((_, found), (_, truth)) in found.iter().zip(truth) {
            worst[2] = worst[2].max(peak_between(found, truth) / largest);
        }
    }

    assert!(worst[0] <= RECORD, "{name}: the record is off by {:e}", worst[0]);
    assert!(worst[1] <= STRONG_TRACE, "{name}: a strong trace is off by {:e}", worst[1]);
    assert!(worst[2] <= SNAPSHOT, "{name}: a snapshot is off by {:e}", worst[2]);
    worst
}
