//! Provoked failures, each in its own process. After each a recorded case must have the bits of the
//! CPU: in the same process, or, if the GPU is retired, in the next one.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use gpusched::backend::Lane;
use gpusched::backend::cuda::{Params, Ptx, Stream};
use gpusched::device::Health;
use gpusched::error::DeviceFault;
use gpusched::sched::{Exec, Scheduler, Task, WaitResult};
use gpusched::{Error, Result};
use serde_json::{Value, json};

use crate::golden::Run;
use crate::{scheduler, steps, told};
use testkit::process::in_child;

const FAULTS: Ptx = Ptx { name: "faults", text: include_str!("faults.ptx") };
/// The recorded case after a failure, and its steps.
const CASE: &str = "iso1_corner";
const STEPS: usize = 40;
/// The GPU of all failures.
const GPU: &str = "cuda:0";
const LONG: Option<Duration> = Some(Duration::from_secs(60));

pub fn run(name: &str) -> bool {
    let test: fn() -> Value = match name {
        "none" => none,
        "no-memory" => no_memory,
        "fork" => fork,
        "two-processes" => two_processes,
        "two-schedulers" => two_schedulers,
        "out-of-bounds" => || poisoned(|stream| store(stream, |_| 16), &[700]),
        "misaligned" => || poisoned(|stream| store(stream, |address| address + 2), &[716]),
        "trap" => || poisoned(|stream| launch(stream, "stop", 0), &[719, 715]),
        "endless" => endless,
        other => panic!("{other} is no failure"),
    };
    told(json!({ "case": format!("failure: {name}"), "device": GPU }), test)
}

fn one() -> Scheduler {
    scheduler(GPU, 1).expect("a scheduler with the GPU")
}

fn stream<'a>(exec: &'a Exec<'_>) -> &'a Stream {
    match exec.lane {
        Lane::Cuda(stream) => stream,
        Lane::Cpu(_) => panic!("a GPU was asked for"),
    }
}

fn task(code: impl Fn(&Stream) -> Result<()> + Send + Sync + 'static) -> Task {
    Task::new(move |exec: &Exec<'_>| code(stream(exec)))
}

/// Runs a task to its end.
fn submit(scheduler: &Scheduler, task: Task) -> Result<()> {
    let id = scheduler.submit(task)?;
    let waited = scheduler.wait(id, LONG)?;
    assert_eq!(waited, WaitResult::Done, "the task hangs");
    Ok(())
}

fn launch(stream: &Stream, kernel: &'static str, address: u64) -> Result<()> {
    let kernel = stream.function(FAULTS, kernel)?;
    stream.launch(&kernel, [1; 3], [1; 3], Params::new().with(address))?;
    stream.finish()
}

/// Writes to an invalid address that is derived from a valid one.
fn store(stream: &Stream, address: impl Fn(u64) -> u64) -> Result<()> {
    let block = stream.zeroed::<f32>(64, "a test's values")?;
    launch(stream, "store", address(block.address()))
}

/// Runs the recorded case; its bits must be those of the CPU.
fn sound(scheduler: &Scheduler) -> Value {
    Run::new(CASE, Some(steps().unwrap_or(STEPS))).on(scheduler, false)
}

fn none() -> Value {
    let scheduler = one();
    submit(&scheduler, task(|stream| store(stream, |address| address))).unwrap();
    sound(&scheduler)
}

/// A kernel fails, and with it the context. The next task of the process either gets another
/// context, or the GPU is retired, and the next process gets a context.
fn poisoned(code: fn(&Stream) -> Result<()>, statuses: &[u32]) -> Value {
    let scheduler = one();
    let error = submit(&scheduler, task(code)).unwrap_err();
    let known = statuses.iter().any(|status| error.to_string().contains(&format!("status {status} ")));
    assert!(known, "one of {statuses:?} was expected: {error}");
    let begin = Instant::now();
    let mut found = next(&scheduler, &error);
    found["status"] = error.to_string().into();
    found["recovered_in_s"] = begin.elapsed().as_secs_f64().into();
    found
}

/// Runs the recorded case after a kernel's failure, in this process or in the next.
fn next(scheduler: &Scheduler, error: &Error) -> Value {
    let health = scheduler.stats().unwrap().devices[0].device.health;
    if matches!(error, Error::Device { fault: DeviceFault::Poisoned, .. }) {
        assert_eq!(health, Health::Good, "one task failed twice: it is to blame, and not the GPU");
        return sound(scheduler);
    }
    assert!(matches!(error, Error::NoDevice { .. }) && health == Health::Retired, "{error}");
    let process = start("none");
    assert!(process.status.success(), "{}", String::from_utf8_lossy(&process.stdout));
    json!({ "needs_a_new_process": true })
}

/// Runs a failure in a process of its own.
fn start(name: &str) -> Output {
    let program = std::env::current_exe().expect("the path of this program");
    Command::new(program).args(["--fault", name]).output().expect("a process")
}

fn no_memory() -> Value {
    let scheduler = one();
    let total = scheduler.devices()[0].total_bytes as usize;
    let error = submit(&scheduler, task(move |stream| stream.alloc::<u8>(total, "a field").map(|_| ())));
    let error = error.unwrap_err();
    assert!(matches!(error, Error::NoMemory { .. }), "{error}");
    // More memory than the GPU has, while the process uses all memory that it could cache.
    let fill = task(move |stream| {
        let mut held = Vec::new();
        while let Ok(block) = stream.alloc::<u8>(total / 16, "a field") {
            held.push(block);
            assert!(held.len() <= 16);
        }
        assert!(!held.is_empty());
        Ok(())
    });
    submit(&scheduler, fill).unwrap();
    let mut found = sound(&scheduler);
    found["status"] = error.to_string().into();
    found
}

/// The child of a process that uses a GPU finds no GPU and ends; its parent continues.
fn fork() -> Value {
    let scheduler = one();
    sound(&scheduler);
    let child = in_child(|| {
        let refused = matches!(scheduler.submit(task(|_| Ok(()))), Err(Error::Forked));
        refused && scheduler_in_child_fails()
    });
    assert!(child, "the child used the driver of its parent, or hung");
    sound(&scheduler)
}

fn scheduler_in_child_fails() -> bool {
    matches!(scheduler(GPU, 1).err(), Some(Error::NoDevice { .. }))
}

/// Runs two processes; one fails while the other computes.
fn two_processes() -> Value {
    let results = std::thread::scope(|scope| {
        let runs = ["none", "out-of-bounds", "none"].map(|name| scope.spawn(move || start(name)));
        runs.map(|run| run.join().expect("a thread"))
    });
    for result in results {
        assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stdout));
    }
    json!({ "processes": 3 })
}

/// The context of two schedulers fails in a task of one of them.
fn two_schedulers() -> Value {
    let (one, other) = (one(), one());
    submit(&one, task(|stream| store(stream, |address| address))).unwrap();
    submit(&other, task(|stream| store(stream, |address| address))).unwrap();
    let error = submit(&one, task(|stream| store(stream, |_| 16))).unwrap_err();
    if let Error::NoDevice { .. } = error {
        assert!(matches!(submit(&other, task(|_| Ok(()))), Err(Error::NoDevice { .. })));
    } else {
        sound(&other);
    }
    next(&one, &error)
}

/// A kernel that never ends costs the GPU only: the process and its other threads continue.
fn endless() -> Value {
    let mut builder = Scheduler::builder();
    (builder.devices, builder.slots) = (Some(GPU.into()), Some(1));
    builder.policy.grace = Duration::from_secs(2);
    let scheduler = builder.build().expect("a scheduler with the GPU");
    let code = task(|stream| {
        let block = stream.zeroed::<f32>(64, "a test's values")?;
        launch(stream, "endless", block.address())
    });
    let begin = Instant::now();
    let id = scheduler.submit(Task { deadline: Some(Duration::from_secs(2)), ..code }).unwrap();
    let error = scheduler.wait(id, LONG).expect_err("the kernel has ended");
    while scheduler.stats().unwrap().devices[0].device.health == Health::Good {
        assert!(begin.elapsed() < Duration::from_secs(30), "the GPU is not retired");
        std::thread::sleep(Duration::from_millis(50));
    }
    let seconds = begin.elapsed().as_secs_f64();
    drop(scheduler);
    json!({ "status": error.to_string(), "retired_after_s": seconds })
}
