//! Devices on which something goes wrong at some moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use gpusched::backend::{Backend, Lane, Queue};
use gpusched::device::{BackendKind, DeviceInfo};
use gpusched::error::DeviceFault;
use gpusched::{Error, Result};

use crate::scripted::Scripted;
use testkit::Random;

pub struct FaultyDevices {
    scripted: Scripted,
    devices: Vec<Arc<Fate>>,
}

/// How often each call of a device does well before it fails.
struct Fate {
    ordinal: u32,
    open: AtomicI64,
    enter: AtomicI64,
    /// Once; and what it does to the context.
    finish: AtomicI64,
    fault: DeviceFault,
}

const NEVER: i64 = i64::MAX / 2;

impl FaultyDevices {
    pub fn new(devices: u32, bad: bool, random: &mut Random) -> Self {
        let mut moment = |chance: f64, within: usize| {
            let moment = random.below(within) as i64;
            AtomicI64::new(if bad && random.unit() < chance { moment } else { NEVER })
        };
        let fates = (0..devices).map(|ordinal| Fate {
            ordinal,
            open: moment(0.1, 3),
            enter: moment(0.15, 80),
            finish: moment(0.3, 80),
            fault: if moment(0.3, 1).into_inner() == NEVER {
                DeviceFault::Poisoned
            } else {
                DeviceFault::Lost
            },
        });
        FaultyDevices { devices: fates.map(Arc::new).collect(), scripted: Scripted::new(devices) }
    }
}

impl Fate {
    fn fails(&self, what: &str, fault: DeviceFault) -> Result<()> {
        Err(Error::Device { device: format!("cuda:{}", self.ordinal), what: format!("no {what}"), fault })
    }
}

/// Counts down; true from the end on.
fn over(left: &AtomicI64) -> bool {
    left.fetch_sub(1, Ordering::Relaxed) <= 0
}

impl Backend for FaultyDevices {
    fn kind(&self) -> BackendKind {
        self.scripted.kind()
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>> {
        self.scripted.devices()
    }

    fn free_bytes(&self, ordinal: u32) -> Result<u64> {
        self.scripted.free_bytes(ordinal)
    }

    fn open(&self, ordinal: u32, slot: u32, slots: u32) -> Result<Box<dyn Queue>> {
        let fate = &self.devices[ordinal as usize];
        if over(&fate.open) {
            fate.fails("open", DeviceFault::Lost)?;
        }
        Ok(Box::new(Slot(self.scripted.open(ordinal, slot, slots)?, fate.clone())))
    }
}

struct Slot(Box<dyn Queue>, Arc<Fate>);

impl Queue for Slot {
    fn enter(&self) -> Result<()> {
        if over(&self.1.enter) { self.1.fails("enter", DeviceFault::Lost) } else { self.0.enter() }
    }

    fn finish(&self) -> Result<()> {
        if self.1.finish.fetch_sub(1, Ordering::Relaxed) == 0 {
            return self.1.fails("finish", self.1.fault);
        }
        self.0.finish()
    }

    fn lane(&self) -> Lane<'_> {
        self.0.lane()
    }
}
