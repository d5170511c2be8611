//! Schedulers, small kernels, and the report of the virtual driver.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use gpusched::backend::Lane;
use gpusched::backend::cuda::{DeviceBuffer, Params, Ptx, Stream};
use gpusched::device::{DeviceInfo, Health};
use gpusched::sched::{Exec, Scheduler, Task, TaskId, WaitResult, discover_all};
use gpusched::{Error, Result};
use serde_json::Value;

pub const LONG: Option<Duration> = Some(Duration::from_secs(300));

pub const SMALL: Ptx =
    Ptx { name: "small", text: include_str!("../../ctests/doubles/fakecuda/fixtures/small.ptx") };

pub fn scheduler(devices: &str, slots: u32) -> Result<Scheduler> {
    scheduler_with_grace(devices, slots, None)
}

pub fn scheduler_with_grace(devices: &str, slots: u32, grace: Option<Duration>) -> Result<Scheduler> {
    let mut builder = Scheduler::builder();
    builder.policy.grace = grace.unwrap_or(builder.policy.grace);
    builder.devices = Some(devices.into());
    builder.slots = Some(slots);
    // The default waits an hour for other processes.
    builder.policy.rounds_beside_others = builder.policy.backoff.len();
    builder.build()
}

/// Returns a scheduler that waits only milliseconds for what another process has.
pub fn impatient(devices: &str) -> Result<Scheduler> {
    let mut builder = Scheduler::builder();
    builder.devices = Some(devices.into());
    builder.policy.backoff = [Duration::from_millis(5); 3];
    builder.build()
}

pub fn found() -> (Vec<DeviceInfo>, String) {
    let (devices, notes) = discover_all().unwrap();
    let gpus = devices.into_iter().filter(|device| device.cpu_threads.is_none());
    (gpus.collect(), notes.join("\n"))
}

pub fn stream<'a>(exec: &'a Exec<'_>) -> &'a Stream {
    match exec.lane {
        Lane::Cuda(stream) => stream,
        Lane::Cpu(_) => panic!("the lane is not a GPU's"),
    }
}

pub fn task(code: impl Fn(&Stream) -> Result<()> + Send + Sync + 'static) -> Task {
    Task::new(move |exec: &Exec<'_>| code(stream(exec)))
}

pub fn wait(scheduler: &Scheduler, id: TaskId) -> Result<WaitResult> {
    let waited = scheduler.wait(id, LONG);
    assert_ne!(waited, Ok(WaitResult::Pending), "the task hangs");
    waited
}

pub fn run(scheduler: &Scheduler, task: Task) -> Result<()> {
    let id = scheduler.submit(task)?;
    wait(scheduler, id).map(|_| ())
}

pub fn health(scheduler: &Scheduler) -> Vec<Health> {
    scheduler.stats().unwrap().devices.into_iter().map(|device| device.device.health).collect()
}

pub fn run_all(scheduler: &Scheduler, tasks: impl IntoIterator<Item = Task>) {
    let ids: Vec<_> = tasks.into_iter().map(|task| scheduler.submit(task).unwrap()).collect();
    ids.into_iter().for_each(|id| assert_eq!(wait(scheduler, id), Ok(WaitResult::Done)));
}

pub fn run_together(
    scheduler: &Scheduler,
    count: usize,
    code: impl Fn(&Stream) -> Result<()> + Clone + Send + Sync + 'static,
) {
    let door = Arc::new(Barrier::new(count));
    let begin = move |stream: &Stream| {
        door.wait();
        code(stream)
    };
    run_all(scheduler, (0..count).map(|_| task(begin.clone())));
}

pub fn fill(stream: &Stream, block: &DeviceBuffer<f32>, value: f32) -> Result<()> {
    let kernel = stream.function(SMALL, "fill")?;
    let params = Params::new().with(block.address()).with(value).with(block.len() as i32);
    stream.launch(&kernel, [block.len().div_ceil(64) as u32, 1, 1], [64, 1, 1], params)
}

pub fn filled(stream: &Stream, value: f32) -> Result<()> {
    let block = stream.zeroed(1000, "a test's values")?;
    fill(stream, &block, value)?;
    let values = stream.download(&block, 10..1000)?.wait()?;
    match values.len() == 990 && values.iter().all(|&one| one == value) {
        true => Ok(()),
        false => Err(Error::Internal(format!("{:?} instead of {value}", &values[..8]))),
    }
}

/// Calls a function of libcuda by name and type; returns its status.
macro_rules! cu {
    ($name:ident($($arg:expr => $ty:ty),* $(,)?)) => {{
        // SAFETY: the name has this type in CUDA's driver API, and the arguments suit it.
        #[allow(unused_unsafe)]
        unsafe {
            let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW);
            let symbol = libc::dlsym(library, concat!(stringify!($name), "\0").as_ptr().cast());
            assert!(!symbol.is_null(), "no {}", stringify!($name));
            let f: unsafe extern "C" fn($($ty),*) -> i32 = std::mem::transmute(symbol);
            f($($arg),*)
        }
    }};
}
pub(crate) use cu;

pub fn report() -> Value {
    let mut text = vec![0_u8; 1 << 16];
    let length = cu!(fakecuda_report(text.as_mut_ptr() => *mut u8, text.len() => usize));
    serde_json::from_slice(&text[..length as usize]).expect("JSON")
}

/// Returns true if the process has loaded the virtual driver.
pub fn driver_is_loaded() -> bool {
    std::fs::read_to_string("/proc/self/maps").unwrap().contains("libfakecuda")
}

/// Returns a number of the virtual driver's report on a GPU, by its place in `FAKECUDA`.
pub fn driver_count(gpu: usize, what: &str) -> u64 {
    report()["gpus"][gpu][what].as_u64().unwrap_or_else(|| panic!("no {what} in the report"))
}

static KEEPS_OBJECTS: AtomicBool = AtomicBool::new(false);

/// Excludes the calling case from the check of [`assert_nothing_is_left`].
pub fn keeps_objects() {
    KEEPS_OBJECTS.store(true, Ordering::Relaxed);
}

/// Checks that no object is left on any GPU. Every case ends with this.
pub fn assert_nothing_is_left() {
    if KEEPS_OBJECTS.load(Ordering::Relaxed) || !driver_is_loaded() {
        return;
    }
    let report = report();
    assert_eq!((&report["pinned"], &report["graphs"]), (&0.into(), &0.into()), "{report}");
    let kinds =
        ["contexts", "retained", "allocations", "streams", "events", "modules", "graphs", "used_bytes"];
    for gpu in report["gpus"].as_array().unwrap() {
        kinds.iter().for_each(|what| assert_eq!(gpu[what], 0, "{what} in {report}"));
    }
}
