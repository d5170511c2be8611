//! Runs random worlds, and names the seed of a world that breaks a rule or does not end.

use std::io::{Write, stderr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const LONGEST: Duration = Duration::from_secs(120);

pub trait World: Send + Sync + 'static {
    /// Runs the world. Returns the numbers of tasks that succeeded, failed and were cancelled.
    ///
    /// # Panics
    /// If a rule is broken.
    fn play(self: &Arc<Self>) -> [u64; 3];

    fn describe(&self) -> String;
}

/// Runs the worlds of the seeds below `count`, or of those that the variable names as
/// `FIRST,COUNT`; `lanes` at a time.
///
/// # Panics
/// If a world does, or if too few or too many tasks fail for a useful test.
pub fn play<W: World>(variable: &str, count: u64, lanes: usize, new: fn(u64) -> W) {
    let (first, count) = std::env::var(variable).map_or((0, count), |text| {
        let numbers = text.split_once(',').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        numbers.unwrap_or_else(|| panic!("{variable}={text}; accepted: FIRST,COUNT"))
    });
    let (next, ends) = (AtomicU64::new(first), Mutex::new([0_u64; 3]));
    let lane = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                return;
            }
            let (world, replay) = (Arc::new(new(seed)), format!("{variable}={seed},1"));
            let over = watch(&replay, &world);
            let ended = catch_unwind(AssertUnwindSafe(|| world.play()));
            drop(over);
            let Ok(ended) = ended else {
                next.store(first + count, Ordering::Relaxed);
                panic!("{replay} plays it again:\n{}", world.describe());
            };
            ends.lock().unwrap().iter_mut().zip(ended).for_each(|(sum, count)| *sum += count);
        }
    };
    thread::scope(|scope| (0..lanes).for_each(|_| _ = scope.spawn(lane)));
    let ends = ends.into_inner().unwrap();
    let all = ends.iter().sum::<u64>();
    assert!(count < 100 || ends.iter().all(|&ended| 50 * ended > all), "{ends:?}");
}

/// Aborts with a description of the world unless the returned sender is dropped within the time
/// limit.
fn watch<W: World>(replay: &str, world: &Arc<W>) -> Sender<()> {
    let (over, ended) = channel();
    let (replay, world) = (replay.to_owned(), world.clone());
    thread::spawn(move || {
        if ended.recv_timeout(LONGEST) == Err(RecvTimeoutError::Timeout) {
            // Not eprintln!, which the test harness keeps until the end.
            let _ = writeln!(stderr(), "{replay} does not end");
            // A thread that hangs may hold a lock that the description needs.
            thread::spawn(move || writeln!(stderr(), "{}", world.describe()));
            thread::sleep(Duration::from_secs(5));
            std::process::abort();
        }
    });
    over
}
