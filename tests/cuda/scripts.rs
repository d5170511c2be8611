//! Random machines on which random calls of the driver fail in random ways. Each task ends once, its values are right
//! if it is done, and the library leaves no object on a GPU.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use gpusched::backend::cuda::Stream;
use gpusched::sched::{Exec, Task, WaitResult};
use gpusched::{Error, Result};
use testkit::process::output;

use crate::fixtures::*;
use testkit::virtual_gpus::attach;
use testkit::{Folder, Random};

const SCRIPTS: u64 = 100;
/// Scripts that run at a time: they mostly wait for back-offs.
const AT_ONCE: usize = 24;
const TASKS: usize = 12;
/// Tasks are retried for minutes while memory or resources are short.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(300));
/// Codes that leave the context intact, codes that poison it, and unknown codes.
const CODES: [u32; 15] = [2, 701, 700, 716, 719, 702, 214, 1, 999, 46, 917, 1234, 304, 3, 201];
/// The faults among them that end a context, and the loss of a GPU.
const LOSES_CONTEXT: [&str; 8] = ["700", "716", "719", "702", "214", "201", "999", "lost"];
const OPERATIONS: [&str; 11] =
    ["ctx", "alloc", "free", "host", "copy", "module", "function", "stream", "event", "launch", "sync"];

fn pick<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[random.below(of.len())]
}

fn script(seed: u64) -> (String, String) {
    let mut random = Random::new(seed);
    let gpus = 1 + random.below(4);
    let machine: Vec<String> = (0..gpus)
        .map(|_| format!("dev=mem:{}M,ctx:8M,speed:{}", 64 << random.below(4), 1 + random.below(3)))
        .collect();
    let faults: Vec<String> = (0..random.below(6))
        .map(|_| {
            let (gpu, operation) = (random.below(gpus), pick(&mut random, &OPERATIONS));
            let when = 1 + random.below(12);
            let when = if random.below(6) == 0 { format!("{when}+") } else { when.to_string() };
            let what = match random.below(8) {
                0 => "lost".into(),
                1 => "take=30e6".into(),
                _ => pick(&mut random, &CODES).to_string(),
            };
            format!("{gpu}:{operation}:{when}:{what}")
        })
        .collect();
    (machine.join(";"), faults.join(";"))
}

/// Runs each script in a process of its own. A failure names the script.
pub fn no_task_is_lost_in_random_failures() {
    let first = std::env::var("GPUSCHED_TEST_SCRIPTS").map_or(0, |text| {
        text.parse().expect("GPUSCHED_TEST_SCRIPTS: the number of the first of 100 scripts")
    });
    let next = AtomicUsize::new(0);
    let (bad, done) = (std::sync::Mutex::new(Vec::new()), AtomicUsize::new(0));
    let leases = Folder::new();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let seed = first + next.fetch_add(1, Ordering::Relaxed) as u64;
                    if seed >= first + SCRIPTS {
                        return;
                    }
                    let (machine, faults) = script(seed);
                    // Leases of its own: the GPUs of all scripts have the same names.
                    let mut command = Command::new(std::env::current_exe().unwrap());
                    attach(&mut command, &machine, &leases.at(seed.to_string()));
                    command.envs([("CASE", "scripts::one_script"), ("FAKECUDA_FAULTS", &faults)]);
                    command.env("GPUSCHED_TEST_SEED", seed.to_string());
                    let output = output(&mut command).unwrap();
                    let count = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap_or(0);
                    done.fetch_add(count, Ordering::Relaxed);
                    if !output.status.success() {
                        let (stderr, status) = (String::from_utf8_lossy(&output.stderr), output.status);
                        let text = format!("script {seed}: {machine}\n{faults}\n{status}\n{stderr}");
                        bad.lock().unwrap().push(text);
                    }
                }
            });
        }
    });
    let bad = bad.into_inner().unwrap();
    assert!(bad.is_empty(), "{} scripts failed\n{}", bad.len(), bad.join("\n\n"));
    let (done, all) = (done.into_inner(), SCRIPTS as usize * TASKS);
    assert!(2 * done > all, "{done} of {all} tasks are done");
}

struct Once(Arc<AtomicU32>);

impl Drop for Once {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn work(stream: &Stream, value: f32, size: usize) -> Result<()> {
    let _room = stream.zeroed::<f32>(size, "a test's field")?;
    filled(stream, value)
}

struct Expected {
    has_good_gpu: bool,
    has_faults: bool,
    /// Contexts that one task could lose.
    lost_contexts: usize,
    most_failures: usize,
}

impl Expected {
    fn of_this_script() -> Expected {
        let read = |name| std::env::var(name).unwrap_or_default();
        let (machine, faults) = (read("FAKECUDA"), read("FAKECUDA_FAULTS"));
        let faults: Vec<&str> = faults.split(';').filter(|fault| !fault.is_empty()).collect();
        let is_good = |gpu: usize| !faults.iter().any(|fault| fault.starts_with(&format!("{gpu}:")));
        let has_good_gpu = (0..machine.matches("dev=").count()).any(is_good);
        // A call that fails once ends one task at most.
        let repeats = faults.iter().any(|fault| fault.contains('+'));
        let most_failures = if has_good_gpu && !repeats { faults.len() } else { TASKS };
        let loses = |fault: &&&str| fault.rsplit(':').next().is_some_and(|how| LOSES_CONTEXT.contains(&how));
        let lost_contexts = faults.iter().filter(loses).map(|fault| 1 + fault.matches('+').count()).sum();
        Expected { has_good_gpu, has_faults: !faults.is_empty(), lost_contexts, most_failures }
    }

    /// Tasks go from a GPU that fails to a good one. A driver's refusal ends a task wherever it is, and so do two
    /// contexts that it has poisoned.
    fn allows(&self, error: &Error) -> bool {
        match error {
            Error::Driver { .. } => self.has_faults,
            Error::Device { .. } => !self.has_good_gpu || self.lost_contexts > 1,
            Error::NoDevice { .. } | Error::NoMemory { .. } | Error::Busy { .. } => !self.has_good_gpu,
            _ => false,
        }
    }
}

pub fn one_script() {
    let seed: u64 = match std::env::var("GPUSCHED_TEST_SEED") {
        Ok(seed) => seed.parse().unwrap(),
        // Without a seed the script has no faults.
        Err(_) => 0,
    };
    let mut random = Random::new(seed ^ 0x5eed);
    let scheduler = scheduler("cuda", 1 + random.below(2) as u32).unwrap();
    let dropped: Vec<_> = (0..TASKS).map(|_| Arc::new(AtomicU32::new(0))).collect();
    let good: Vec<_> = (0..TASKS).map(|_| Arc::new(AtomicU32::new(0))).collect();
    let expected = Expected::of_this_script();
    let (mut ids, mut failed) = (Vec::new(), 0);
    for number in 0..TASKS {
        let (once, good) = (Once(dropped[number].clone()), good[number].clone());
        let size = 1 << (10 + random.below(12));
        let mut task = Task::new(move |exec: &Exec<'_>| {
            let _ = &once;
            work(stream(exec), number as f32, size)?;
            good.fetch_add(1, Ordering::SeqCst);
            Ok(())
        });
        if random.below(3) > 0 {
            task.work = Some(1.0 + random.below(5) as f64);
            task.device_bytes = 4 * size as u64;
            task.idempotent = random.below(2) == 0;
        }
        // Every GPU may be gone already.
        match scheduler.submit(task) {
            Ok(id) => ids.push((number, id)),
            Err(error) => {
                assert!(matches!(error, Error::NoDevice { .. } | Error::NoMemory { .. }), "{error}");
                failed += 1;
            }
        }
    }
    for &(number, id) in &ids {
        let outcome = scheduler.wait(id, PATIENCE);
        assert_eq!(scheduler.wait(id, PATIENCE), outcome, "one outcome");
        let runs = good[number].load(Ordering::SeqCst);
        match outcome {
            Ok(WaitResult::Done) => assert!(runs >= 1, "task {number} is done and did nothing"),
            Ok(other) => panic!("task {number}: {other:?}"),
            // A copy may have ended well after a failure that counted; not the other way round.
            Err(error) => {
                assert!(expected.allows(&error), "task {number}: {error}");
                failed += 1;
            }
        }
    }
    assert!(failed <= expected.most_failures, "{failed} tasks failed; accepted: {}", expected.most_failures);
    println!("{}", TASKS - failed);
    let stats = scheduler.stats().unwrap();
    assert_eq!((stats.counts.queued, stats.counts.running), (0, 0), "{stats:?}");
    assert_eq!(stats.counts.done + stats.counts.failed, stats.counts.submitted, "{stats:?}");
    drop(scheduler);
    for (number, dropped) in dropped.iter().enumerate() {
        assert_eq!(dropped.load(Ordering::SeqCst), 1, "task {number} was dropped so often");
    }
    // Objects that the driver refuses to free, and those of a lost GPU, stay.
    let faults = std::env::var("FAKECUDA_FAULTS").unwrap_or_default();
    if faults.contains(":free:") || faults.contains("lost") {
        keeps_objects();
    }
}
