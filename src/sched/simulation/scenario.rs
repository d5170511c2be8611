//! The input of a simulation: devices with a true speed, tasks with a true amount of work, and
//! faults at given times. Times are virtual seconds from the beginning.

use crate::sched::base::DeviceMask;

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scenario {
    pub devices: Vec<SimDevice>,
    pub tasks: Vec<SimTask>,
}

/// A device. The policy never sees `speed`, `fail_at` or `faults`. Start from [`SimDevice::new`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SimDevice {
    pub name: String,
    /// A task takes `work / speed` seconds on it, in each slot.
    pub speed: f64,
    /// The policy's first guess of the rate. `None`: nothing is known.
    pub prior: Option<f64>,
    pub memory_bytes: u64,
    pub slots: u32,
    /// Time at which the device is lost.
    pub fail_at: Option<f64>,
    pub faults: Vec<Fault>,
}

/// A fault of a device at a given time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fault {
    pub at: f64,
    pub kind: FaultKind,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FaultKind {
    /// Attempts that start within this many seconds run out of memory.
    OutOfMemory { seconds: f64 },
    /// Attempts that start within this many seconds beside another one can't be launched.
    LaunchResources { seconds: f64 },
    /// Attempts that start within this many seconds compute a wrong result and detect it at the
    /// end.
    Wrong { seconds: f64 },
    /// The running attempts fail, and so does every later one in the same context.
    Poisoned,
    /// From now on its speed is multiplied by this.
    Slow { factor: f64 },
    /// The running attempts never return.
    Hang,
}

/// A task. The policy never sees `work`. Start from [`SimTask::new`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SimTask {
    pub work: f64,
    /// The work as stated to the policy. `None`: not stated.
    pub hint: Option<f64>,
    pub device_bytes: u64,
    pub devices: DeviceMask,
    pub priority: i32,
    pub retries: u32,
    pub idempotent: bool,
    pub deadline: Option<f64>,
    /// Positions of the tasks that must succeed first; earlier ones only.
    pub after: Vec<usize>,
    pub submit_at: f64,
    pub cancel_at: Option<f64>,
    /// Number of attempts that end with an error of the task.
    pub failures: u32,
    /// Each attempt poisons the context that it runs in.
    pub poison: bool,
    /// Factor on the duration of the first attempt.
    pub stumble: f64,
}

impl SimDevice {
    pub fn new(name: &str, speed: f64) -> Self {
        SimDevice {
            name: name.into(),
            speed,
            prior: Some(speed),
            memory_bytes: 16 << 30,
            slots: 1,
            ..SimDevice::default()
        }
    }
}

impl SimTask {
    pub fn new(work: f64) -> Self {
        SimTask {
            work,
            hint: Some(work),
            devices: DeviceMask::ALL,
            idempotent: true,
            stumble: 1.0,
            ..SimTask::default()
        }
    }
}
