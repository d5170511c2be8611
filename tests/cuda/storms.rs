//! Two hundred made-up nights: cards fail at random calls, and no task is lost.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use gpusched::sched::{Exec, Task};

use crate::cards::*;

const NIGHTS: u64 = 200;
const TASKS: usize = 24;

/// Numbers that follow from a seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % end
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u64) as usize]
    }
}

/// A few calls that go wrong.
fn faults(seed: u64) -> String {
    const CALLS: [&str; 10] =
        ["ctx", "alloc", "copy", "module", "function", "stream", "event", "launch", "sync", "host"];
    const HOW: [&str; 14] = [
        "2",
        "701",
        "700",
        "719",
        "214",
        "716",
        "999",
        "46",
        "917",
        "1234",
        "1",
        "201",
        "lost",
        "take=100e6",
    ];
    let mut dice = Dice(seed);
    let rules = (0..1 + dice.below(6)).map(|_| {
        let (card, call, when) = (dice.below(3), dice.pick(&CALLS), 1 + dice.below(12));
        format!("{card}:{call}:{when}:{}", dice.pick(&HOW))
    });
    rules.collect::<Vec<_>>().join(";")
}

pub fn two_hundred_nights() {
    let next = AtomicU32::new(0);
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = u64::from(next.fetch_add(1, Ordering::Relaxed));
                    if seed >= NIGHTS {
                        return;
                    }
                    let faults = faults(seed);
                    let mut command = Command::new(std::env::current_exe().unwrap());
                    command.env("CASE", "one_night").env("SEED", seed.to_string());
                    let output = command.env("FAKECUDA_FAULTS", &faults).output().unwrap();
                    if !output.status.success() {
                        let text = String::from_utf8_lossy(&output.stderr).into_owned();
                        failed.lock().unwrap().push(format!("seed {seed}, {faults}: {text}"));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} nights went wrong:\n{}", failed.len(), failed.join("\n"));
}

pub fn one_night() {
    let seed = std::env::var("SEED").map_or(0, |seed| seed.parse().unwrap());
    let mut dice = Dice(seed ^ 0xabcd);
    let scheduler = scheduler("cuda", 1 + dice.below(3) as u32).unwrap();
    let ended_well: Arc<Vec<AtomicU32>> = Arc::new((0..TASKS).map(|_| AtomicU32::new(0)).collect());
    let mut ids = Vec::new();
    for task in 0..TASKS {
        let well = ended_well.clone();
        let code = Task::new(move |exec: &Exec<'_>| {
            filled(stream(exec), task as f32)?;
            well[task].fetch_add(1, Ordering::SeqCst);
            Ok(())
        });
        // Some are light, some are planned, some may be tried again.
        ids.push(scheduler.submit(match dice.below(3) {
            0 => code,
            1 => Task { work: Some(1.0 + dice.below(9) as f64), retries: 2, ..code },
            _ => Task { device_bytes: 1 << 20, ..code },
        }));
    }
    for (task, id) in ids.into_iter().enumerate() {
        // All cards may be gone by now.
        let Ok(id) = id else { continue };
        let runs =
            |wanted: bool| assert_eq!(ended_well[task].load(Ordering::SeqCst) > 0, wanted, "task {task}");
        match wait(&scheduler, id) {
            Ok(_) => runs(true),
            // Its code may have ended well in a context that then turned out to be poisoned.
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    let stats = scheduler.stats().unwrap();
    assert_eq!((stats.queued, stats.running), (0, 0));
    assert_eq!(stats.done + stats.failed, stats.submitted, "{stats:?}");
    drop(scheduler);
    let report = report();
    for card in report["cards"].as_array().unwrap().iter().filter(|card| card["lost"] == false) {
        for what in ["contexts", "retained", "allocations", "streams", "modules", "used_bytes"] {
            assert_eq!(card[what], 0, "{what} in {report}");
        }
    }
}
