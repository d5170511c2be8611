//! Devices with scripted memory and failures, and tasks for them.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use gpusched::backend::cpu::Team;
use gpusched::backend::{Backend, DeviceSearch, Lane, Queue};
use gpusched::device::{BackendKind, DeviceInfo};
use gpusched::error::DeviceFault;
use gpusched::sched::{Builder, Exec, Policy, Scheduler, Task, TaskId, WaitResult};
use gpusched::{Error, Result};

/// Longer than any test may take on a busy machine: a wait that reaches it has hung.
pub const LONG: Option<Duration> = Some(Duration::from_secs(20));

pub struct Fate {
    pub open: AtomicI64,
    /// Another process holds the device.
    pub busy: AtomicBool,
    /// Bytes of the context, which differ for each opened queue. 0: always 0.
    pub context: AtomicU64,
    pub enter: AtomicI64,
    /// Number of successful calls before one fails with `fault`; later ones succeed.
    pub finish: AtomicI64,
    pub fault: DeviceFault,
}

const NEVER: i64 = i64::MAX / 2;

impl Default for Fate {
    fn default() -> Self {
        let [open, enter, finish] = [(); 3].map(|()| AtomicI64::new(NEVER));
        let (busy, context) = Default::default();
        Fate { open, busy, context, enter, finish, fault: DeviceFault::Lost }
    }
}

pub struct Scripted {
    pub devices: u32,
    /// Free memory of each device as the backend reports it, of 1000 bytes.
    pub free: Vec<AtomicU64>,
    pub fates: Vec<Arc<Fate>>,
    pub opened: AtomicU32,
    /// Tasks that have entered a queue and not left it.
    pub inside: Arc<AtomicI64>,
    /// Gates at which the backend waits in `open`, `free_bytes` and `renew`.
    pub slow_open: Option<&'static Gate>,
    pub slow_free: Option<&'static Gate>,
    pub slow_renew: Option<&'static Gate>,
}

impl Scripted {
    pub fn new(devices: u32) -> Self {
        Scripted {
            devices,
            free: (0..devices).map(|_| AtomicU64::new(1000)).collect(),
            fates: (0..devices).map(|_| Arc::default()).collect(),
            opened: AtomicU32::new(0),
            inside: Arc::default(),
            slow_open: None,
            slow_free: None,
            slow_renew: None,
        }
    }

    pub fn broken(devices: u32, which: u64) -> Self {
        let scripted = Scripted::new(devices);
        let broken = scripted.fates.iter().enumerate().filter(|(device, _)| which >> device & 1 == 1);
        broken.for_each(|(_, fate)| fate.open.store(0, Ordering::Relaxed));
        scripted
    }

    pub fn scheduler(self, slots: u32) -> Arc<Scheduler> {
        scheduler(Arc::new(self), slots)
    }
}

pub fn builder(backend: Arc<Scripted>, slots: u32) -> Builder {
    let mut builder = Scheduler::builder();
    builder.devices = Some("all".into());
    builder.slots = Some(slots);
    builder.backends = Some(vec![backend]);
    // A short back-off after a device refuses a task.
    builder.policy.backoff = [Duration::from_millis(10); 3];
    builder.policy.shortage_memory = Duration::from_millis(10);
    builder
}

pub fn tuned(devices: u32, tune: impl Fn(&mut Policy)) -> Arc<Scheduler> {
    let mut builder = builder(Arc::new(Scripted::new(devices)), 1);
    tune(&mut builder.policy);
    Arc::new(builder.build().unwrap())
}

pub fn scheduler(backend: Arc<Scripted>, slots: u32) -> Arc<Scheduler> {
    Arc::new(builder(backend, slots).build().unwrap())
}

fn wait_at(gate: &Option<&'static Gate>) {
    gate.iter().for_each(|gate| gate.pass());
}

pub fn device_fault(device: impl Into<String>, fault: DeviceFault) -> Error {
    Error::Device { device: device.into(), what: "scripted to fail".into(), fault }
}

pub fn no_memory(exec: &Exec<'_>, needed: u64) -> Error {
    Error::NoMemory { what: "the task".into(), needed, place: exec.device.label(), there: 0 }
}

impl Backend for Scripted {
    fn kind(&self) -> BackendKind {
        BackendKind::Cuda
    }

    fn search(&self) -> Result<DeviceSearch> {
        let device = |ordinal| DeviceInfo {
            // The scheduler leaves a sixteenth for the context.
            total_bytes: 1000 * 16 / 15,
            free_bytes: self.free[ordinal as usize].load(Ordering::Relaxed),
            ..DeviceInfo::new(&format!("GPU-{ordinal}"), BackendKind::Cuda, ordinal, "scripted")
        };
        Ok(DeviceSearch { devices: (0..self.devices).map(device).collect(), ..DeviceSearch::default() })
    }

    fn renew(&self, _: u32) {
        wait_at(&self.slow_renew);
    }

    fn free_bytes(&self, ordinal: u32) -> Result<u64> {
        wait_at(&self.slow_free);
        Ok(self.free[ordinal as usize].load(Ordering::Relaxed))
    }

    fn context_bytes(&self, ordinal: u32) -> u64 {
        let next = |bytes| (bytes > 0).then_some(bytes * 7 % 601);
        let context = &self.fates[ordinal as usize].context;
        context.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or(0)
    }

    fn open(&self, ordinal: u32, slot: u32, slots: u32) -> Result<Box<dyn Queue>> {
        assert!(slot < slots);
        self.opened.fetch_add(1, Ordering::Relaxed);
        wait_at(&self.slow_open);
        let fate = self.fates[ordinal as usize].clone();
        if fate.busy.load(Ordering::Relaxed) {
            return Err(Error::Busy { device: format!("cuda:{ordinal}"), what: "scripted to be".into() });
        }
        if fate.open.fetch_sub(1, Ordering::Relaxed) <= 0 {
            return Err(device_fault(format!("cuda:{ordinal}"), DeviceFault::Lost));
        }
        Ok(Box::new(Slot { team: Team::new(1)?, ordinal, fate, inside: self.inside.clone() }))
    }
}

struct Slot {
    team: Team,
    ordinal: u32,
    fate: Arc<Fate>,
    inside: Arc<AtomicI64>,
}

impl Queue for Slot {
    fn enter(&self) -> Result<()> {
        if self.fate.enter.fetch_sub(1, Ordering::Relaxed) <= 0 {
            return Err(device_fault(format!("cuda:{}", self.ordinal), DeviceFault::Lost));
        }
        self.inside.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn finish(&self) -> Result<()> {
        if self.fate.finish.fetch_sub(1, Ordering::Relaxed) == 0 {
            return Err(device_fault(format!("cuda:{}", self.ordinal), self.fate.fault));
        }
        self.inside.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    fn lane(&self) -> Lane<'_> {
        Lane::Cpu(&self.team)
    }
}

/// A pause that lets both sides of a race win on any machine: longer after one side has won,
/// shorter after the other.
#[derive(Default)]
pub struct Pause(u32);

impl Pause {
    pub fn pass(&self) {
        (0..self.0).for_each(|_| std::hint::spin_loop());
    }

    pub fn adapt(&mut self, longer: bool) {
        self.0 = if longer { (self.0 + self.0 / 4 + 16).min(1 << 26) } else { self.0 / 4 * 3 };
    }

    /// Runs `first`, and `other` after the pause, on two threads that start together.
    pub fn race<T>(&self, first: impl FnOnce() -> T, other: impl FnOnce() + Send) -> T {
        let begin = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                begin.wait();
                self.pass();
                other();
            });
            begin.wait();
            first()
        })
    }
}

/// A gate at which tasks wait until the test opens it. Counts the tasks that have arrived. It is
/// never freed.
#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<(bool, u32)>,
    changed: Condvar,
}

impl Gate {
    pub fn new() -> &'static Self {
        Box::leak(Box::default())
    }

    pub fn opened() -> &'static Self {
        let gate = Gate::new();
        gate.open();
        gate
    }

    pub fn open(&self) {
        self.state.lock().unwrap().0 = true;
        self.changed.notify_all();
    }

    pub fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.1 += 1;
        self.changed.notify_all();
        // A test that failed with a closed gate must end, too.
        let _ = self.changed.wait_timeout_while(state, LONG.unwrap(), |state| !state.0).unwrap();
    }

    pub fn came(&self, count: u32) {
        let state = self.state.lock().unwrap();
        let waited = self.changed.wait_timeout_while(state, LONG.unwrap(), |state| state.1 < count);
        assert!(!waited.unwrap().1.timed_out(), "{count} tasks did not start");
    }
}

pub fn code(run: impl Fn(&Exec<'_>) -> Result<()> + Send + Sync + 'static) -> Task {
    Task::new(run)
}

pub fn effect(run: impl Fn() + Send + Sync + 'static) -> Task {
    code(move |_| {
        run();
        Ok(())
    })
}

pub fn nested(
    scheduler: &Arc<Scheduler>,
    run: impl Fn(&Arc<Scheduler>, &Exec<'_>) -> Result<()> + Send + Sync + 'static,
) -> Task {
    let weak = Arc::downgrade(scheduler);
    code(move |exec| run(&weak.upgrade().ok_or(Error::Cancelled)?, exec))
}

pub fn poisons_once() -> Task {
    code(|exec| match exec.attempt {
        1 => Err(device_fault(exec.device.label(), DeviceFault::Poisoned)),
        _ => Ok(()),
    })
}

pub fn gated(gate: &'static Gate) -> Task {
    effect(|| gate.pass())
}

pub fn quick() -> Task {
    effect(|| ())
}

pub fn until_cancelled() -> Task {
    code(|exec| {
        until(|| exec.cancelled());
        Err(Error::Cancelled)
    })
}

pub fn dropping(end: impl Fn() + Send + Sync + 'static) -> Task {
    let held = OnDrop(end);
    effect(move || _ = &held)
}

pub struct OnDrop<F: Fn()>(pub F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        self.0();
    }
}

/// Returns a task that ends at once, whose code waits at a gate when it is dropped.
pub fn kept(gate: &'static Gate) -> Task {
    dropping(|| gate.pass())
}

/// Submits light tasks until `over`: each submits the next one, as `as_what` modifies it.
pub fn endless(
    scheduler: &Arc<Scheduler>,
    over: &Arc<AtomicBool>,
    as_what: fn(Task) -> Task,
    each: impl Fn() + Clone + Send + Sync + 'static,
) {
    let stop = Arc::clone(over);
    let task = nested(scheduler, move |scheduler, _| {
        each();
        if !stop.load(Ordering::SeqCst) {
            endless(scheduler, &stop, as_what, each.clone());
        }
        Ok(())
    });
    let _ = scheduler.submit(as_what(Task { detached: true, ..task }));
}

/// Submits a task that holds a slot until the returned gate opens, and waits until it runs.
pub fn occupy(scheduler: &Scheduler) -> &'static Gate {
    occupy_as(scheduler, |task| task).1
}

pub fn occupy_as(scheduler: &Scheduler, as_what: impl Fn(Task) -> Task) -> (TaskId, &'static Gate) {
    let gate = Gate::new();
    let id = scheduler.submit(as_what(gated(gate))).unwrap();
    gate.came(1);
    (id, gate)
}

pub fn wait(scheduler: &Scheduler, id: TaskId) -> Result<WaitResult> {
    let waited = scheduler.wait(id, LONG);
    assert_ne!(waited, Ok(WaitResult::Pending), "the task hangs");
    waited
}

pub fn wait_all(scheduler: &Scheduler) {
    assert_eq!(scheduler.wait_all(LONG), Ok(WaitResult::Done));
}

pub fn run(scheduler: &Scheduler, task: Task) -> Result<WaitResult> {
    wait(scheduler, scheduler.submit(task)?)
}

/// Stores the calling thread's id for [`until_asleep`].
pub fn name_thread(id: &AtomicI32) {
    // SAFETY: takes nothing.
    id.store(unsafe { libc::gettid() }, Ordering::Relaxed);
}

/// Waits until the thread has slept for 20 ms; a thread that waits for a lock sleeps for less.
pub fn until_asleep(id: &AtomicI32) {
    let status = || format!("/proc/self/task/{}/stat", id.load(Ordering::Relaxed));
    let sleeps = || std::fs::read_to_string(status()).is_ok_and(|text| text.contains(") S "));
    until(|| {
        (0..20).all(|_| {
            thread::sleep(Duration::from_millis(1));
            sleeps()
        })
    });
}

pub fn until(mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < LONG.unwrap(), "it never came to be");
        thread::sleep(Duration::from_micros(200));
    }
}
