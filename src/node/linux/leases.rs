//! What the scheduler calls: joining, looking, taking, giving back.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use super::ear::Ear;
use super::member::{Desk, Seat};
use super::{folder, layout, sys};
use crate::error::{Error, Result};
use crate::node::line::{self, Held, Outlook};
use crate::node::{Device, Want, Woken};

/// Nanoseconds without a look after which a member that waits knows that it was stopped. Others pass a waiter that
/// has not taken its turn for [`line::PATIENCE`], so one that they have passed has missed as much.
const MISSED: u64 = line::PATIENCE;

/// A scheduler's membership of its node. Dropping it ends its wait, and it leaves when the last [`Hold`] is
/// dropped, too. In a forked child it is of no use: every call is [`Error::Forked`] or does nothing.
#[derive(Debug)]
pub struct Node {
    seat: Arc<Seat>,
    ear: Ear,
}

impl Node {
    /// Joins the schedulers of this user on this node. `folder`: where the leases are kept, before `GPUSCHED_LEASE_DIR` and what is usual.
    /// `devices`: by the scheduler's index; `None`: not shared (the CPU). `Ok(None)`: it is switched off.
    ///
    /// Fails where the folder or the file in it will not do, where 256 schedulers use it already, where they
    /// know more than 64 devices together, and where the disk is full.
    pub fn join(folder: Option<&Path>, devices: &[Option<Device<'_>>]) -> Result<Option<Node>> {
        let Some(candidates) = folder::candidates(folder)? else { return Ok(None) };
        let seat = Arc::new(Seat::join(candidates, devices)?);
        Ok(Some(Node { seat, ear: Ear::new()? }))
    }

    /// How many tasks may run on a device at a time, as this member will have it. Written down at the next
    /// time that somebody is inside.
    pub fn set_slots(&self, device: usize, slots: u32) {
        if !self.seat.is_here() {
            return;
        }
        if let Some(Some(place)) = self.seat.places.get(device) {
            let slots = slots.min(layout::SLOTS);
            let mut book = self.seat.book();
            book.changed |= book.member.places[*place].slots != slots;
            book.member.places[*place].slots = slots;
        }
    }

    /// Takes the door: until the result is dropped no other member looks or takes, and no other thread gets
    /// in. Meant for microseconds; a thread that is inside must not ask again. Fails when another member has not left for ten
    /// seconds (its process is stopped), and when the file is no longer what it was.
    pub fn inside(&self) -> Result<Inside<'_>> {
        let desk = self.seat.enter()?;
        Ok(Inside { seat: &self.seat, desk: Some(desk) })
    }

    /// Sleeps until another member has changed something or is gone, the time is up, or [`Node::wake`] was called. A member that
    /// waits for its turn is told to look twice a second, though nothing has changed. For one thread at a time.
    pub fn wait(&self, timeout: Option<Duration>) -> Woken {
        self.ear.wait(&self.seat, timeout)
    }

    /// Ends the wait that is going on, or else the next one, at once.
    pub fn wake(&self) {
        self.ear.wake();
    }

    /// Where the leases are, or were when it joined.
    pub fn folder(&self) -> &Path {
        &self.seat.folder
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if !self.seat.is_here() {
            return;
        }
        self.seat.book().end_wait();
        // Who holds nothing leaves now, and needs to say nothing before.
        if Arc::strong_count(&self.seat) > 1 {
            self.seat.settle_patiently();
        }
    }
}

/// A look at the node that nobody changes meanwhile. Dropped, it writes what it has changed, and leaves.
#[derive(Debug)]
pub struct Inside<'a> {
    seat: &'a Arc<Seat>,
    /// There until it is dropped.
    desk: Option<MutexGuard<'a, Desk>>,
}

impl Inside<'_> {
    /// What others leave, by the scheduler's device index; nothing of anybody where a device is not shared.
    pub fn outlook(&mut self) -> Vec<Outlook> {
        let now = sys::now();
        let seconds = self.seconds_per_cost();
        let Some(desk) = &mut self.desk else { return Vec::new() };
        let mut book = self.seat.book();
        if book.member.waits() && now.saturating_sub(desk.looked) > MISSED {
            book.member.revived = book.member.revived.wrapping_add(1);
            book.changed = true;
        }
        desk.looked = now;
        let Desk { others, stopped, head, .. } = &mut **desk;
        let view = stopped.view(others, &book.member, head.devices, seconds, now);
        self.seat.due.store(stopped.next(now).unwrap_or(0), Ordering::Relaxed);
        let outlook = |place: &Option<usize>| {
            let device = book.member.places.get((*place)?)?.device;
            view.outlooks.get(device).cloned()
        };
        self.seat.places.iter().map(|place| outlook(place).unwrap_or_default()).collect()
    }

    /// How many other members there are.
    pub fn others(&self) -> usize {
        self.desk.as_ref().map_or(0, |desk| desk.others.len())
    }

    /// Seconds per unit of cost that [`Inside::outlook`] reckons with: what is [known](Inside::worth), or else a guess
    /// from how long those that run have taken so far.
    pub fn seconds_per_cost(&self) -> f64 {
        let Some(desk) = &self.desk else { return 1.0 };
        let book = self.seat.book();
        line::seconds(desk.head.worth, desk.others.iter().chain([&book.member]), sys::now())
    }

    /// Takes a slot of a device and reserves memory there, and ends this member's wait: for its next task it
    /// draws a new ticket. Whether the slot is free is for the caller to have seen, in the same look. `cost`: of the task on that
    /// device, in the common unit; `None`: not known. Nothing is leased of a device that is not shared.
    ///
    /// Fails where it can't be written, and where the member holds more than there is room for (at least 170).
    /// Then its wait goes on.
    pub fn hold(&mut self, device: usize, cost: Option<f64>, bytes: u64) -> Result<Hold> {
        let seat = self.seat;
        let Some(place) = seat.places.get(device).copied() else {
            let accepted = format!("0 to {}", seat.places.len().saturating_sub(1));
            return Err(Error::argument("the device to lease", device, accepted));
        };
        let (Some(desk), Some(place)) = (&mut self.desk, place) else {
            return Ok(Hold { seat: Arc::clone(seat), key: None });
        };
        let mut book = seat.book();
        let before = book.member.clone();
        let (holds, room) = (book.member.holds.len(), layout::room(book.member.places.len()));
        if holds >= room {
            return Err(Error::argument("the number of leases", holds + 1, format!("1 to {room}")));
        }
        let device = book.member.places[place].device;
        let begun = sys::now();
        let cost = cost.map(layout::nearest);
        let key = book.add(Held { device, begun, cost, bytes, in_use: 0 });
        book.end_wait();
        if let Err(error) = seat.write(desk, &mut book) {
            book.member = before;
            book.keys.pop();
            return Err(seat.sitting().no(error));
        }
        Ok(Hold { seat: Arc::clone(seat), key: Some(key) })
    }

    /// What this member waits for. The first one draws a ticket, which is kept until [`Inside::hold`] or `None`.
    pub fn want(&mut self, want: Option<Want>) {
        let Some(desk) = &mut self.desk else { return };
        let mut book = self.seat.book();
        let Some(want) = want else { return book.end_wait() };
        let mut member = book.member.clone();
        for (device, place) in self.seat.places.iter().enumerate() {
            let Some(place) = place.and_then(|place| member.places.get_mut(place)) else { continue };
            place.cost = want.costs.get(device).copied().flatten().map(layout::nearest);
            place.bytes = want.bytes.get(device).copied().unwrap_or(0);
        }
        member.priority = want.priority;
        if member.ticket == 0 {
            member.ticket = desk.head.next_ticket;
            desk.head.next_ticket += 1;
            // Nobody has seen it stand here before.
            desk.looked = sys::now();
        }
        book.changed |= book.member != member;
        book.member = member;
    }

    /// Tells everybody how many seconds a unit of cost takes. What can't be is left out.
    pub fn learned(&mut self, worth: f64) {
        let (Some(desk), Some(worth)) = (&mut self.desk, layout::sane(worth)) else { return };
        if desk.head.worth != Some(worth) {
            desk.head.worth = Some(worth);
            self.seat.book().changed = true;
        }
    }

    /// Seconds per unit of cost, once somebody has measured it.
    pub fn worth(&self) -> Option<f64> {
        self.desk.as_ref().and_then(|desk| desk.head.worth)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let Some(desk) = self.desk.take() else { return };
        if self.seat.close(desk) {
            // What other threads have changed meanwhile, and left to this one.
            self.seat.settle_patiently();
        }
    }
}

/// A slot of a device, and memory there. Gives itself back when it is dropped, on any thread, also while a thread
/// is inside, and with the process, however that ends.
#[derive(Debug)]
pub struct Hold {
    seat: Arc<Seat>,
    /// `None`: nothing is held.
    key: Option<u64>,
}

impl Hold {
    /// How many bytes of the reservation are allocated by now, so that nobody counts them twice: as
    /// reserved, and as not free any more. Others see it at once, or when somebody of this process is next inside.
    pub fn in_use(&self, bytes: u64) {
        let Some(key) = self.key.filter(|_| self.seat.is_here()) else { return };
        self.seat.book().use_of(key, bytes);
        self.seat.settle(Duration::ZERO);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let Some(key) = self.key.filter(|_| self.seat.is_here()) else { return };
        self.seat.book().remove(key);
        self.seat.settle_patiently();
    }
}
