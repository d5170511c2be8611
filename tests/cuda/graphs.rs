//! Repeated launches become graphs, with the same results. A graph that fails does not fail its shot.

use gpusched::Result;
use gpusched::backend::cuda::{Graphs, Launches, Params, Stream};
use gpusched::device::Health;
use gpusched::fd::{survey::Receivers, wavelet::Wavelet};
use gpusched::sched::Scheduler;

use crate::fixtures::*;
use testkit::Random;
use testkit::random::noise;
use testmodels::bits::{fused_or_skip, same};
use testmodels::shots::World;

/// Puts four launches for each factor, in rounds: twice `y = a x + y; x = a y + x`. Each needs the one before.
fn grow(stream: &Stream, factors: &[f32], rounds: usize) -> Result<()> {
    const VALUES: usize = 64;
    let kernel = stream.function(SMALL, "saxpy")?;
    let [x, y] = [1.0_f32, 2.0].map(|value| stream.uploaded(&[value; VALUES], "a test's values"));
    let (x, y) = (x?, y?);
    let mut graphs = Graphs::default();
    let mut expected = [1.0_f32, 2.0];
    for _ in 0..rounds {
        for &factor in factors {
            graphs.put(stream, factor, |list: &mut Launches| {
                for number in 0..4 {
                    let (to, from) = if number % 2 == 0 { (&y, &x) } else { (&x, &y) };
                    let params = Params::new().with(to.address()).with(from.address());
                    list.push(&kernel, [1; 3], [64, 1, 1], params.with(factor).with(VALUES as i32));
                }
            })?;
            for _ in 0..2 {
                expected[1] = factor.mul_add(expected[0], expected[1]);
                expected[0] = factor.mul_add(expected[1], expected[0]);
            }
        }
    }
    for (block, expected) in [(&x, expected[0]), (&y, expected[1])] {
        assert_eq!(stream.download(block, 0..VALUES)?.wait()?[..], [expected; VALUES]);
    }
    Ok(())
}

pub fn repeated_launches_become_one_graph() {
    let scheduler = scheduler("cuda", 1).unwrap();
    run(&scheduler, task(|stream| grow(stream, &[0.25, 0.5], 5))).unwrap();
    let done =
        (driver_count(0, "launches"), driver_count(0, "graph_launches"), driver_count(0, "graph_nodes"));
    // The launches of the first round are single.
    assert_eq!(done, (8, 8, 32));
    assert_eq!(
        (driver_count(0, "graphs"), report()["graphs"].as_u64()),
        (0, Some(0)),
        "a task leaves its graphs"
    );
    // More lists than the cache holds.
    let many: Vec<f32> = (0..40).map(|k| 1.0 / (16 + k) as f32).collect();
    run(&scheduler, task(move |stream| grow(stream, &many, 3))).unwrap();
    let graphs = (driver_count(0, "graph_launches") - 8) / 2;
    assert_eq!((graphs, driver_count(0, "launches")), (32, 8 + 160 + 2 * 4 * (40 - 32)));
}

/// Lists that are not put again, such as those of a slower shape, make room for graphs of later ones.
pub fn stale_lists_make_room() {
    let scheduler = scheduler("cuda", 1).unwrap();
    let factor = |k: usize| 1.0 / (64 + k) as f32;
    let tried = (0..64).map(|number| factor(number % 32));
    let kept = (0..400).map(|number| factor(32 + number % 5));
    let all: Vec<f32> = tried.chain(kept).collect();
    run(&scheduler, task(move |stream| grow(stream, &all, 1))).unwrap();
    // The first 32 lists once each; the other five from submission 290 on, after they have come once more.
    assert_eq!(driver_count(0, "graph_launches"), 32 + 464 - 290 - 4);
}

/// The task returns an error while its graph still runs.
pub fn a_graph_in_flight_is_waited_for() {
    let scheduler = scheduler("cuda", 1).unwrap();
    let code = task(|stream| {
        let kernel = stream.function(SMALL, "fill")?;
        let block = stream.zeroed::<f32>(1 << 16, "a test's values")?;
        let mut graphs = Graphs::default();
        for _ in 0..6 {
            graphs.put(stream, (), |list: &mut Launches| {
                for value in 0..8 {
                    let params = Params::new().with(block.address()).with(value as f32).with(1 << 16);
                    list.push(&kernel, [1024, 1, 1], [64, 1, 1], params);
                }
            })?;
        }
        Err(gpusched::Error::Internal("enough".into()))
    });
    assert!(run(&scheduler, code).is_err());
    assert_eq!((driver_count(0, "graph_launches"), driver_count(0, "graphs")), (5, 0));
}

/// Runs a shot whose wavelet lasts two batches of 16 steps and a half, and compares it with the CPU.
fn fire(scheduler: &Scheduler, nt: usize) {
    let mut random = Random::new(31);
    let mut world = World::rough([4, 3, 5], nt, Receivers::Plane { iz: 1, every: [1, 2] }, &mut random);
    world.shot.wavelet = Wavelet::from_samples(noise(40, 31)).unwrap();
    let found = world.fire_on(scheduler).unwrap();
    if fused_or_skip() {
        same(&found, &world.fire(), "a shot of graphs");
    }
}

/// Repeated batches are graphs, so a step costs few calls of the driver. Each call makes the context current first.
pub fn a_shots_batches_are_graphs() {
    let scheduler = scheduler("cuda", 1).unwrap();
    let calls = || report()["calls"].as_u64().unwrap();
    let begin = calls();
    fire(&scheduler, 100);
    // Three of seven batches: the second, which equals the first, and two between the wavelet's end and the last.
    assert_eq!(driver_count(0, "graph_launches"), 3, "{}", report());
    assert_eq!(driver_count(0, "graphs"), 0, "a shot leaves its graphs");
    let short = calls() - begin;
    let begin = calls();
    fire(&scheduler, 260);
    assert_eq!(driver_count(0, "graph_launches"), 16, "{}", report());
    let long = calls() - begin;
    // 160 steps in ten batches. Launched each by itself, a step takes more than six calls.
    assert!(long - short <= 160 * 5 / 2, "{} calls for 160 steps", long - short);
}

/// The driver makes no graphs, or refuses the first: the launches are single.
pub fn shot_runs_without_graphs() {
    let scheduler = scheduler("cuda", 1).unwrap();
    fire(&scheduler, 100);
    assert!(driver_count(0, "launches") > 100, "{}", report());
    assert_eq!((health(&scheduler), driver_count(0, "contexts_made")), (vec![Health::Good], 1));
}

/// A graph fails in the middle of a shot. The shot is retried on the other GPU, and both GPUs are used again.
pub fn a_graph_that_poisons() {
    let scheduler = scheduler("cuda", 1).unwrap();
    fire(&scheduler, 100);
    assert_eq!(health(&scheduler), [Health::Good; 2]);
    assert_eq!((0..2).map(|gpu| driver_count(gpu, "contexts_made")).sum::<u64>(), 2);
    fire(&scheduler, 100);
}

pub fn a_gpu_falls_off_at_a_graph() {
    let scheduler = scheduler("cuda", 1).unwrap();
    fire(&scheduler, 100);
    assert_eq!(health(&scheduler), [Health::Retired, Health::Good]);
    drop(scheduler);
    assert_eq!(
        (driver_count(1, "graphs"), driver_count(1, "contexts"), report()["graphs"].as_u64()),
        (0, 0, Some(0))
    );
}
