//! Random worlds on real threads: what `tests/it/random_worlds.rs` does in virtual time, with the races.
//!
//! A seed makes devices, some of which fail, and threads that submit tasks of all kinds, wait for them, cancel and
//! release them, while the scheduler is destroyed at some moment, or not. A seed gives the same mix, but not the same
//! run: the threads take their turns as the machine likes.
//!
//! `GPUSCHED_TEST_STRESS=FIRST,COUNT` names the seeds.

mod job;
mod record;
mod world;

use std::io::{Write, stderr};
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use self::world::World;

/// Some ten milliseconds each.
const RUNS: (u64, u64) = (0, 300);
/// At a time: more threads than processors.
const LANES: usize = 3;
/// A run that lasts longer hangs.
const LONGEST: Duration = Duration::from_secs(60);

fn runs() -> (u64, u64) {
    let Ok(text) = std::env::var("GPUSCHED_TEST_STRESS") else { return RUNS };
    let numbers = text.split_once(',').map(|(first, count)| (first.parse(), count.parse()));
    let Some((Ok(first), Ok(count))) = numbers else { panic!("GPUSCHED_TEST_STRESS=FIRST,COUNT") };
    (first, count)
}

type Now = Mutex<Option<(Instant, Arc<World>)>>;

/// Describes a run that hangs and aborts.
fn watch(lanes: &'static [Now]) {
    thread::spawn(move || {
        loop {
            thread::sleep(Duration::from_secs(1));
            for lane in lanes {
                let now = lane.lock().unwrap().clone();
                if let Some((_, world)) = now.filter(|(since, _)| since.elapsed() > LONGEST) {
                    // Not eprintln!, which the test harness keeps until the end.
                    let _ = writeln!(stderr(), "run {} hangs", world.seed);
                    // A thread that hangs may hold a lock that the description needs.
                    thread::spawn(move || writeln!(stderr(), "{}", world.describe()));
                    thread::sleep(Duration::from_secs(5));
                    std::process::abort();
                }
            }
        }
    });
}

#[test]
fn no_rule_is_broken_in_any_run() {
    static NOW: [Now; LANES] = [const { Mutex::new(None) }; LANES];
    watch(&NOW);
    let (first, count) = runs();
    let next = AtomicU64::new(first);
    let ends = Mutex::new([0_u64; 3]);
    let play = |lane: &Now| {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                return;
            }
            let world = World::new(seed);
            *lane.lock().unwrap() = Some((Instant::now(), world.clone()));
            let ended = catch_unwind(|| world.play());
            *lane.lock().unwrap() = None;
            let wrong = world.wrong();
            if ended.is_err() || !wrong.is_empty() {
                next.store(first + count, Ordering::Relaxed);
                let wrong = wrong.join("\n");
                panic!("GPUSCHED_TEST_STRESS={seed},1 plays it again:\n{wrong}\n{}", world.describe());
            }
            ends.lock().unwrap().iter_mut().zip(world.known()).for_each(|(sum, count)| *sum += count);
        }
    };
    thread::scope(|scope| {
        let play = &play;
        NOW.iter().for_each(|lane| _ = scope.spawn(move || play(lane)));
    });
    // The worlds are neither too kind nor too cruel to show anything.
    let ends = ends.into_inner().unwrap();
    let all = ends.iter().sum::<u64>();
    assert!(count < 100 || ends.iter().all(|&ended| 50 * ended > all), "{ends:?}");
}
