//! A shot that pauses between two steps and continues later has the bits of an uninterrupted shot.

use gpusched::backend::{Lane, cpu::Team};
use gpusched::fd::equation::{EQUATIONS, WITH_OTHER_LAYER};
use gpusched::fd::plan::{Options, Stencil, Storage};
use gpusched::fd::survey::{Receivers, Shot};

use testkit::Random;
use testmodels::bits::same;
use testmodels::shots::{World, in_parts};

/// For all equations, outputs and storages, with other threads after each pause.
#[test]
fn paused_shot_has_the_bits_of_an_uninterrupted_one() {
    let teams: Vec<Team> = [2, 1, 3, 2].map(|threads| Team::new(threads).unwrap()).into();
    let mut random = Random::new(77);
    let equations: Vec<_> = EQUATIONS.into_iter().chain(WITH_OTHER_LAYER).collect();
    let cases = [
        (1, None, vec![1, 2, 50]),
        (3, Some(9), vec![16, 17, 18, 90]),
        (7, Some(16), vec![15, 63, 64]),
        (1, Some(1), vec![33]),
        (40, None, vec![39, 40, 41, 80]),
        (1, None, vec![15, 31, 47, 63, 64, 65]),
        (1, None, vec![20, 40]),
    ];
    for (number, (record_every, snapshot_every, pauses)) in cases.into_iter().enumerate() {
        let receivers = Receivers::Plane { iz: 1, every: [1, 2] };
        let equation = equations[number % equations.len()];
        let n = [5 + number, 7 + 2 * number, 20 - number];
        let mut world = World::rough_for(equation, n, 100, receivers, &mut random);
        world.shot = Shot { record_every, snapshot_every, ..world.shot };
        let stencil = if number % 2 == 1 { Stencil::Optimised } else { Stencil::Taylor };
        let storage = if equation.name() == "tti" { Storage::Float32 } else { Storage::ALL[number / 2 % 2] };
        world.options = Options { pml: 9, stencil, storage, exact_time: number == 6, ..world.options };
        let what = format!("case {number}");
        let lane = |part| Lane::Cpu(&teams[part % teams.len()]);
        let (found, ends, _) = in_parts(&world.plan(), &world.shot, &pauses, lane).unwrap();
        // The shot computes one more step after the pause request.
        let expected: Vec<usize> = pauses.iter().map(|after| after + 1).collect();
        let apart = pauses.windows(2).all(|pair| pair[1] > pair[0] + 1);
        assert!(!apart || ends == expected, "{what}: {ends:?}");
        assert_eq!(ends.len(), pauses.len(), "{what}");
        same(&found, &world.fire(), &what);
    }
}

/// A pause request at the last step has no effect.
#[test]
fn pause_request_at_the_last_step_is_ignored() {
    let team = Team::new(2).unwrap();
    let world = World::rough([4; 3], 30, Receivers::Plane { iz: 0, every: [1, 1] }, &mut Random::new(79));
    for after in [29, 30] {
        let (_, ends, _) = in_parts(&world.plan(), &world.shot, &[after], |_| Lane::Cpu(&team)).unwrap();
        assert!(ends.is_empty(), "{ends:?}");
    }
}
