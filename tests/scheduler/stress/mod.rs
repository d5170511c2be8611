//! Random worlds on real threads: what `tests/it/random_worlds.rs` does in virtual time, with the races.
//!
//! A seed makes devices, some of which fail, and threads that submit tasks of all kinds, wait for them, cancel and
//! release them, while the scheduler is destroyed at some moment, or not. The threads take their turns as the
//! machine likes, so a seed gives the same mix but not the same run.
//!
//! `GPUSCHED_TEST_STRESS=FIRST,COUNT` says which seeds.

mod faults;
mod job;
mod record;
mod world;

use std::io::{Write, stderr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use self::world::World;

/// Some ten milliseconds each.
const RUNS: (u64, u64) = (0, 300);
/// At a time: more threads than processors are what it is about.
const LANES: usize = 3;
/// No run lasts so long unless something hangs.
const LONGEST: Duration = Duration::from_secs(60);

fn runs() -> (u64, u64) {
    let Ok(text) = std::env::var("GPUSCHED_TEST_STRESS") else { return RUNS };
    let numbers =
        text.split_once(',').and_then(|(first, count)| Some((first.parse().ok()?, count.parse().ok()?)));
    numbers.expect("GPUSCHED_TEST_STRESS=FIRST,COUNT")
}

type Now = Mutex<Option<(Instant, Arc<World>)>>;

/// Tells which run does not end and what it looks like, and ends everything.
fn watch(lanes: &'static [Now]) {
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_secs(1));
            for lane in lanes {
                let now = lane.lock().unwrap().clone();
                if let Some((_, world)) = now.filter(|(since, _)| since.elapsed() > LONGEST) {
                    // Not eprintln!, whose text the test's end would have to show.
                    let _ = writeln!(stderr(), "run {} does not end", world.seed);
                    // What hangs may hold a lock that it needs.
                    std::thread::spawn(move || writeln!(stderr(), "{}", world.describe()));
                    std::thread::sleep(Duration::from_secs(5));
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
    std::thread::scope(|scope| {
        for lane in &NOW {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    let world = World::new(seed);
                    *lane.lock().unwrap() = Some((Instant::now(), world.clone()));
                    let ended = std::panic::catch_unwind(|| world.play());
                    *lane.lock().unwrap() = None;
                    let wrong = world.wrong();
                    if ended.is_err() || !wrong.is_empty() {
                        next.store(first + count, Ordering::Relaxed);
                        let again = format!("GPUSCHED_TEST_STRESS={seed},1 plays it again");
                        panic!("run {seed}; {again}:\n{}\n{}", wrong.join("\n"), world.describe());
                    }
                    let told = world.told();
                    ends.lock().unwrap().iter_mut().zip(told).for_each(|(sum, count)| *sum += count);
                }
            });
        }
    });
    // They are neither too kind nor too cruel to show anything.
    let ends = ends.into_inner().unwrap();
    let all = ends.iter().sum::<u64>();
    assert!(count < 100 || ends.iter().all(|&ended| 50 * ended > all), "{ends:?}");
}
