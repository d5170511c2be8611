//! The interface to the scheduler: join, read the queue, lease a slot, request one.

use std::path::Path;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use super::member::{LocalMember, TableState};
use super::{folder, layout, sys};
use crate::error::{Error, Result};
use crate::node::queue::{self, DeviceAvailability, HeldSlot};
use crate::node::request::{NodePolicy, RequestedTask, SharedDevice, SlotRequest, WaitEnd};

/// A scheduler's membership of its node.
///
/// Dropping it is the same as [`leave`](Membership::leave). In a forked child every call returns
/// [`Error::Forked`] or does nothing.
#[derive(Debug)]
pub struct Membership {
    member: Arc<LocalMember>,
}

impl Membership {
    /// Joins the schedulers of this user on this node. Returns `Ok(None)` if leases are switched
    /// off.
    ///
    /// `folder`: folder of the table; takes precedence over `GPUSCHED_LEASE_DIR` and the defaults.
    /// `devices`: by the scheduler's index; `None`: not shared (the CPU).
    ///
    /// Fails if the folder or the file in it is refused, or if the disk is full. Limits of a table
    /// are 256 schedulers and 64 devices together; beyond them it fails, too.
    pub fn join(
        folder: Option<&Path>,
        devices: &[Option<SharedDevice<'_>>],
        policy: NodePolicy,
    ) -> Result<Option<Membership>> {
        let Some(candidates) = folder::candidates(folder)? else { return Ok(None) };
        if let Some(device) = devices.iter().flatten().find(|device| !layout::is_uuid(device.uuid)) {
            let accepted = "1 to 95 printable ASCII characters without blanks";
            return Err(Error::argument("the UUID of a device", format!("{:?}", device.uuid), accepted));
        }
        Ok(Some(Membership { member: Arc::new(LocalMember::join(candidates, devices, policy)?) }))
    }

    /// Ends the member's wait and takes it out of the node, now or when its last [`SlotLease`] is
    /// dropped. Its files are closed then, later calls do nothing, and [`lock`](Membership::lock)
    /// fails. The thread must not have the table locked.
    pub fn leave(&self) {
        self.member.update(self.member.policy.lock_timeout, |own| {
            own.end_wait();
            own.is_leaving = true;
        });
    }

    /// Locks the table for the calling thread: until the result is dropped, no other member or
    /// thread reads or changes it. Meant for microseconds; the thread must not call it again
    /// meanwhile.
    ///
    /// Fails if another member keeps the table locked for too long (its process is stopped), and
    /// if the file is not valid any more.
    pub fn lock(&self) -> Result<LockedTable<'_>> {
        let state = self.member.lock()?;
        Ok(LockedTable { member: &self.member, state })
    }

    /// Sleeps until another member changes the table or ends, the timeout passes, or
    /// [`Membership::wake`] is called. It also returns twice in the stall limit, so that a waiting
    /// member reads the queue. For one thread at a time.
    pub fn wait(&self, timeout: Option<Duration>) -> WaitEnd {
        if !self.member.is_here() {
            return WaitEnd::Woken;
        }
        // Less than the limit, so only a waiter whose process is stopped exceeds it.
        let longest = self.member.policy.stall_ns() / 2;
        let session = self.member.session();
        session.listener.wait(&session.file, &session.path, longest, timeout)
    }

    /// Ends the current wait, or else the next one, at once.
    pub fn wake(&self) {
        if self.member.is_here() {
            self.member.session().listener.wake();
        }
    }

    /// Returns true if a change of this member's record is not written yet, because another member
    /// kept the table locked for too long. A returned lease is such a change.
    pub fn is_behind(&self) -> bool {
        self.member.is_behind()
    }

    /// Writes such changes, unless another member has the table locked.
    pub fn catch_up(&self) {
        self.member.catch_up();
    }

    /// Returns the folder of the table at the time of joining.
    pub fn folder(&self) -> &Path {
        &self.member.folder
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The locked table. Dropping it writes the changes and unlocks the table.
#[derive(Debug)]
pub struct LockedTable<'a> {
    member: &'a Arc<LocalMember>,
    state: MutexGuard<'a, TableState>,
}

impl LockedTable<'_> {
    /// Returns what other members leave free on each device, by the scheduler's device index. The
    /// entry of a device that is not shared is empty.
    pub fn availability(&mut self) -> Vec<DeviceAvailability> {
        let (now, seconds) = (sys::now(), self.seconds_per_cost());
        let TableState { own, others, stalled, header, last_look, was_ready, .. } = &mut *self.state;
        // By this limit others have skipped it as stopped.
        let was_stopped = now.saturating_sub(*last_look) > self.member.policy.stall_ns();
        *last_look = now;
        let view = stalled.view(others, &own.record, header.devices, seconds, now);
        // Another has begun in its place. It lives, so others wait for it the next time.
        let was_passed = std::mem::replace(was_ready, view.is_ready) && !view.is_ready;
        if own.record.waits() && (was_stopped || was_passed) {
            own.record.resumptions = own.record.resumptions.wrapping_add(1);
            own.dirty = true;
        }
        self.member.session().listener.set_stall_deadline(stalled.next_deadline(now));
        let availability = |entry: &Option<usize>| {
            let device = own.record.devices.get((*entry)?)?.device;
            view.devices.get(device).cloned()
        };
        self.member.entries.iter().map(|entry| availability(entry).unwrap_or_default()).collect()
    }

    /// Sets the maximum number of tasks at a time that this member accepts on a device.
    pub fn set_slots(&mut self, device: usize, slots: u32) {
        if let Some(Some(entry)) = self.member.entries.get(device) {
            let (own, slots) = (&mut self.state.own, slots.min(layout::MAX_SLOTS));
            own.dirty |= own.record.devices[*entry].slots != slots;
            own.record.devices[*entry].slots = slots;
        }
    }

    /// Returns the number of other members.
    pub fn other_members(&self) -> usize {
        self.state.others.len()
    }

    /// Returns the seconds per unit of cost that [`availability`](LockedTable::availability) uses:
    /// the [measured](LockedTable::measured_seconds_per_cost) value, or else an estimate from the
    /// ages of the running tasks.
    pub fn seconds_per_cost(&self) -> f64 {
        let members = self.state.others.iter().chain([&self.state.own.record]);
        queue::seconds_per_cost(self.state.header.seconds_per_cost, members, sys::now())
    }

    /// Leases a slot of a device and memory there. If another member holds a slot of the device or
    /// waits for it, or the member requests no other task, this ends its wait: its next request
    /// draws a new ticket. The caller has checked by [`availability`](LockedTable::availability)
    /// that a slot is free. `cost`: of the task on that device; `None`: not known.
    ///
    /// Fails if the device is not shared, or the record can't be written or is full (a record holds
    /// at least 170 slots). The member then keeps its place in the queue.
    pub fn lease(&mut self, device: usize, cost: Option<f64>, bytes: u64) -> Result<SlotLease> {
        let member = self.member;
        let Some(entry) = member.entries.get(device).copied().flatten() else {
            return Err(Error::argument("the device to lease", device, "the index of a shared device"));
        };
        let TableState { own, others, .. } = &mut *self.state;
        let before = own.record.clone();
        let held = own.record.held_slots.len();
        let most = layout::max_held_slots(own.record.devices.len());
        if held >= most {
            return Err(Error::argument("the number of leases", held + 1, format!("1 to {most}")));
        }
        let device = own.record.devices[entry].device;
        let (started_ns, cost) = (sys::now(), cost.map(layout::clamp_cost));
        let key = own.add(HeldSlot { device, started_ns, cost, bytes, used_bytes: 0 });
        own.record.begin_on(device, others);
        if let Err(error) = member.write(&mut self.state) {
            self.state.own.record = before;
            self.state.own.keys.pop();
            return Err(member.session().error(error));
        }
        Ok(SlotLease { member: Arc::clone(member), key })
    }

    /// Sets what this member waits for. The first request draws a ticket, which the member keeps
    /// until [`lease`](LockedTable::lease) ends the wait or a request of `None` does.
    pub fn request(&mut self, request: Option<SlotRequest>) {
        let state = &mut *self.state;
        let own = &mut state.own;
        let Some(request) = request else { return own.end_wait() };
        let mut record = own.record.clone();
        for (device, entry) in self.member.entries.iter().enumerate() {
            let Some(entry) = entry.and_then(|entry| record.devices.get_mut(entry)) else { continue };
            let task = request.0.get(device).copied().flatten();
            entry.task = task.map(|task| RequestedTask { cost: layout::clamp_cost(task.cost), ..task });
        }
        if record.ticket == 0 {
            record.ticket = state.header.next_ticket;
            state.header.next_ticket += 1;
            // The wait begins now, so the member has not missed a read of the queue.
            (state.last_look, state.was_ready) = (sys::now(), false);
        }
        own.dirty |= own.record != record;
        own.record = record;
    }

    /// Takes the tasks out of the request whose numbers `is_wanted` refuses. The wait ends if nothing
    /// is left of it.
    pub fn retain_tasks(&mut self, is_wanted: impl Fn(u32) -> bool) {
        let own = &mut self.state.own;
        if !own.record.waits() {
            return;
        }
        let mut record = own.record.clone();
        record.retain_tasks(is_wanted);
        own.dirty |= own.record != record;
        own.record = record;
    }

    /// Publishes the measured seconds per unit of cost. Values outside 1e-30 to 1e30 are ignored.
    pub fn report_seconds_per_cost(&mut self, seconds: f64) {
        let Some(seconds) = layout::valid_cost(seconds) else { return };
        if self.state.header.seconds_per_cost.replace(seconds) != Some(seconds) {
            self.state.own.dirty = true;
        }
    }

    /// Returns the measured seconds per unit of cost. `None`: no member has measured it.
    pub fn measured_seconds_per_cost(&self) -> Option<f64> {
        self.state.header.seconds_per_cost
    }
}

impl Drop for LockedTable<'_> {
    fn drop(&mut self) {
        self.member.unlock(&mut self.state);
    }
}

/// A leased slot of a device, with memory there.
///
/// Dropping it returns the lease, on any thread that has not locked the table. The end of the
/// process returns it, too.
#[derive(Debug)]
pub struct SlotLease {
    member: Arc<LocalMember>,
    key: u64,
}

impl SlotLease {
    /// Sets how many of the reserved bytes are allocated, so that others count them once: as used,
    /// not also as reserved. Others see it at once, or when a thread of this member next locks the
    /// table. The calling thread must not have it locked.
    pub fn set_used_bytes(&self, bytes: u64) {
        self.member.set_used_bytes(self.key, bytes);
    }
}

impl Drop for SlotLease {
    fn drop(&mut self) {
        self.member.update(self.member.policy.lock_timeout, |own| own.remove(self.key));
    }
}
