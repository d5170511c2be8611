//! Leases of slots between the processes of a node.
//!
//! Before a planned task begins on a shared device, and before a worker turns to light tasks there,
//! the scheduler leases a slot of it. The planner gets the slots and memory that peers hold, or
//! that they have in the queue before us. Where that keeps a task from its device, the scheduler
//! waits in the queue of the node, and one thread, the watcher, sleeps until the leases change.
//!
//! Lock order: the shared table of the node, the planner lock, the watcher's lock. A thread that
//! holds the first two releases the planner lock first: releasing the table may log.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Peers, PlannerGuarded, Runtime, log_all, peers::WatcherState};
use crate::error::{Error, Result};
use crate::node::{DeviceAvailability, LockedTable, SlotRequest};
use crate::sched::base::{DeviceLease, TaskId, lock, nanoseconds};

impl Runtime {
    /// Locks the shared table of the node: meanwhile no peer reads or changes leases. `None`: the
    /// device is not shared, or [`Runtime::lock_shared_table`] fails.
    pub fn lock_table(self: &Arc<Self>, device: usize) -> Option<(&Peers, LockedTable<'_>)> {
        if self.shares(device) { self.lock_shared_table() } else { None }
    }

    /// Locks the shared table, if there is one, and starts the watcher if others are in it. If that
    /// fails, logs why and returns `None`, also for a while after that: it is better to run beside
    /// the peers than not at all.
    ///
    /// Not to be called with the planner lock held: the log may be the caller's code.
    fn lock_shared_table(self: &Arc<Self>) -> Option<(&Peers, LockedTable<'_>)> {
        let peers = self.peers.as_ref()?;
        if self.clock() < peers.suspended_until.load(Ordering::Relaxed) {
            return None;
        }
        let locked = peers.membership.lock().and_then(|table| {
            // Their leases reach the planner by this table only, so their ends are watched.
            if table.other_members() > 0 {
                self.start_watcher(peers)?;
            }
            Ok(table)
        });
        let suspend = |why: &Error| {
            let until = nanoseconds(self.now().saturating_add(self.policy.suspension));
            peers.suspended_until.store(until, Ordering::Relaxed);
            peers.taken.store(0, Ordering::SeqCst);
            let seconds = self.policy.suspension.as_secs_f64();
            log::warn!("tasks begin without regard to other processes for {seconds} s: {why}");
        };
        Some((peers, locked.inspect_err(suspend).ok()?))
    }

    /// Passes the leases of peers to the planner. Returns true if a device that was taken is free
    /// again: then the caller wakes a worker for light tasks.
    pub fn update_peer_load(
        &self,
        peers: &Peers,
        table: &mut LockedTable<'_>,
        guard: &mut PlannerGuarded,
    ) -> bool {
        let now = self.now();
        for index in 0..self.devices.len() {
            table.set_slots(index, guard.planner.devices()[index].slots);
        }
        guard.planner.set_has_peers(table.other_members() > 0);
        guard.planner.set_seconds_per_cost(table.measured_seconds_per_cost());
        let mut taken = 0;
        for (index, available) in table.availability().into_iter().enumerate() {
            let DeviceAvailability { busy_slots, pending_bytes, waiters } = available;
            guard.planner.set_peer_load(now, index, &busy_slots, pending_bytes, waiters > 0);
            taken |= u64::from(guard.planner.devices()[index].is_taken()) << index;
        }
        peers.taken.swap(taken, Ordering::SeqCst) & !taken != 0
    }

    /// Passes the leases of peers to the planner, then calls `code` under the same locks.
    fn with_peer_load<T>(
        self: &Arc<Self>,
        peers: &Peers,
        mut table: LockedTable<'_>,
        code: impl FnOnce(&mut LockedTable<'_>, &mut PlannerGuarded) -> T,
    ) -> T {
        let mut guard = self.lock();
        let opened = self.update_peer_load(peers, &mut table, &mut guard);
        let result = code(&mut table, &mut guard);
        let records = std::mem::take(&mut guard.log);
        drop(guard);
        drop(table);
        log_all(records);
        self.wake_if_opened(opened);
        result
    }

    /// Clears the marks of taken devices where own tasks have left a slot. Returns true if there
    /// are any.
    pub fn publish_free_slots(&self, guard: &PlannerGuarded) -> bool {
        let Some(peers) = self.peers.as_ref().filter(|peers| peers.taken.load(Ordering::SeqCst) != 0) else {
            return false;
        };
        let free = guard.planner.devices().iter().enumerate();
        let free =
            free.fold(0, |bits, (index, device)| bits | u64::from(device.has_slot_for_light()) << index);
        peers.taken.fetch_and(!free, Ordering::SeqCst) & free != 0
    }

    /// Joins the queue of the node if leases of peers keep a ready task from its device, and leaves
    /// it if none do.
    pub fn update_queue(&self, peers: &Peers, table: &mut LockedTable<'_>, guard: &PlannerGuarded) {
        // Peers expect a turn of light tasks.
        let light_cost = self.policy.turn.as_secs_f64() / table.seconds_per_cost();
        let light_waits = || peers.taken.load(Ordering::SeqCst) != 0 && !self.light.queues.is_empty();
        let light = || {
            let taken = peers.taken.load(Ordering::SeqCst);
            let cost = |index: usize| (taken >> index & 1 == 1).then_some(light_cost);
            light_waits().then(|| SlotRequest::of_task(0, (0..self.devices.len()).map(cost)))
        };
        let request = guard.planner.slot_request(self.now()).or_else(light);
        let waits = request.is_some();
        let has_light = !self.light.queues.is_empty();
        if !waits && (has_light || guard.planner.has_ready_tasks()) {
            // A request that peers no longer block keeps its place in the queue until its lease is
            // taken, unless its task was cancelled or began elsewhere.
            table.retain_tasks(|number| number == 0 && has_light || guard.planner.is_ready(number));
            return;
        }
        table.request(request);
        if !waits {
            lock(&peers.watcher).waiting = false;
        }
        // A light task that was submitted meanwhile has found `waiting` set.
        if waits || light_waits() {
            self.watch_queue();
        }
    }

    /// Leases a slot for a planned task that begins. `None`: the task begins without a lease.
    pub fn lease_for_task(
        &self,
        table: &mut LockedTable<'_>,
        guard: &mut PlannerGuarded,
        device: usize,
        id: TaskId,
    ) -> Option<DeviceLease> {
        let (bytes, cost, seconds_per_cost) = guard.planner.lease_terms(id, device)?;
        if let Some(seconds) = seconds_per_cost {
            table.report_seconds_per_cost(seconds);
        }
        DeviceLease::new(table, device, cost, bytes, &mut guard.log)
    }

    /// Leases a slot for light tasks. `None`: peers hold all slots. `Some(None)`: the device is not
    /// shared, or light tasks run there without a lease.
    pub fn lease_for_light(self: &Arc<Self>, device: usize) -> Option<Option<LightLease>> {
        let Some((peers, table)) = self.lock_table(device) else { return Some(None) };
        self.with_peer_load(peers, table, |table, guard| {
            if !guard.planner.devices()[device].has_slot_for_light() {
                peers.taken.fetch_or(1 << device, Ordering::SeqCst);
                self.update_queue(peers, table, guard);
                return None;
            }
            let cost = self.policy.turn.as_secs_f64() / table.seconds_per_cost();
            let lease = DeviceLease::new(table, device, Some(cost), 0, &mut guard.log);
            if lease.is_some() {
                guard.planner.take_light_slot(device);
            }
            Some(lease.map(|lease| LightLease { _lease: lease, since: self.clock() }))
        })
    }

    /// Reads the shared table. Returns true if other processes wait for the device, or a planned
    /// task of this one for a slot of light tasks there.
    pub fn light_slot_is_wanted(self: &Arc<Self>, device: usize) -> bool {
        let Some((peers, table)) = self.lock_table(device) else { return false };
        self.with_peer_load(peers, table, |_, guard| {
            let (state, now) = (&guard.planner.devices()[device], self.now());
            let fits = || !state.has_room(now) && state.has_room_but_for_light(now);
            state.peer_load.is_wanted || guard.planner.has_ready_tasks() && fits()
        })
    }

    /// Wakes the timer thread and the watcher, which end after the last worker of a scheduler that
    /// stops.
    pub fn wake_timer_and_watcher(&self) {
        drop(self.lock());
        self.timer_wakeup.notify_all();
        let Some(peers) = &self.peers else { return };
        drop(lock(&peers.watcher));
        peers.watcher_wakeup.notify_all();
        peers.membership.wake();
    }

    /// Makes the watcher watch the queue of the node until nothing is waited for.
    pub fn watch_queue(&self) {
        let Some(peers) = &self.peers else { return };
        if !std::mem::replace(&mut lock(&peers.watcher).waiting, true) {
            peers.watcher_wakeup.notify_all();
        }
    }

    /// Starts the watcher, unless it runs.
    fn start_watcher(self: &Arc<Self>, peers: &Peers) -> Result<()> {
        let mut watcher = lock(&peers.watcher);
        if !watcher.running {
            let runtime = self.clone();
            let started = self.pool.start("gpusched node".into(), None, move || watch(&runtime));
            started.map_err(|error| Error::NoThread { purpose: "to watch them", why: error.to_string() })?;
            watcher.running = true;
        }
        Ok(())
    }
}

/// A slot of a device that is leased for light tasks.
pub struct LightLease {
    _lease: DeviceLease,
    /// When it was taken, in nanoseconds of the scheduler's time.
    pub since: u64,
}

/// Runs the watcher until the scheduler has stopped.
fn watch(runtime: &Arc<Runtime>) {
    let Some(peers) = &runtime.peers else { return };
    let over = || runtime.light.is_stopping() && !runtime.pool.has_worker();
    loop {
        let waits = |watcher: &mut WatcherState| !watcher.waiting && !over();
        drop(peers.watcher_wakeup.wait_while(lock(&peers.watcher), waits));
        if over() {
            return;
        }
        if let Some((peers, table)) = runtime.lock_shared_table() {
            runtime.with_peer_load(peers, table, |table, guard| runtime.update_queue(peers, table, guard));
            runtime.step(|_, _| ());
        } else {
            runtime.step(|planner, _| {
                // Until the leases are read again.
                let devices = 0..runtime.devices.len();
                devices.for_each(|index| planner.set_peer_load(Duration::ZERO, index, &[], 0, false));
                lock(&peers.watcher).waiting = false;
            });
            runtime.wake_if_opened(true);
        }
        if lock(&peers.watcher).waiting {
            peers.membership.wait(Some(runtime.policy.lease_interval));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::{Mutex, Weak};

    use log::{LevelFilter, Log, Metadata, Record};

    use super::*;
    use crate::backend::cpu::CpuBackend;
    use crate::device::{BackendKind, DeviceInfo};
    use crate::node::{Membership, NodePolicy, SharedDevice};
    use crate::sched::base::{DeviceMask, Exec, Policy, Task};
    use crate::sched::plan::Effects;
    use crate::sched::runtime::{FoundDevice, WorkerLocal, worker::take_planned};

    /// Logger that records each message, and whether the planner lock was free meanwhile.
    struct LockProbe;

    const UUIDS: [&str; 2] = ["GPU-0", "GPU-1"];
    static PROBED: Mutex<Weak<Runtime>> = Mutex::new(Weak::new());
    static LOGGED: Mutex<Vec<(String, bool)>> = Mutex::new(Vec::new());

    impl Log for LockProbe {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn log(&self, record: &Record<'_>) {
            if let Some(runtime) = lock(&PROBED).upgrade() {
                let free = runtime.planner.try_lock().is_ok();
                lock(&LOGGED).push((record.args().to_string(), free));
            }
        }

        fn flush(&self) {}
    }

    /// Returns a member of a node with so many GPUs, whose workers run nothing.
    fn runtime(folder: &Path, gpus: usize) -> Arc<Runtime> {
        let device = |uuid: &&str| DeviceInfo {
            total_bytes: 1 << 30,
            free_bytes: 1 << 30,
            ..DeviceInfo::new(uuid, BackendKind::Cuda, 0, "paper")
        };
        let backend = Arc::new(CpuBackend::new(None));
        let devices = UUIDS[..gpus].iter().map(device);
        let devices: Vec<FoundDevice> = devices.map(|device| (device, backend.clone() as _)).collect();
        let peers = Peers::join(Some(folder), &devices, 1, NodePolicy::default()).unwrap();
        Arc::new(Runtime::new(devices, 1, 1 << 20, peers, |_, _| {}, Policy::default()))
    }

    #[test]
    fn request_of_a_cancelled_task_ends_while_others_are_ready() {
        let folder = testkit::Folder::new();
        let runtime = runtime(&folder.at("leases"), 2);
        let shared = UUIDS.map(|uuid| Some(SharedDevice { uuid, slots: 1 }));
        let peer = Membership::join(Some(&folder.at("leases")), &shared, NodePolicy::default());
        let peer = peer.unwrap().unwrap();
        let lease = peer.lock().unwrap().lease(0, None, 0).unwrap();
        let submit = |device| {
            let devices = DeviceMask::only(device);
            let task = Task { work: Some(1.0), devices, ..Task::new(|_: &Exec<'_>| Ok(())) };
            runtime.lock().planner.submit(task, &mut Effects::default()).unwrap()
        };
        let worker = WorkerLocal::enter(&runtime, 0);
        let waiters = || {
            assert!(take_planned(&worker, false).is_none());
            peer.lock().unwrap().availability()[0].waiters
        };
        let kept = submit(0);
        assert_eq!(waiters(), 1);
        submit(1);
        assert_eq!(waiters(), 1);
        runtime.lock().planner.cancel(kept, &mut Effects::default()).unwrap();
        assert_eq!(waiters(), 0);
        drop(lease);
        worker.leave();
    }

    #[test]
    fn device_that_this_process_uses_itself_is_not_reported_as_taken() {
        let folder = testkit::Folder::new();
        let runtime = runtime(&folder.at("leases"), 1);
        let lease = runtime.lease_for_light(0).flatten();
        assert!(lease.is_some() && runtime.lease_for_light(0).is_none(), "its only slot is used");
        assert_eq!(runtime.taken(), 1, "no other worker takes a light task");
        assert!(!runtime.stats().devices[0].taken);
    }

    #[test]
    fn lease_warnings_are_logged_after_the_planner_lock_is_released() {
        let folder = testkit::Folder::new();
        let runtime = runtime(&folder.at("leases"), 1);
        // The record of this member has no room for another lease.
        let membership = &runtime.peers.as_ref().unwrap().membership;
        let leases: Vec<_> = std::iter::repeat_with(|| membership.lock().unwrap().lease(0, None, 0))
            .map_while(Result::ok)
            .collect();
        assert!(leases.len() > 100);
        let task = Task { work: Some(1.0), ..Task::new(|_: &Exec<'_>| Ok(())) };
        runtime.lock().planner.submit(task, &mut Effects::default()).unwrap();
        let _ = log::set_logger(&LockProbe);
        log::set_max_level(LevelFilter::Warn);
        *lock(&PROBED) = Arc::downgrade(&runtime);
        let worker = WorkerLocal::enter(&runtime, 0);
        let (_, lease) = take_planned(&worker, false).expect("the task begins without a lease");
        assert!(lease.is_none());
        *lock(&PROBED) = Weak::new();
        worker.leave();
        let mut logged = std::mem::take(&mut *lock(&LOGGED));
        logged.retain(|(text, _)| text.contains("the number of leases"));
        assert!(matches!(logged[..], [(_, true)]), "{logged:?}");
    }
}
