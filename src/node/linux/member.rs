//! State of a member, shared by the threads of its process.
//!
//! The thread that holds the lock of the table file, or is about to take it, holds `shared`.
//!
//! Lock order: `shared`, the table file, `session`; `used_bytes` last.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use super::layout::TableHeader;
use super::own_record::OwnRecord;
use super::session::{self, BootId, Session};
use super::{folder, sys};
use crate::error::{Error, Result};
use crate::fork::ProcessMark;
use crate::node::queue::{MemberRecord, StalledWaiters};
use crate::node::request::{NodePolicy, SharedDevice};

/// Ticket of a waiter whose table has been deleted. It draws another one from the new table.
const TICKET_TO_DRAW: u64 = u64::MAX;

/// Nanoseconds after a timeout in which no thread waits for the table again.
const RECENT_FAILURE: u64 = 1_000_000_000;

/// Contents of the table, as the thread that has it locked last read them.
#[derive(Debug)]
pub(super) struct TableState {
    pub own: OwnRecord,
    pub header: TableHeader,
    pub stalled: StalledWaiters,
    /// The other members, as of the last lock.
    pub others: Vec<MemberRecord>,
    /// Time of the last read of the queue.
    pub last_look: u64,
    /// At that time this member waited and could begin.
    pub was_ready: bool,
    /// Time and error of the last attempt to lock the table that timed out.
    lock_failure: Option<(u64, Error)>,
}

#[derive(Debug)]
pub(super) struct LocalMember {
    /// Changes when the file has been deleted, while `shared` is held.
    session: Mutex<Arc<Session>>,
    candidates: Vec<PathBuf>,
    pub folder: PathBuf,
    /// By the scheduler's device index.
    uuids: Vec<Option<String>>,
    /// By the scheduler's device index: index of the device's entry in the record.
    pub entries: Vec<Option<usize>>,
    shared: Mutex<TableState>,
    /// Leases and their used bytes that no thread has put into the record yet.
    used_bytes: Mutex<Vec<(u64, u64)>>,
    process: ProcessMark,
    /// The member has left, and its file is closed.
    has_left: AtomicBool,
    boot_id: BootId,
    pub policy: NodePolicy,
}

/// Locks the table. After a timeout, the threads that queued behind and the next calls fail with
/// the same error, unless the table is unlocked now: each would wait as long again.
fn lock_patiently(session: &Session, shared: &mut TableState, timeout: Duration) -> Result<()> {
    let age = |when: u64| sys::now().saturating_sub(when);
    let recent = shared.lock_failure.clone().filter(|(when, _)| age(*when) < RECENT_FAILURE);
    let timeout = if recent.is_some() { Duration::ZERO } else { timeout };
    session.lock(timeout).map_err(|error| match recent {
        Some((_, error)) => error,
        None if timeout.is_zero() => error,
        None => shared.lock_failure.insert((sys::now(), error)).1.clone(),
    })
}

impl LocalMember {
    /// Joins in the first candidate folder where that succeeds.
    pub fn join(
        candidates: Vec<PathBuf>,
        devices: &[Option<SharedDevice<'_>>],
        policy: NodePolicy,
    ) -> Result<LocalMember> {
        let (boot_id, process) = (session::boot_id()?, ProcessMark::here());
        let (folder, (session, (header, record, entries))) =
            folder::first_usable(&candidates, |folder, file| {
                Session::join(folder, file, boot_id, devices, policy.lock_timeout)
            })?;
        let shared = TableState {
            own: OwnRecord { record, ..OwnRecord::default() },
            header,
            stalled: StalledWaiters::new(policy),
            others: Vec::new(),
            last_look: sys::now(),
            was_ready: false,
            lock_failure: None,
        };
        Ok(LocalMember {
            session: Mutex::new(Arc::new(session)),
            candidates,
            folder,
            uuids: devices.iter().map(|device| device.map(|device| device.uuid.to_owned())).collect(),
            entries,
            shared: Mutex::new(shared),
            used_bytes: Mutex::default(),
            process,
            has_left: AtomicBool::new(false),
            boot_id,
            policy,
        })
    }

    pub fn session(&self) -> Arc<Session> {
        Arc::clone(&self.session.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Uses another file from now on. The wait for changes of the former one ends.
    fn replace_session(&self, session: Session) {
        let mut current = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *current, Arc::new(session)).listener.wake();
    }

    /// Returns true in the process that joined, until the member has left; false in its forked
    /// children.
    pub fn is_here(&self) -> bool {
        self.process.is_here() && !self.has_left.load(Ordering::Relaxed)
    }

    /// Returns why no call works any more, if none does.
    fn check_here(&self) -> Result<()> {
        self.process.check()?;
        if self.is_here() { Ok(()) } else { Err(Error::Shutdown { what: "a lease" }) }
    }

    /// Leaves, if the member is about to and holds no slot: the last thread that uses the file
    /// closes it. Others ignore the record of a member whose file is closed.
    fn leave_if_idle(&self, own: &OwnRecord) -> bool {
        let leaves = own.is_leaving && own.record.held_slots.is_empty();
        if leaves {
            self.has_left.store(true, Ordering::Relaxed);
            self.replace_session(self.session().closed());
        }
        leaves
    }

    fn shared(&self) -> MutexGuard<'_, TableState> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the table and reads it.
    pub fn lock(&self) -> Result<MutexGuard<'_, TableState>> {
        self.check_here()?;
        let mut shared = self.shared();
        self.lock_file(&mut shared, self.policy.lock_timeout)?;
        let session = self.session();
        match session.read_others(&shared.header) {
            Ok(others) => shared.others = others,
            Err(error) => {
                let _ = session.unlock();
                return Err(session.error(error));
            }
        }
        Ok(shared)
    }

    /// Locks the file and reads its header. Joins the new file if this one has lost its name.
    fn lock_file(&self, shared: &mut TableState, timeout: Duration) -> Result<()> {
        for _ in 0..8 {
            let session = self.session();
            lock_patiently(&session, shared, timeout)?;
            let lost = session.has_lost_name().map_err(|error| session.error(error));
            let header = lost.and_then(|lost| match lost {
                true => Ok(None),
                false => session.read_header(&self.boot_id).map(Some),
            });
            match header {
                Ok(Some(header)) => {
                    session.listener.note_read(header.changes);
                    accept_header(shared, header);
                    return Ok(());
                }
                Ok(None) => {
                    // Members that join from now on use another file.
                    let _ = session.unlock();
                    self.rejoin(&mut shared.own)?;
                    // Ids and tickets of the new file say nothing about the members of the old one.
                    shared.stalled = StalledWaiters::new(self.policy);
                }
                Err(error) => {
                    let _ = session.unlock();
                    return Err(error);
                }
            }
        }
        Err(self.session().error("another process deletes or renames it again and again"))
    }

    /// Joins the file that new members use, with all slots that this member holds.
    fn rejoin(&self, own: &mut OwnRecord) -> Result<()> {
        let slots: Vec<u32> = own.record.devices.iter().map(|entry| entry.slots).collect();
        let device = |(uuid, entry): (&'_ Option<String>, &Option<usize>)| {
            Some((uuid.clone()?, slots.get((*entry)?).copied()?))
        };
        let devices: Vec<_> = self.uuids.iter().zip(&self.entries).map(device).collect();
        let devices: Vec<_> = devices
            .iter()
            .map(|device| device.as_ref().map(|(uuid, slots)| SharedDevice { uuid, slots: *slots }))
            .collect();
        let (_, (session, (_, record, _))) = folder::first_usable(&self.candidates, |folder, file| {
            Session::join(folder, file, self.boot_id, &devices, self.policy.lock_timeout)
        })?;
        log::warn!(
            "leases: {} was deleted while in use; the leases of this process are in {} now",
            self.session().path.display(),
            session.path.display()
        );
        let old = &mut own.record;
        old.id = record.id;
        // The new record has the same devices in the same order, perhaps with other indices.
        for held in &mut old.held_slots {
            let entry = old.devices.iter().position(|entry| entry.device == held.device);
            held.device = entry.map_or(held.device, |entry| record.devices[entry].device);
        }
        for (entry, new) in old.devices.iter_mut().zip(&record.devices) {
            entry.device = new.device;
        }
        if old.waits() {
            old.ticket = TICKET_TO_DRAW;
        }
        own.dirty = true;
        self.replace_session(session);
        Ok(())
    }

    /// Writes the changes of the record and unlocks the table.
    pub fn unlock(&self, shared: &mut TableState) {
        let written = self.write(shared);
        let session = self.session();
        let unlocked = session.unlock();
        if let Err(error) = written.and(unlocked)
            && self.is_here()
        {
            log::warn!("leases: {}: {error}", session.path.display());
        }
    }

    /// Writes the record if it is dirty. The caller has locked the table.
    pub fn write(&self, shared: &mut TableState) -> std::io::Result<()> {
        self.take_used_bytes(&mut shared.own);
        if !shared.own.dirty {
            return Ok(());
        }
        let session = self.session();
        session.write_record(&shared.own.record)?;
        shared.header.changes += 1;
        session.listener.note_write(shared.header.changes);
        session.write_header(&shared.header)?;
        shared.own.dirty = false;
        Ok(())
    }

    /// Changes the record and writes it, waiting at most `timeout` for other members. The caller
    /// has not locked the table. If another member keeps it locked, the next thread that locks it
    /// writes the record.
    pub fn update(&self, timeout: Duration, change: impl FnOnce(&mut OwnRecord)) {
        if !self.is_here() {
            return;
        }
        let mut shared = self.shared();
        change(&mut shared.own);
        self.write_changes(&mut shared, timeout);
    }

    /// Sets the used bytes of a lease, without any wait for other threads.
    pub fn set_used_bytes(&self, key: u64, bytes: u64) {
        if self.is_here() {
            self.locked_used_bytes().push((key, bytes));
            self.catch_up();
        }
    }

    /// Writes the changes of the record, unless another thread or member has the table.
    pub fn catch_up(&self) {
        if self.is_here()
            && let Some(mut shared) = self.try_shared()
        {
            self.write_changes(&mut shared, Duration::ZERO);
        }
    }

    fn write_changes(&self, shared: &mut TableState, timeout: Duration) {
        self.take_used_bytes(&mut shared.own);
        if self.leave_if_idle(&shared.own) || !shared.own.dirty {
            return;
        }
        match self.lock_file(shared, timeout) {
            Ok(()) => self.unlock(shared),
            Err(error) if !timeout.is_zero() => log::warn!("leases: {error}; retrying"),
            Err(_) => {}
        }
    }

    /// Returns true if a change of the record may not be written yet.
    pub fn is_behind(&self) -> bool {
        let is_pending = || !self.locked_used_bytes().is_empty();
        self.is_here() && (is_pending() || self.try_shared().is_none_or(|shared| shared.own.dirty))
    }

    fn take_used_bytes(&self, own: &mut OwnRecord) {
        for (key, bytes) in self.locked_used_bytes().drain(..) {
            own.set_used_bytes(key, bytes);
        }
    }

    fn locked_used_bytes(&self) -> MutexGuard<'_, Vec<(u64, u64)>> {
        self.used_bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `None` if another thread has the mutex.
    fn try_shared(&self) -> Option<MutexGuard<'_, TableState>> {
        match self.shared.try_lock() {
            Ok(shared) => Some(shared),
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

fn accept_header(shared: &mut TableState, header: TableHeader) {
    shared.header = header;
    // The header with the drawn ticket may not have been written.
    let own = &mut shared.own;
    if own.record.ticket >= header.next_ticket {
        own.record.ticket = header.next_ticket;
        shared.header.next_ticket += 1;
        own.dirty = true;
    }
}
