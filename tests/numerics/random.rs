//! The library's kernel against the double-precision reference: sizes and sources at every edge of the code.

use gpusched::fd::survey::Receivers;
use gpusched::fd::wavelet::{Shape, Wavelet};

use testkit::Random;
use testmodels::norms::{peak, peak_between, relative_l2};
use testmodels::reference::{Equation, Medium, Reference};
use testmodels::shots::{fire, plain_shot, rough, time_step};

/// Pure rounding; the largest measured is 1.3e-6.
const ROUNDING: f64 = 3e-6;

fn check(seed: u64, n: [usize; 3], sources: &[[usize; 3]]) {
    let mut random = Random::new(seed);
    let h = [0; 3].map(|_| random.between(5.0, 20.0));
    let model = rough(n, h, &mut random);
    let dt = time_step(&model);
    let nt = 90;
    let medium = Medium::from(&*model);
    let reference = Reference::new(Equation::Acoustic1, &medium, dt);
    for &source in sources {
        let receivers = (0..40).map(|_| random.cell(n)).collect();
        let mut shot = plain_shot(source, vec![0.0], nt, receivers);
        shot.wavelet = Wavelet::new(Shape::Ricker, 0.04 / dt, dt, nt).unwrap();
        shot.amplitude = 1e4;
        shot.snapshot_every = Some(nt / 2 - 1);
        let truth = reference.run::<f64>(&shot);
        let largest = truth.snapshots.iter().map(|(_, field)| peak(field)).fold(0.0, f64::max);
        let found = fire(&model, dt, &shot);
        let what = format!("{n:?} from {source:?}");
        let error = relative_l2(&found.record, &truth.record);
        println!("random, {what}: {error:.1e}");
        assert!(error <= ROUNDING, "{what}: {error:e}");

        assert_eq!(truth.snapshots.len(), found.snapshots.len());
        for ((step, truth), (found_step, found)) in truth.snapshots.iter().zip(&found.snapshots) {
            assert_eq!(step, found_step);
            let error = peak_between(found, truth) / largest;
            assert!(error <= 1e-5, "{what}, the field at step {step}: {error:e}");
        }
    }
}

#[test]
fn odd_sizes_and_sources_in_corners() {
    check(1, [23, 17, 29], &[[0, 0, 0], [22, 16, 26], [11, 8, 14]]);
}

#[test]
fn sources_where_the_unsplit_interior_begins_and_ends() {
    check(2, [21, 25, 24], &[[3, 12, 10], [4, 12, 10], [10, 20, 19], [17, 21, 2]]);
}

#[test]
fn slabs_thinner_than_the_stencil() {
    check(3, [3, 25, 21], &[[1, 20, 18]]);
    check(4, [27, 2, 19], &[[26, 0, 4]]);
    check(5, [19, 23, 5], &[[9, 0, 1]]);
}

#[test]
fn without_an_interior() {
    check(6, [8, 8, 8], &[[4, 4, 4]]);
    check(7, [9, 10, 9], &[[4, 4, 3]]);
    for (seed, n) in
        [[1, 1, 3], [1, 1, 1], [1, 1, 30], [30, 1, 1], [1, 30, 1], [2, 3, 1]].into_iter().enumerate()
    {
        check(12 + seed as u64, n, &[[0, 0, 0]]);
    }
}

#[test]
fn longer_than_a_row_of_vectors() {
    check(9, [10, 9, 131], &[[5, 5, 100]]);
    check(10, [67, 11, 12], &[[63, 2, 7]]);
}

/// A trace depends on its own cell only, however the receivers are listed.
#[test]
fn receivers_do_not_disturb() {
    let mut random = Random::new(11);
    let model = rough([15, 13, 17], [10.0; 3], &mut random);
    let mut shot = plain_shot([7, 6, 8], vec![1.0, -2.0, 1.0], 60, Vec::new());
    shot.receivers = Receivers::Plane { iz: 3, every: [1, 1] };
    let whole = fire(&model, time_step(&model), &shot);
    shot.receivers = Receivers::Plane { iz: 3, every: [4, 5] };
    shot.record_every = 7;
    let thinned = fire(&model, time_step(&model), &shot);
    assert_eq!(thinned.samples, 9);
    for (trace, cell) in shot.receivers.cells(model.grid.n).enumerate() {
        let kept: Vec<_> = whole.trace(cell[1] * 15 + cell[0]).iter().copied().step_by(7).collect();
        assert_eq!(thinned.trace(trace), kept, "{cell:?}");
    }
    shot.receivers = Receivers::List(vec![[2, 9, 3], [2, 9, 3], [14, 0, 3]]);
    shot.record_every = 1;
    let listed = fire(&model, time_step(&model), &shot);
    assert_eq!(listed.trace(0), whole.trace(9 * 15 + 2));
    assert_eq!(listed.trace(1), listed.trace(0));
    assert_eq!(listed.trace(2), whole.trace(14));
}
