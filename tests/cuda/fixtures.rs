//! What the cases share: schedulers, small kernels, the driver's report.

use std::time::Duration;

use gpusched::backend::Lane;
use gpusched::backend::cuda::{Block, Params, Ptx, Stream};
use gpusched::device::DeviceInfo;
use gpusched::sched::{Exec, Scheduler, Task, TaskId, Wait, look_around};
use gpusched::{Error, Result};
use serde_json::Value;

/// Longer than any case may take on a busy machine.
pub const LONG: Option<Duration> = Some(Duration::from_secs(300));

pub const SMALL: Ptx =
    Ptx { name: "small", text: include_str!("../../ctests/doubles/fakecuda/fixtures/small.ptx") };

pub fn scheduler(devices: &str, slots: u32) -> Result<Scheduler> {
    let mut builder = Scheduler::builder();
    builder.devices = Some(devices.into());
    builder.slots = Some(slots);
    builder.build()
}

/// The cards that are found, and the notes, one a line.
pub fn found() -> (Vec<DeviceInfo>, String) {
    let (devices, notes) = look_around().unwrap();
    let cards = devices.into_iter().filter(|device| device.cpu_threads.is_none());
    (cards.collect(), notes.join("\n"))
}

pub fn stream<'a>(exec: &'a Exec<'_>) -> &'a Stream {
    match exec.lane {
        Lane::Cuda(stream) => stream,
        Lane::Cpu(_) => panic!("a card was asked for"),
    }
}

/// A task for a stream.
pub fn task(code: impl Fn(&Stream) -> Result<()> + Send + Sync + 'static) -> Task {
    Task::new(move |exec: &Exec<'_>| code(stream(exec)))
}

pub fn wait(scheduler: &Scheduler, id: TaskId) -> Result<Wait> {
    let waited = scheduler.wait(id, LONG);
    assert_ne!(waited, Ok(Wait::Pending), "the task hangs");
    waited
}

/// Runs a task to its end.
pub fn run(scheduler: &Scheduler, task: Task) -> Result<()> {
    let id = scheduler.submit(task)?;
    wait(scheduler, id).map(|_| ())
}

/// Launches a kernel that fills a block.
pub fn fill(stream: &Stream, block: &Block<f32>, value: f32) -> Result<()> {
    let kernel = stream.function(SMALL, "fill")?;
    let params = Params::new().with(block.address()).with(value).with(block.len() as i32);
    stream.launch(&kernel, [block.len().div_ceil(64) as u32, 1, 1], [64, 1, 1], params)
}

/// The whole way: memory, kernel, values on the host.
pub fn filled(stream: &Stream, value: f32) -> Result<()> {
    let block = stream.zeroed(1000, "a test's values")?;
    fill(stream, &block, value)?;
    let values = stream.download(&block, 10..1000)?.wait()?;
    match values.len() == 990 && values.iter().all(|&one| one == value) {
        true => Ok(()),
        false => Err(Error::Internal(format!("{:?} instead of {value}", &values[..8]))),
    }
}

/// What the driver says of itself; nothing was loaded: null.
pub fn report() -> Value {
    type Report = unsafe extern "C" fn(*mut u8, usize) -> usize;
    let mut text = vec![0_u8; 1 << 16];
    // SAFETY: the test driver, which is there already; its function has this type, and writes as much as there is
    // room for.
    unsafe {
        let library = libloading::Library::new("libcuda.so.1").expect("the test driver");
        let report = library.get::<Report>(b"fakecuda_report").expect("its report");
        let length = report(text.as_mut_ptr(), text.len());
        text.truncate(length);
        std::mem::forget(library);
    }
    serde_json::from_slice(&text).expect("JSON")
}

/// A number of the report on a card, by its place in `FAKECUDA`.
pub fn told(card: usize, what: &str) -> u64 {
    report()["cards"][card][what].as_u64().unwrap_or_else(|| panic!("no {what} in the report"))
}

/// Nothing of ours is left anywhere.
pub fn assert_nothing_is_left() {
    let report = report();
    assert_eq!((&report["pinned"], &report["graphs"]), (&0.into(), &0.into()), "{report}");
    for card in report["cards"].as_array().unwrap() {
        for what in
            ["contexts", "retained", "allocations", "streams", "events", "modules", "graphs", "used_bytes"]
        {
            assert_eq!(card[what], 0, "{what} in {report}");
        }
    }
}
