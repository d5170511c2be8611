//! A range while it is worked on: its host, its guests, and how it ends.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::chunk_sizer::ChunkSizer;
use super::partitioner::{Partitioner, Share, length};
use crate::device::BackendKind;
use crate::error::{DeviceFault, Error, Result};
use crate::memory::{Lease, Ledger};
use crate::sched::base::device_mask::DeviceMask;
use crate::sched::base::exec::{Exec, Job};
use crate::sched::base::signal::Completion;
use crate::sched::base::task::{Role, Task};
use crate::sched::base::task_id::TaskId;
use crate::sched::runtime::shared::Runtime;
use crate::sched::runtime::worker_local::catch_panic;
use crate::sched::sleep::wait_queues::HELPERS_NEEDED;

/// The code of a range. It is called for pieces of it, at the same time on all devices, for each element
/// in exactly one piece that ended well.
pub type RangeJob = dyn Fn(&Exec<'_>, Range<u64>) -> Result<()> + Send + Sync;

/// So long a guest stays though others wait for its slot.
const STAY: Duration = Duration::from_millis(10);
/// Elements under which the contexts of so many devices were poisoned are to blame, and those with which so many devices
/// were lost.
const POISONED: u32 = 2;
const LOST: u32 = 3;

/// What an invitation has in common with the range.
pub struct TaskTemplate {
    pub label: String,
    pub device_bytes: u64,
    pub priority: i32,
    pub devices: DeviceMask,
    pub backends: Vec<BackendKind>,
}

pub struct RangeRun {
    shared: Weak<Runtime>,
    like: TaskTemplate,
    total: u64,
    done: AtomicU64,
    pace: ChunkSizer,
    /// An invitation is queued.
    invited: AtomicBool,
    /// Participants at work, and the most that make sense: one a slot.
    present: AtomicUsize,
    slots: usize,
    /// No new piece begins.
    stopped: AtomicBool,
    /// When a participant has left, the range's task is rung.
    table: Mutex<RangeState>,
}

struct RangeState {
    field: Partitioner,
    /// Gone when the range has ended.
    code: Option<Arc<RangeJob>>,
    /// While the host is in: what the guests are told.
    host: Option<OwnerTask>,
    /// The devices of those at work.
    seats: Vec<usize>,
    /// The range ends with this.
    failure: Option<Error>,
    /// Pieces under which devices failed, and which.
    lost: Vec<(usize, Range<u64>)>,
    /// Devices on which a single element did not fit.
    too_small: DeviceMask,
    /// Devices that left the rest to faster ones.
    declined: DeviceMask,
    invitation: Option<TaskId>,
}

#[derive(Clone)]
struct OwnerTask {
    task: TaskId,
    attempt: u32,
    signal: Arc<Completion>,
}

/// Why a participant stopped.
enum StopReason {
    /// There is nothing to take.
    Nothing,
    /// The others do the rest sooner.
    Declined,
    /// The range ends, or the host is leaving.
    Stopped,
    /// A single element does not fit here.
    NoRoom(Error),
    /// The device failed; it is to be told.
    Broken(Error),
}

/// The task that is the range.
pub struct RangeOwner(pub Arc<RangeRun>);

/// The task that a worker comes by to help.
struct HelperJob(Arc<RangeRun>);

impl RangeRun {
    pub fn new(
        shared: &Arc<Runtime>,
        all: Range<u64>,
        grain: Option<u64>,
        code: Box<RangeJob>,
        like: TaskTemplate,
    ) -> Arc<Self> {
        let slots = shared.lock().planner.slots_of(like.devices, &like.backends);
        Arc::new(RangeRun {
            shared: Arc::downgrade(shared),
            like,
            total: length(&all),
            done: AtomicU64::new(0),
            pace: ChunkSizer::new(grain, shared.devices.len()),
            invited: AtomicBool::new(false),
            present: AtomicUsize::new(0),
            slots,
            stopped: AtomicBool::new(true),
            table: Mutex::new(RangeState {
                field: Partitioner::new(all),
                code: Some(code.into()),
                host: None,
                seats: Vec::new(),
                failure: None,
                lost: Vec::new(),
                too_small: DeviceMask(0),
                declined: DeviceMask(0),
                invitation: None,
            }),
        })
    }

    /// A task with what all tasks of the range have in common.
    pub fn task(&self, job: impl Job + 'static, role: Role) -> Task {
        Task {
            label: self.like.label.clone(),
            device_bytes: self.like.device_bytes,
            priority: self.like.priority,
            devices: self.like.devices,
            backends: self.like.backends.clone(),
            role,
            ..Task::new(job)
        }
    }

    fn table(&self) -> MutexGuard<'_, RangeState> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire) == self.total
    }

    /// Works on the range until there is a reason to leave; only while a host is in.
    fn take_part(self: &Arc<Self>, shared: &Arc<Runtime>, exec: &Exec<'_>, role: Role) -> StopReason {
        let mut table = self.table();
        let (Some(hosted), Some(code)) = (table.host.clone(), table.code.clone()) else {
            return StopReason::Stopped;
        };
        let share = table.field.join();
        table.seats.push(exec.device_index);
        drop(table);
        self.present.fetch_add(1, Ordering::Relaxed);
        let seat = Participant { work: self, shared, task: hosted.task, share, device: exec.device_index };
        let own = Exec { task: hosted.task, attempt: hosted.attempt, signal: &hosted.signal, ..*exec };
        let left = shared.as_part_of(hosted.task, || self.pieces(shared, &own, role, &seat.share, &*code));
        // Before the seat is free: the host may end the range then, and the code goes with it.
        drop(code);
        left
    }

    fn pieces(
        self: &Arc<Self>,
        shared: &Arc<Runtime>,
        exec: &Exec<'_>,
        role: Role,
        share: &Arc<Share>,
        code: &RangeJob,
    ) -> StopReason {
        let device = exec.device_index;
        let bytes = self.like.device_bytes;
        let ledger = (bytes > 0).then(|| shared.lock().planner.ledger(device));
        let mut elsewhere = false;
        let came = Instant::now();
        loop {
            if self.stopped.load(Ordering::Acquire) || exec.cancelled() {
                return StopReason::Stopped;
            }
            if role == Role::Guest && came.elapsed() > STAY && shared.others_wait() {
                return StopReason::Nothing;
            }
            if self.pace.is_slow(device) && self.others_are_sooner(device) {
                return StopReason::Declined;
            }
            let mut lease = None;
            let frugal = ledger.is_some() && shared.gives_way(device);
            let taken = share.take(|there| {
                let wanted = if frugal { 1 } else { self.pace.size(device, there).min(there) };
                let (size, more) = self.room(ledger.as_ref(), wanted);
                lease = more;
                size
            });
            let Some((piece, rest)) = taken else {
                let mut table = self.table();
                if !table.field.fill(share, self.pace.grain()) {
                    return StopReason::Nothing;
                }
                elsewhere = table.field.left_beside(share);
                continue;
            };
            if rest > 0 || std::mem::take(&mut elsewhere) {
                self.invite(shared);
            }
            let begun = Instant::now();
            let outcome = catch_panic(|| code(exec, piece.clone())).and(exec.lane.finish());
            drop(lease);
            let elements = length(&piece);
            let error = match outcome {
                Ok(()) => {
                    self.pace.learn(device, elements, begun.elapsed().as_secs_f64());
                    let done = self.done.fetch_add(elements, Ordering::AcqRel) + elements;
                    exec.signal.report(done as f64 / self.total as f64);
                    continue;
                }
                Err(error) => error,
            };
            if error.is_shortage() {
                exec.lane.relieve();
            }
            if error == Error::Cancelled && exec.cancelled() {
                // As it was asked to, by a cancel, a deadline, or another copy that has done it: why, the plan knows.
                self.table().field.give_back(piece);
                return StopReason::Stopped;
            }
            match self.judge(device, piece, error) {
                Some(left) => return left,
                None => continue,
            }
        }
    }

    /// As many elements, of those wanted, as there is memory for, the first of which the task has leased.
    fn room(&self, ledger: Option<&Arc<Ledger>>, wanted: u64) -> (u64, Option<Lease>) {
        let Some(ledger) = ledger else { return (wanted, None) };
        let mut size = wanted;
        while size > 1 {
            let more = self.like.device_bytes.checked_mul(size - 1).and_then(|bytes| ledger.lease(bytes));
            if more.is_some() {
                return (size, more);
            }
            size /= 2;
        }
        (1, None)
    }

    /// A piece did not end well. `None`: the participant goes on.
    fn judge(&self, device: usize, piece: Range<u64>, error: Error) -> Option<StopReason> {
        let mut table = self.table();
        match error {
            error if error.is_shortage() => {
                let fewer = self.pace.halve(device, length(&piece));
                table.field.give_back(piece.clone());
                if fewer {
                    return None;
                }
                table.too_small.0 |= 1 << device;
                table.declined = DeviceMask(0);
                Some(StopReason::NoRoom(error.in_elements(piece)))
            }
            Error::Device { fault, .. } => {
                let most = match fault {
                    DeviceFault::Poisoned => POISONED,
                    DeviceFault::Lost => LOST,
                };
                let error = error.in_elements(piece.clone());
                table.lost.push((device, piece.clone()));
                let meets = |other: &Range<u64>| other.start < piece.end && piece.start < other.end;
                let blamed = table.lost.iter().filter(|(_, other)| meets(other));
                let devices = blamed.fold(0_u64, |devices, (device, _)| devices | 1 << device);
                if devices.count_ones() >= most {
                    let (begin, end) = (piece.start, piece.end);
                    let why = Box::new(error.clone());
                    table.failure.get_or_insert(Error::Elements { begin, end, why });
                    self.stopped.store(true, Ordering::Release);
                } else {
                    table.field.give_back(piece);
                }
                // Without this one, all that are left may be needed.
                table.declined = DeviceMask(0);
                Some(StopReason::Broken(error))
            }
            error => {
                let error = if error == Error::Cancelled { error } else { error.in_elements(piece) };
                table.failure.get_or_insert(error);
                self.stopped.store(true, Ordering::Release);
                Some(StopReason::Stopped)
            }
        }
    }

    /// A single element does not fit the host's device: others may have room for it. Nobody comes to a device
    /// whose context is poisoned before the host has left it, too.
    fn leave_to_others(self: &Arc<Self>, shared: &Arc<Runtime>, exec: &Exec<'_>) {
        let leaves = || {
            let poisoned = shared.poisoned.load(Ordering::SeqCst);
            exec.cancelled() || poisoned >> exec.device_index & 1 == 1
        };
        let quiet = |table: &RangeState| {
            table.seats.is_empty() && (!self.invited.load(Ordering::Acquire) || leaves())
        };
        while !self.is_done() && !self.stopped.load(Ordering::Acquire) && !leaves() {
            let guests = !self.table().seats.is_empty();
            if !self.invite(shared) && !guests {
                return;
            }
            self.wait(shared, &[exec.task, HELPERS_NEEDED], quiet);
        }
    }

    /// The host waits for its guests.
    fn wait(&self, shared: &Arc<Runtime>, keys: &[TaskId], enough: impl Fn(&RangeState) -> bool) {
        shared.wait_for_helpers(keys, || enough(&self.table()));
    }

    fn others_are_sooner(&self, device: usize) -> bool {
        let mut table = self.table();
        let mut seats = table.seats.clone();
        if let Some(own) = seats.iter().position(|&seat| seat == device) {
            seats.swap_remove(own);
        }
        let sooner = self.pace.should_decline(device, table.field.left(), seats.into_iter());
        if sooner {
            table.declined.0 |= 1 << device;
        }
        sooner
    }

    /// Something can be stolen: sees to it that an invitation is queued, if there could be more guests.
    /// Returns whether one is.
    fn invite(self: &Arc<Self>, shared: &Arc<Runtime>) -> bool {
        if self.invited.load(Ordering::Acquire) {
            return true;
        }
        if self.present.load(Ordering::Relaxed) >= self.slots || self.invited.swap(true, Ordering::AcqRel) {
            return self.invited.load(Ordering::Acquire);
        }
        let mut task = Task { detached: true, ..self.task(HelperJob(self.clone()), Role::Guest) };
        let table = self.table();
        task.devices.0 &= !(table.too_small.0 | table.declined.0);
        drop(table);
        // Refused: the scheduler is ending, or no other device may come. Then those who are here do it.
        match shared.post(task) {
            Ok(id) => {
                self.table().invitation = Some(id);
                true
            }
            Err(_) => false,
        }
    }
}

/// A participant at work; when it leaves, by whatever way, what it had not begun is loose again.
struct Participant<'a> {
    work: &'a RangeRun,
    shared: &'a Runtime,
    /// The range.
    task: TaskId,
    share: Arc<Share>,
    device: usize,
}

impl Drop for Participant<'_> {
    fn drop(&mut self) {
        let mut table = self.work.table();
        table.field.leave(&self.share);
        if let Some(seat) = table.seats.iter().position(|&seat| seat == self.device) {
            table.seats.swap_remove(seat);
        }
        self.work.present.fetch_sub(1, Ordering::Relaxed);
        drop(table);
        self.shared.wait_queues.notify(self.task);
    }
}

impl Job for RangeOwner {
    fn run(&self, exec: &Exec<'_>) -> Result<()> {
        let work = &self.0;
        let Some(shared) = work.shared.upgrade() else { return Err(Error::Cancelled) };
        let signal = shared.signal_of(exec.task)?;
        {
            let mut table = work.table();
            if let Some(error) = &table.failure {
                return Err(error.clone());
            }
            table.host = Some(OwnerTask { task: exec.task, attempt: exec.attempt, signal });
            work.stopped.store(false, Ordering::Release);
        }
        let own = [exec.task];
        let mut no_room = None;
        let broken = loop {
            match work.take_part(&shared, exec, Role::Range) {
                StopReason::Nothing => {
                    work.wait(&shared, &own, |table| table.seats.is_empty() || table.field.has_loose())
                }
                StopReason::Declined => work.wait(&shared, &own, |table| table.seats.is_empty()),
                StopReason::NoRoom(error) => {
                    no_room = Some(error);
                    shared.in_need(|| work.leave_to_others(&shared, exec));
                    break None;
                }
                StopReason::Stopped => break None,
                StopReason::Broken(error) => break Some(error),
            }
            if work.is_done() {
                break None;
            }
        };
        work.stopped.store(true, Ordering::Release);
        work.table().host = None;
        work.wait(&shared, &own, |table| table.seats.is_empty());
        let invitation = work.table().invitation.take();
        if let Some(id) = invitation {
            shared.withdraw(id);
        }
        match (broken, &work.table().failure) {
            // The device is to blame first; if it is the elements, the next attempt finds the failure.
            (Some(error), _) => Err(error),
            (None, Some(error)) => Err(error.clone()),
            (None, None) if work.is_done() => Ok(()),
            (None, None) => Err(no_room.unwrap_or(Error::Cancelled)),
        }
    }
}

impl Drop for RangeOwner {
    /// The task is over, and with it the caller's code; an invitation may keep the rest for a while.
    fn drop(&mut self) {
        let code = self.0.table().code.take();
        drop(code);
    }
}

impl Job for HelperJob {
    fn run(&self, exec: &Exec<'_>) -> Result<()> {
        let work = &self.0;
        work.invited.store(false, Ordering::Release);
        let Some(shared) = work.shared.upgrade() else { return Ok(()) };
        match work.take_part(&shared, exec, Role::Guest) {
            StopReason::Broken(error) => Err(error),
            StopReason::Nothing | StopReason::Declined | StopReason::Stopped | StopReason::NoRoom(_) => {
                Ok(())
            }
        }
    }
}

impl Drop for HelperJob {
    fn drop(&mut self) {
        self.0.invited.store(false, Ordering::Release);
        let host = self.0.table().host.as_ref().map(|hosted| hosted.task);
        if let (Some(host), Some(shared)) = (host, self.0.shared.upgrade()) {
            shared.wait_queues.notify(host);
        }
    }
}
