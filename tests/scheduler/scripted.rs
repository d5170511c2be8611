//! Devices whose memory and failures a test writes down.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use gpusched::backend::cpu::Team;
use gpusched::backend::{Backend, Lane, Queue};
use gpusched::device::{BackendKind, DeviceInfo};
use gpusched::error::DeviceFault;
use gpusched::sched::{Exec, Scheduler, Task, TaskId, Wait};
use gpusched::{Error, Result};

/// Longer than any test may take on a busy machine: a wait that reaches it has hung.
pub const LONG: Option<Duration> = Some(Duration::from_secs(20));

pub struct Scripted {
    pub devices: u32,
    /// Memory of each device that tasks may have.
    pub total: u64,
    /// Memory of each device that nobody has taken, as the device tells it.
    pub free: Vec<AtomicU64>,
    /// Bit i: device i can't be opened.
    pub broken: AtomicU64,
    pub opened: AtomicU32,
    /// Tasks that are inside queues, as those count them.
    pub inside: Arc<AtomicI64>,
    /// Where the backend waits when a queue is opened, when it is asked what is free, and when a context is to be
    /// made anew.
    pub slow_open: Option<Arc<Gate>>,
    pub slow_free: Option<Arc<Gate>>,
    pub slow_renew: Option<Arc<Gate>>,
}

impl Scripted {
    pub fn new(devices: u32) -> Self {
        Scripted {
            devices,
            total: 1000,
            free: (0..devices).map(|_| AtomicU64::new(1000)).collect(),
            broken: AtomicU64::new(0),
            opened: AtomicU32::new(0),
            slow_open: None,
            inside: Arc::default(),
            slow_free: None,
            slow_renew: None,
        }
    }

    pub fn broken(devices: u32, which: u64) -> Self {
        Scripted { broken: AtomicU64::new(which), ..Scripted::new(devices) }
    }

    pub fn scheduler(self, slots: u32) -> Scheduler {
        scheduler(Arc::new(self), slots)
    }
}

pub fn scheduler(backend: Arc<Scripted>, slots: u32) -> Scheduler {
    let mut builder = Scheduler::builder();
    builder.devices = Some("all".into());
    builder.slots = Some(slots);
    builder.backends = Some(vec![backend]);
    builder.build().unwrap()
}

impl Backend for Scripted {
    fn kind(&self) -> BackendKind {
        BackendKind::Cuda
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>> {
        let device = |ordinal| DeviceInfo {
            // A sixteenth is left for a card's context.
            total_bytes: self.total * 16 / 15,
            free_bytes: self.free[ordinal as usize].load(Ordering::Relaxed),
            ..DeviceInfo::new(&format!("GPU-{ordinal}"), BackendKind::Cuda, ordinal, "scripted")
        };
        Ok((0..self.devices).map(device).collect())
    }

    fn renew(&self, _: u32) {
        if let Some(door) = &self.slow_renew {
            door.pass();
        }
    }

    fn free_bytes(&self, ordinal: u32) -> Result<u64> {
        if let Some(door) = &self.slow_free {
            door.pass();
        }
        Ok(self.free[ordinal as usize].load(Ordering::Relaxed))
    }

    fn open(&self, ordinal: u32, slot: u32, slots: u32) -> Result<Box<dyn Queue>> {
        assert!(slot < slots);
        self.opened.fetch_add(1, Ordering::Relaxed);
        if let Some(door) = &self.slow_open {
            door.pass();
        }
        if self.broken.load(Ordering::Relaxed) >> ordinal & 1 == 1 {
            return Err(Error::Device {
                device: format!("cuda:{ordinal}"),
                what: "scripted to fail".into(),
                fault: DeviceFault::Lost,
            });
        }
        Ok(Box::new(Slot(Team::new(1)?, self.inside.clone())))
    }
}

struct Slot(Team, Arc<AtomicI64>);

impl Queue for Slot {
    fn enter(&self) -> Result<()> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn finish(&self) -> Result<()> {
        self.1.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    fn lane(&self) -> Lane<'_> {
        Lane::Cpu(&self.0)
    }
}

/// A pause that makes two sides of a race win about equally often, on any machine: a test lengthens it when the one
/// side has won and shortens it when the other has.
#[derive(Default)]
pub struct Pause(u32);

impl Pause {
    pub fn pass(&self) {
        (0..self.0).for_each(|_| std::hint::spin_loop());
    }

    pub fn adapt(&mut self, longer: bool) {
        self.0 = if longer { (self.0 + self.0 / 4 + 16).min(1 << 26) } else { self.0 / 4 * 3 };
    }
}

/// A door that tasks wait at until the test opens it, and that counts who is there.
#[derive(Default)]
pub struct Gate {
    state: Mutex<(bool, u32)>,
    changed: Condvar,
}

impl Gate {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    pub fn open(&self) {
        self.state.lock().unwrap().0 = true;
        self.changed.notify_all();
    }

    /// Goes in when the door is open.
    pub fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.1 += 1;
        self.changed.notify_all();
        // Not for ever: a test that failed with its door closed must end.
        let _ = self.changed.wait_timeout_while(state, LONG.unwrap(), |state| !state.0).unwrap();
    }

    /// Waits until `count` have come to the door.
    pub fn came(&self, count: u32) {
        let state = self.state.lock().unwrap();
        let waited = self.changed.wait_timeout_while(state, LONG.unwrap(), |state| state.1 < count);
        let late = waited.unwrap().1;
        assert!(!late.timed_out(), "{count} tasks did not start");
    }
}

/// A task that waits at a gate.
pub fn gated(gate: &Arc<Gate>) -> Task {
    let gate = Arc::clone(gate);
    Task::new(move |_: &Exec<'_>| {
        gate.pass();
        Ok(())
    })
}

/// A task that is done at once, and whose job waits at a gate when it is dropped.
pub fn kept(gate: &Arc<Gate>) -> Task {
    struct Kept(Arc<Gate>);
    impl Drop for Kept {
        fn drop(&mut self) {
            self.0.pass();
        }
    }
    let kept = Kept(Arc::clone(gate));
    Task::new(move |_: &Exec<'_>| {
        let _ = &kept;
        Ok(())
    })
}

/// A task that is done at once.
pub fn quick() -> Task {
    Task::new(|_: &Exec<'_>| Ok(()))
}

pub fn wait(scheduler: &Scheduler, id: TaskId) -> Result<Wait> {
    let waited = scheduler.wait(id, LONG);
    assert_ne!(waited, Ok(Wait::Pending), "the task hangs");
    waited
}
