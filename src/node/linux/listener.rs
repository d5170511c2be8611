//! Sleeps until the table changes. inotify reports writes to the file, and closes of the file by
//! the kernel for an ended process. An event ends the sleep on request.
//!
//! inotify also reports a member's own writes; the count of changes in the table distinguishes them
//! from those of others. The kernel closes a file a moment before it drops the locks, so a member
//! checks the locks again soon after a close. A check each second finds changes that inotify
//! misses. Without inotify the table is checked four times a second.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::member::LocalMember;
use super::sys::{self, Descriptor};
use crate::error::{Error, Result};
use crate::node::request::WaitEnd;

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1000 * MILLISECOND;
/// Delays of the checks for ended members after a process has closed the file.
const CLOSE_CHECKS: [u64; 3] = [MILLISECOND, 10 * MILLISECOND, 100 * MILLISECOND];

#[derive(Debug)]
pub(super) struct ChangeListener {
    wake_event: Descriptor,
    state: Mutex<ChangeListenerState>,
}

/// State of the one thread that waits. Times are nanoseconds of CLOCK_MONOTONIC.
#[derive(Debug, Default)]
struct ChangeListenerState {
    started: bool,
    /// Number of the session whose file is watched, see [`LocalMember::session_number`].
    session_number: u64,
    inotify: Option<Descriptor>,
    /// The count of changes that was last reported to the caller.
    reported: u64,
    /// The value of [`LocalMember::peer_changes`] at the last check.
    peer_changes: u64,
    live: BTreeSet<usize>,
    /// Times of the next checks for ended members, the latest first.
    close_checks: Vec<u64>,
    last_check: u64,
    last_waiter_check: u64,
}

/// Returns the nanoseconds after which a waiting member reads the table though nothing has changed:
/// less than the limit by which others skip a waiter, so only a stopped process exceeds that.
fn waiter_interval(member: &LocalMember) -> u64 {
    member.policy.stall_ns() / 2
}

impl ChangeListener {
    pub fn new() -> Result<ChangeListener> {
        let wake_event = Descriptor::event();
        let wake_event = wake_event.map_err(|error| Error::io("wait for", "leases".as_ref(), error))?;
        Ok(ChangeListener { wake_event, state: Mutex::default() })
    }

    /// Ends the current wait, or else the next one.
    pub fn wake(&self) {
        self.wake_event.signal();
    }

    /// Sleeps until the table changes, the timeout passes or [`wake`](ChangeListener::wake) is
    /// called.
    pub fn wait(&self, member: &LocalMember, timeout: Option<Duration>) -> WaitEnd {
        if !member.is_here() {
            return WaitEnd::Woken;
        }
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let end = timeout.map(|timeout| sys::now().saturating_add(nanoseconds(timeout)));
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.start(member);
        loop {
            if let Some(reason) = state.check(member, end) {
                return reason;
            }
            let until = state.next_deadline(member, end).saturating_sub(sys::now());
            let [woken, notified] = sys::poll_readable(
                [Some(&self.wake_event), state.inotify.as_ref()],
                Duration::from_nanos(until),
            );
            if !member.is_here() {
                return WaitEnd::Woken;
            }
            if woken {
                self.wake_event.read_available(&mut [0; 8]);
                return WaitEnd::Woken;
            }
            if notified && state.read_inotify(member) {
                return state.changed(member);
            }
        }
    }
}

impl ChangeListenerState {
    /// Watches the file, if it is not watched yet.
    fn start(&mut self, member: &LocalMember) {
        if self.started {
            return;
        }
        self.started = true;
        self.session_number = member.session_number.load(Ordering::Relaxed);
        // The times of the last checks are 0, so a check follows at once and finds earlier changes.
        self.peer_changes = member.peer_changes.load(Ordering::Relaxed);
        self.reported = self.peer_changes;
        self.live = member.session().live_members().unwrap_or_default();
        let inotify = Descriptor::inotify().and_then(|inotify| {
            let session = member.session();
            inotify.watch_file(&session.file, &session.path)?;
            Ok(inotify)
        });
        match inotify {
            Ok(inotify) => self.inotify = Some(inotify),
            Err(error) => log::warn!(
                "leases: no inotify ({error}; see fs.inotify.max_user_instances): released leases are noticed up \
                 to a quarter of a second later"
            ),
        }
    }

    fn check_interval(&self) -> u64 {
        if self.inotify.is_some() { SECOND } else { SECOND / 4 }
    }

    fn next_deadline(&self, member: &LocalMember, end: Option<u64>) -> u64 {
        let stall = Some(member.stall_deadline.load(Ordering::Relaxed)).filter(|deadline| *deadline != 0);
        let close_check = self.close_checks.last().copied();
        let waits = member.own_record().record.waits();
        let waiter_check = waits.then(|| self.last_waiter_check.saturating_add(waiter_interval(member)));
        let check = self.last_check.saturating_add(self.check_interval());
        [end, stall, close_check, waiter_check].into_iter().flatten().fold(check, u64::min)
    }

    /// Runs the checks that are due. Returns why the wait ends, if it does.
    fn check(&mut self, member: &LocalMember, end: Option<u64>) -> Option<WaitEnd> {
        let now = sys::now();
        if member.session_number.load(Ordering::Relaxed) != self.session_number {
            *self = ChangeListenerState::default();
            self.start(member);
            return Some(WaitEnd::Changed);
        }
        // Another thread of this process has seen a change, but may not have handled it for this
        // one.
        let peer_changes = member.peer_changes.load(Ordering::Relaxed);
        if peer_changes != self.peer_changes {
            self.peer_changes = peer_changes;
            if peer_changes != self.reported {
                self.reported = peer_changes;
                return Some(self.changed(member));
            }
        }
        let stall = member.stall_deadline.load(Ordering::Relaxed);
        if stall != 0 && stall <= now {
            // Fails if another thread has stored a new deadline, which then stays.
            let _ = member.stall_deadline.compare_exchange(stall, 0, Ordering::Relaxed, Ordering::Relaxed);
            return Some(self.changed(member));
        }
        let mut check_members = false;
        while self.close_checks.pop_if(|time| *time <= now).is_some() {
            check_members = true;
        }
        if now.saturating_sub(self.last_check) >= self.check_interval() {
            self.last_check = now;
            check_members = true;
            member.flush(Duration::ZERO);
            // Then the thread that locks the table next joins the new file.
            if self.has_new_changes(member) || member.session().has_lost_name().unwrap_or(false) {
                return Some(self.changed(member));
            }
        }
        if check_members && self.have_members_changed(member) {
            return Some(self.changed(member));
        }
        // A waiter that misses these checks knows that its process was stopped.
        let waits = || member.own_record().record.waits();
        if now.saturating_sub(self.last_waiter_check) >= waiter_interval(member) && waits() {
            self.last_waiter_check = now;
            return Some(self.changed(member));
        }
        end.is_some_and(|end| end <= now).then_some(WaitEnd::Timeout)
    }

    /// Reports a change. The caller reads the table, so the members that end from now on are news;
    /// some may have joined with this change.
    fn changed(&mut self, member: &LocalMember) -> WaitEnd {
        if let Ok(live) = member.session().live_members() {
            self.live = live;
        }
        WaitEnd::Changed
    }

    /// Reads the events of inotify. Returns true if others have changed the table or have ended.
    fn read_inotify(&mut self, member: &LocalMember) -> bool {
        let (mut written, mut closed, mut ended) = (false, false, false);
        let mut bytes = [0; 4096];
        while let Some(inotify) = &self.inotify {
            let length = inotify.read_available(&mut bytes);
            let mut rest = &bytes[..length];
            // An event: watch (4), mask (4), cookie (4), length of the name (4), which a file
            // lacks.
            while let Some((event, more)) = rest.split_at_checked(16) {
                let word =
                    |at: usize| u32::from_ne_bytes([event[at], event[at + 1], event[at + 2], event[at + 3]]);
                // An overflow event has neither bit, and may stand for any event.
                written |= word(4) & libc::IN_CLOSE_WRITE == 0;
                closed |= word(4) & libc::IN_MODIFY == 0;
                ended |= word(4) & libc::IN_IGNORED != 0;
                rest = more.get(word(12) as usize..).unwrap_or_default();
            }
            if length == 0 {
                break;
            }
        }
        if ended {
            self.inotify = None;
        }
        if closed {
            let now = sys::now();
            self.close_checks = CLOSE_CHECKS.iter().rev().map(|delay| now + delay).collect();
        }
        written && self.has_new_changes(member) || closed && self.have_members_changed(member)
    }

    /// Returns true if others have written to the table since the last report.
    fn has_new_changes(&mut self, member: &LocalMember) -> bool {
        let Some(changes) = member.session().change_count() else { return false };
        let is_new = changes > member.known_changes.load(Ordering::Relaxed) && changes != self.reported;
        if is_new {
            self.reported = changes;
        }
        is_new
    }

    /// Returns true if a member has joined or ended since the last call.
    fn have_members_changed(&mut self, member: &LocalMember) -> bool {
        let Ok(live) = member.session().live_members() else { return false };
        let changed = live != self.live;
        self.live = live;
        changed
    }
}
