//! What the processes of a node have to do with each other. Before a planned task begins on a device that
//! they share, and before a worker turns to light tasks there, the node is asked for a slot of it; what others have, or
//! will have before us, is told to the plan, and where that keeps a task from its device the scheduler stands in
//! line, with one thread that looks up when something changes.
//!
//! Locks: the node's door before the book, never the other way.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::peers::{NodeAccess, Peers};
use super::shared::{PlannerGuarded, Runtime};
use crate::backend::thread;
use crate::error::Error;
use crate::node::{LockedTable, SlotRequest};
use crate::sched::base::reservation::DeviceLease;
use crate::sched::base::sync::lock;
use crate::sched::base::task_id::TaskId;
use crate::sched::plan::effects::Effects;
use crate::sched::plan::peer_load::ResourceRequest;

/// How often those who wait look without having been called.
const LOOK: Duration = Duration::from_secs(1);
/// What a slice of light tasks takes, for those who plan: in seconds.
const LIGHT: f64 = 0.1;

impl Runtime {
    /// Bit i: other processes have all of device i.
    pub fn taken(&self) -> u64 {
        self.peers.as_ref().map_or(0, |node| node.taken.load(Ordering::SeqCst))
    }

    /// Whether a device is one that processes share.
    pub fn shares(&self, device: usize) -> bool {
        self.peers.as_ref().is_some_and(|node| node.shares(device))
    }

    /// Whether others wait for a device.
    pub fn is_contended(&self, device: usize) -> bool {
        let contended = self.peers.as_ref().map_or(0, |node| node.contended.load(Ordering::Relaxed));
        contended >> device & 1 == 1
    }

    /// To be asked for without the book.
    pub fn door(&self, device: usize) -> NodeAccess<'_> {
        let node = self.peers.as_ref().filter(|node| node.shares(device));
        let open = node.and_then(|node| Some(NodeAccess::Open(node, node.inside(self.clock())?)));
        open.unwrap_or(NodeAccess::Alone)
    }

    /// Whether there are others on the node to whom what is kept of a device for reuse would be of use.
    pub fn has_neighbours(&self, device: usize) -> bool {
        let node = self.peers.as_ref().filter(|node| node.shares(device));
        node.and_then(|node| node.inside(self.clock())).is_some_and(|inside| inside.other_members() > 0)
    }

    /// Tells the plan what others have. True: a device that they had is free again.
    pub fn look_at_others(
        &self,
        node: &Peers,
        inside: &mut LockedTable<'_>,
        guard: &mut PlannerGuarded,
    ) -> bool {
        let now = self.now();
        for index in (0..self.devices.len()).filter(|&index| node.shares(index)) {
            node.node.set_slots(index, guard.planner.slots(index));
        }
        guard.planner.set_has_peers(inside.other_members() > 0);
        let (mut taken, mut contended) = (0, 0);
        for (index, mut outlook) in inside.availability().into_iter().enumerate() {
            if !node.shares(index) {
                continue;
            }
            taken |= u64::from(outlook.busy_slots.len() >= guard.planner.slots(index) as usize) << index;
            contended |= u64::from(outlook.waiters > 0) << index;
            // What its own light tasks hold the plan does not know.
            let lit = node.lit[index].load(Ordering::SeqCst) as usize;
            outlook.busy_slots.resize(outlook.busy_slots.len() + lit, 0.0);
            guard.planner.set_others(now, index, &outlook.busy_slots, outlook.pending_bytes);
        }
        node.contended.store(contended, Ordering::Relaxed);
        node.taken.swap(taken, Ordering::SeqCst) & !taken != 0
    }

    /// Stands in line for what is ready and others keep from its device, or no more. False: nobody can, and others have
    /// nothing from now on, for a while.
    pub fn queue_up(
        self: &Arc<Self>,
        node: &Peers,
        inside: &mut LockedTable<'_>,
        guard: &mut PlannerGuarded,
    ) -> bool {
        let worth = inside.seconds_per_cost();
        let light = || {
            let taken = node.taken.load(Ordering::SeqCst);
            let there = taken != 0 && !self.light.queues.is_empty();
            let cost = |index: usize| (taken >> index & 1 == 1).then_some(LIGHT / worth);
            let count = self.devices.len();
            there.then(|| ResourceRequest {
                priority: 0,
                costs: (0..count).map(cost).collect(),
                bytes: vec![0; count],
            })
        };
        let desire = guard.planner.desire().or_else(light);
        // What others no longer keep from it has still to be taken, by the place in the line that it was given.
        let waits = desire.is_some();
        let has_nothing = !guard.planner.has_ready_tasks() && self.light.queues.is_empty();
        if !waits && !has_nothing {
            return true;
        }
        inside.request(desire.map(|ResourceRequest { priority, costs, bytes }| SlotRequest {
            priority,
            costs,
            bytes,
        }));
        if !waits {
            lock(&node.line).waits = false;
        }
        // Light tasks that have come meanwhile found somebody who still waited.
        let light_waits = || node.taken.load(Ordering::SeqCst) != 0 && !self.light.queues.is_empty();
        if !(waits || light_waits()) || self.stand_in_line() {
            return true;
        }
        inside.request(None);
        self.forget_others(guard);
        false
    }

    /// As if there were none.
    pub fn forget_others(&self, guard: &mut PlannerGuarded) {
        (0..self.devices.len()).for_each(|index| guard.planner.set_others(Duration::ZERO, index, &[], 0));
    }

    /// A slot for a planned task that begins.
    pub fn hold_for(
        &self,
        inside: &mut LockedTable<'_>,
        guard: &PlannerGuarded,
        device: usize,
        id: TaskId,
    ) -> Option<DeviceLease> {
        let terms = guard.planner.lease_terms(id, device)?;
        if let Some(scale) = terms.unit_scale {
            inside.report_seconds_per_cost(scale);
        }
        DeviceLease::new(inside, device, terms.cost, terms.bytes)
    }

    /// A slot for light tasks. `None`: others have all, or the door does not open.
    pub fn hold_for_light(self: &Arc<Self>, device: usize) -> Option<Option<LightLease>> {
        let (node, mut inside) = match self.door(device) {
            NodeAccess::Alone => return Some(None),
            NodeAccess::Open(node, inside) => (node, inside),
        };
        let mut guard = self.lock();
        self.look_at_others(node, &mut inside, &mut guard);
        if guard.planner.is_full(device) {
            node.taken.fetch_or(1 << device, Ordering::SeqCst);
            let queued = self.queue_up(node, &mut inside, &mut guard);
            return (!queued).then_some(None);
        }
        drop(guard);
        let cost = LIGHT / inside.seconds_per_cost();
        let Some(held) = DeviceLease::new(&mut inside, device, Some(cost), 0) else { return Some(None) };
        node.lit[device].fetch_add(1, Ordering::SeqCst);
        Some(Some(LightLease { held: Some(held), shared: self.clone(), device, since: self.clock() }))
    }

    /// Somebody looks up from now on when others have changed something, until nothing is waited for. False: there is no
    /// thread for it, and who would wait is to go on, or it would wait for ever.
    #[must_use]
    pub fn stand_in_line(self: &Arc<Self>) -> bool {
        let Some(node) = &self.peers else { return true };
        let mut line = lock(&node.line);
        if std::mem::replace(&mut line.waits, true) {
            return true;
        }
        if line.watched {
            node.called.notify_all();
            return true;
        }
        let shared = self.clone();
        match thread::spawn("gpusched node".into(), None, move || watch(&shared)) {
            Ok(thread) => {
                line.watched = true;
                self.pool.add_thread(thread);
                true
            }
            Err(error) => {
                // Whoever comes next tries again.
                line.waits = false;
                let why = error.to_string();
                node.shut(self.clock(), &Error::NoThread { purpose: "to watch them", why });
                false
            }
        }
    }
}

/// A slot of a device that is held for light tasks.
pub struct LightLease {
    held: Option<DeviceLease>,
    shared: Arc<Runtime>,
    device: usize,
    /// When it was taken.
    pub since: u64,
}

impl Drop for LightLease {
    fn drop(&mut self) {
        self.held = None;
        if let Some(node) = &self.shared.peers {
            node.lit[self.device].fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// The thread that stands in line, until the scheduler has stopped.
fn watch(shared: &Arc<Runtime>) {
    let Some(node) = &shared.peers else { return };
    loop {
        let over = || shared.light.is_stopping() && !shared.pool.has_worker();
        let mut line = lock(&node.line);
        while !line.waits && !over() {
            line = node.called.wait(line).unwrap_or_else(PoisonError::into_inner);
        }
        drop(line);
        if over() {
            return;
        }
        let Some(mut inside) = node.inside(shared.clock()) else {
            let mut guard = shared.lock();
            shared.forget_others(&mut guard);
            lock(&node.line).waits = false;
            shared.apply_effects(guard, Effects::at(shared.now()));
            continue;
        };
        let mut guard = shared.lock();
        let opened = shared.look_at_others(node, &mut inside, &mut guard);
        // It does not fail: this is who looks up.
        let _ = shared.queue_up(node, &mut inside, &mut guard);
        drop(inside);
        shared.apply_effects(guard, Effects::at(shared.now()));
        if opened && !shared.light.queues.is_empty() {
            shared.wake_any_worker();
        }
        if lock(&node.line).waits {
            node.node.wait(Some(LOOK));
        }
    }
}
