//! Sleeps until the table changes. inotify reports writes to the file, and closes of the file by
//! the kernel for an ended process. An event ends the sleep on request.
//!
//! inotify also reports a member's own writes; the count of changes in the table distinguishes them
//! from those of others. The kernel closes a file a moment before it drops the locks, so the locks
//! are checked again soon after a close. A wait ends after a while in any case: its caller then
//! reads the table and finds changes that inotify misses.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::file_lock;
use super::layout::{HEADER_BYTES, TableHeader};
use super::sys::{self, Descriptor};
use crate::node::request::WaitEnd;

const MILLISECOND: u64 = 1_000_000;
/// Delays of the checks for ended members after a process has closed the file.
const CLOSE_CHECKS: [u64; 4] = [0, MILLISECOND, 10 * MILLISECOND, 100 * MILLISECOND];
/// Longest wait without inotify.
const UNWATCHED: u64 = 250 * MILLISECOND;

/// Changes of one file, as far as this member knows them. Times are nanoseconds of CLOCK_MONOTONIC.
#[derive(Debug)]
pub(super) struct ChangeListener {
    wake_event: Descriptor,
    /// The table's count of changes, as far as this member has made or seen them.
    known_changes: AtomicU64,
    /// The count at the last change by another member that a thread with the table locked has seen.
    peer_changes: AtomicU64,
    /// Time at which another waiter will count as stopped. `u64::MAX`: none.
    stall_deadline: AtomicU64,
    /// `None` until the first wait.
    watch: Mutex<Option<FileWatch>>,
}

/// State of the one thread that waits.
#[derive(Debug)]
struct FileWatch {
    inotify: Option<Descriptor>,
    /// The count of changes by other members at the last check.
    reported: u64,
    /// The living members at the last check.
    live: BTreeSet<usize>,
    /// Times of the next checks for ended members, the latest first.
    close_checks: Vec<u64>,
}

/// Reads the count of changes without the lock. A torn read ends a wait for nothing, or delays the
/// report of a change until the end of the wait.
fn change_count(file: &Descriptor) -> Option<u64> {
    let mut bytes = [0; HEADER_BYTES];
    file.read_at(&mut bytes, 0).ok()?;
    TableHeader::parse(&bytes).map(|header| header.changes)
}

impl ChangeListener {
    /// Returns the listener of a file with so many changes.
    pub fn new(changes: u64) -> io::Result<ChangeListener> {
        Ok(ChangeListener { wake_event: Descriptor::event()?, ..ChangeListener::closed(changes) })
    }

    /// Returns the listener of no file.
    pub fn closed(changes: u64) -> ChangeListener {
        ChangeListener {
            wake_event: Descriptor::closed(),
            known_changes: AtomicU64::new(changes),
            peer_changes: AtomicU64::new(changes),
            stall_deadline: AtomicU64::new(u64::MAX),
            watch: Mutex::default(),
        }
    }

    /// Notes the count of changes that a thread with the table locked has read.
    pub fn note_read(&self, changes: u64) {
        if changes > self.known_changes.load(Ordering::Relaxed) {
            // First: a wait that finds the change known reads the count of others next.
            self.peer_changes.store(changes, Ordering::Release);
            self.known_changes.store(changes, Ordering::Release);
        }
    }

    /// Notes the count of changes that a thread with the table locked writes next, so that this
    /// member does not take the change for one of another member.
    pub fn note_write(&self, changes: u64) {
        self.known_changes.store(changes, Ordering::Relaxed);
    }

    /// Sets the time at which another waiter will count as stopped. The wait then ends.
    pub fn set_stall_deadline(&self, deadline: Option<u64>) {
        self.stall_deadline.store(deadline.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Ends the current wait, or else the next one.
    pub fn wake(&self) {
        self.wake_event.signal();
    }

    /// Sleeps until the file changes, the timeout or `longest` (nanoseconds) passes, or
    /// [`wake`](ChangeListener::wake) is called.
    pub fn wait(&self, file: &Descriptor, path: &Path, longest: u64, timeout: Option<Duration>) -> WaitEnd {
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        let watch = watch.get_or_insert_with(|| FileWatch::start(file, path, self.peer_changes()));
        let begin = sys::now();
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let end = timeout.map_or(u64::MAX, |timeout| begin.saturating_add(nanoseconds(timeout)));
        let longest = if watch.inotify.is_some() { longest } else { longest.min(UNWATCHED) };
        loop {
            let now = sys::now();
            if self.has_changed(watch, file, now) {
                return WaitEnd::Changed;
            }
            let stall = self.stall_deadline.load(Ordering::Relaxed);
            let until = end.min(stall).min(begin.saturating_add(longest));
            if until <= now {
                return if end <= now { WaitEnd::Timeout } else { WaitEnd::Changed };
            }
            let next = watch.close_checks.last().map_or(until, |check| until.min(*check));
            let [woken, notified] = sys::poll_readable(
                [Some(&self.wake_event), watch.inotify.as_ref()],
                Duration::from_nanos(next.saturating_sub(now)),
            );
            if woken {
                self.wake_event.read_available(&mut [0; 8]);
                return WaitEnd::Woken;
            }
            if notified {
                watch.read_inotify();
            }
        }
    }

    fn peer_changes(&self) -> u64 {
        self.peer_changes.load(Ordering::Relaxed)
    }

    /// Returns true if another member has written to the table or has ended since the last call.
    fn has_changed(&self, watch: &mut FileWatch, file: &Descriptor, now: u64) -> bool {
        let unread = change_count(file).filter(|count| *count > self.known_changes.load(Ordering::Acquire));
        // Another thread of this process may have read a change, and not have handled it for this
        // one.
        let count = unread.unwrap_or_else(|| self.peer_changes());
        let is_written = std::mem::replace(&mut watch.reported, count) != count;
        let mut is_closed = false;
        while watch.close_checks.pop_if(|time| *time <= now).is_some() {
            is_closed = true;
        }
        if !is_written && !is_closed {
            return false;
        }
        // A member that has joined with the change is known from now on, so its end is noticed.
        let Ok(live) = file_lock::live_members(file) else { return is_written };
        let has_ended = live != watch.live;
        watch.live = live;
        is_written || has_ended
    }
}

impl FileWatch {
    fn start(file: &Descriptor, path: &Path, reported: u64) -> FileWatch {
        let live = file_lock::live_members(file).unwrap_or_default();
        let inotify = Descriptor::inotify().and_then(|inotify| {
            inotify.watch_file(file, path)?;
            Ok(inotify)
        });
        let warn = |error: &io::Error| {
            log::warn!(
                "leases: no inotify ({error}; see fs.inotify.max_user_instances): released leases are noticed up \
                 to a quarter of a second later"
            );
        };
        let inotify = inotify.inspect_err(warn).ok();
        FileWatch { inotify, reported, live, close_checks: Vec::new() }
    }

    /// Reads the events of inotify: after a close of the file the living members are checked.
    fn read_inotify(&mut self) {
        let Some(inotify) = &self.inotify else { return };
        let mut bytes = [0; 4096];
        let length = inotify.read_available(&mut bytes);
        let (mut closed, mut ended) = (false, false);
        // An event of a file: watch (4), mask (4), cookie (4), length of the name (4), which is 0.
        for event in bytes[..length].chunks_exact(16) {
            let mask = u32::from_ne_bytes([event[4], event[5], event[6], event[7]]);
            // An overflow event may stand for any event.
            closed |= mask & libc::IN_MODIFY == 0;
            ended |= mask & libc::IN_IGNORED != 0;
        }
        if ended {
            self.inotify = None;
        }
        if closed {
            let now = sys::now();
            self.close_checks = CLOSE_CHECKS.iter().rev().map(|delay| now + delay).collect();
        }
    }
}
