//! Decides on which devices light tasks may begin beside planned tasks.
//!
//! The runtime closes a device to light tasks while a planned task is to run there alone, and while
//! the device's context is poisoned or being renewed. Each worker has a flag that is up while it
//! may run light tasks.
//!
//! **No light task begins beside an exclusive one.** A worker raises its flag and then reads the
//! closed devices ([`LightGate::enter`]); the planner closes the device and then reads the flags of
//! its workers ([`LightGate::close`]). Both orders are total (`SeqCst`). So either the worker finds
//! the device closed, or the planner finds the flag up and does not start the task (Dekker).
//!
//! **No exclusive task is forgotten.** The runtime publishes that one waits before it reads the
//! flags; a worker lowers its flag and then reads whether one waits ([`LightGate::leave`]). So
//! either the planner finds the flag down, or the worker wakes workers that call the planner again.

use crate::sched::base::{
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    total_order,
};

#[derive(Default)]
pub struct LightGate {
    /// Bit i: no light task begins on device i.
    closed: AtomicU64,
    /// A planned task is to run alone, and may wait for light tasks of any device to end.
    exclusive_waits: AtomicBool,
    /// By device: the context in which tasks begin; written before the device is opened.
    contexts: Box<[AtomicU32]>,
}

impl LightGate {
    pub fn new(devices: usize) -> Self {
        LightGate { contexts: (0..devices).map(|_| AtomicU32::new(0)).collect(), ..LightGate::default() }
    }

    /// Returns a mask of the devices on which no light task begins.
    pub fn closed(&self) -> u64 {
        self.closed.load(Ordering::SeqCst)
    }

    pub fn is_closed(&self, device: usize) -> bool {
        self.closed() >> device & 1 == 1
    }

    pub fn context(&self, device: usize) -> u32 {
        self.contexts[device].load(Ordering::Relaxed)
    }

    /// Raises a worker's flag. Returns false if its device is closed; the worker then has to leave.
    pub fn enter(&self, flag: &AtomicBool, device: usize) -> bool {
        if self.is_closed(device) {
            return false;
        }
        if flag.load(Ordering::Relaxed) {
            return true;
        }
        flag.store(true, Ordering::SeqCst);
        total_order();
        !self.is_closed(device)
    }

    /// Lowers a worker's flag. Returns true if a planned task, or the renewal of a context, may
    /// have waited for that: then the caller asks the planner.
    pub fn leave(&self, flag: &AtomicBool, device: usize) -> bool {
        if !flag.load(Ordering::Relaxed) {
            return false;
        }
        flag.store(false, Ordering::SeqCst);
        total_order();
        self.is_closed(device) || self.exclusive_waits.load(Ordering::SeqCst)
    }

    /// Closes a device until the next [`LightGate::publish`], then returns whether workers run
    /// light tasks there. The caller holds the planner lock until it has published.
    pub fn close(&self, device: usize, runs_light: impl FnOnce() -> bool) -> bool {
        self.closed.fetch_or(1 << device, Ordering::SeqCst);
        total_order();
        runs_light()
    }

    pub fn set_context(&self, device: usize, context: u32) {
        self.contexts[device].store(context, Ordering::Relaxed);
    }

    /// Publishes which devices are closed, and whether a planned task waits to run alone. Returns
    /// true if a device was opened: then the caller wakes the workers that sleep.
    pub fn publish(&self, closed: u64, exclusive_waits: bool) -> bool {
        // All writers hold the planner lock. Values that stay are not written: their line stays in
        // all caches. The fence after the last change orders later reads of the flags, too, since
        // it comes before them.
        let same = self.exclusive_waits.load(Ordering::Relaxed) == exclusive_waits;
        if same && self.closed.load(Ordering::Relaxed) == closed {
            return false;
        }
        self.exclusive_waits.store(exclusive_waits, Ordering::SeqCst);
        let opened = self.closed.swap(closed, Ordering::SeqCst) & !closed != 0;
        total_order();
        opened
    }
}

#[cfg(all(test, loom))]
mod models {
    //! Workers with light tasks and a planner with a task that is to run alone, on one device.

    use loom::sync::atomic::AtomicUsize;
    use loom::sync::{Condvar, Mutex};

    use super::*;
    use crate::sched::base::sync::{Arc, models};
    use crate::sched::sleep::{EventCount, Sleeper};

    const DEVICE: usize = 0;

    struct World {
        gate: LightGate,
        flags: [AtomicBool; 2],
        /// Light tasks that no worker has taken.
        light_tasks: AtomicUsize,
        light_running: AtomicUsize,
        exclusive_running: AtomicBool,
        /// The planner lock, and whether the planner's worker was woken.
        planner: Mutex<bool>,
        woken: Condvar,
        event_count: EventCount,
    }

    impl World {
        fn new(light_tasks: usize) -> Arc<Self> {
            Arc::new(World {
                gate: LightGate::new(1),
                flags: Default::default(),
                light_tasks: AtomicUsize::new(light_tasks),
                light_running: AtomicUsize::default(),
                exclusive_running: AtomicBool::default(),
                planner: Mutex::default(),
                woken: Condvar::new(),
                event_count: EventCount::default(),
            })
        }

        fn publish(&self, closed: u64, exclusive_waits: bool) {
            if self.gate.publish(closed, exclusive_waits) && self.event_count.asleep() > 0 {
                self.event_count.wake_all();
            }
        }

        /// Runs the exclusive task as soon as no light task runs, as a worker's planned task.
        fn run_exclusive(&self) {
            let mut planner = self.planner.lock().unwrap();
            self.publish(0, true);
            let runs_light = || self.flags.iter().any(|flag| flag.load(Ordering::SeqCst));
            while self.gate.close(DEVICE, runs_light) {
                self.publish(0, true);
                while !*planner {
                    planner = self.woken.wait(planner).unwrap();
                }
                *planner = false;
            }
            self.exclusive_running.store(true, Ordering::SeqCst);
            self.publish(1 << DEVICE, true);
            drop(planner);
            assert_eq!(self.light_running.load(Ordering::SeqCst), 0, "a light task runs beside it");
            let _planner = self.planner.lock().unwrap();
            self.exclusive_running.store(false, Ordering::SeqCst);
            self.gate.set_context(DEVICE, 1);
            self.publish(0, false);
        }

        fn leave(&self, flag: &AtomicBool) {
            if self.gate.leave(flag, DEVICE) {
                *self.planner.lock().unwrap() = true;
                self.woken.notify_one();
            }
        }

        fn take(&self) -> bool {
            let less = |tasks: usize| tasks.checked_sub(1);
            self.light_tasks.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
        }

        /// Runs light tasks, and sleeps while the device is closed.
        fn run_light(&self, index: usize) {
            let (flag, sleeper) = (&self.flags[index], Sleeper::new(index, DEVICE));
            let mut was_closed = false;
            loop {
                if self.gate.enter(flag, DEVICE) {
                    if !self.take() {
                        break self.leave(flag);
                    }
                    let context = self.gate.context(DEVICE);
                    assert!(!was_closed || context == 1, "it begins in the context of before");
                    self.light_running.fetch_add(1, Ordering::SeqCst);
                    assert!(!self.exclusive_running.load(Ordering::SeqCst), "the exclusive task runs");
                    self.light_running.fetch_sub(1, Ordering::SeqCst);
                    continue;
                }
                self.leave(flag);
                self.event_count.prepare_sleep(&sleeper);
                if self.gate.is_closed(DEVICE) {
                    was_closed = self.exclusive_running.load(Ordering::SeqCst);
                    self.event_count.sleep(&sleeper, None);
                } else {
                    self.event_count.cancel_sleep(&sleeper);
                }
            }
        }
    }

    #[test]
    fn an_exclusive_task_runs_beside_no_light_task() {
        for workers in [1, 2] {
            models::explore(2, move || {
                let world = World::new(2);
                let start = |index| {
                    assert!(world.event_count.add_searcher(false));
                    models::start(&world, move |world| world.run_light(index))
                };
                let workers: Vec<_> = (0..workers).map(start).collect();
                world.run_exclusive();
                models::join(workers);
                assert_eq!(world.light_tasks.load(Ordering::SeqCst), 0);
            });
        }
    }
}
