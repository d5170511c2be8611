//! Sleeping until something has changed: inotify tells of writes to the file, and that the kernel has closed
//! it for one who died; an event ends the sleep of one's own accord.
//!
//! A member hears its own writes, too, and tells them from others' by the count of changes. A file is closed a moment
//! before its locks are gone, so who hears that looks again soon after. What inotify can't tell, or where
//! there is none, is found by looking each second, or each quarter of one.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::door::Living;
use super::member::Seat;
use super::sys::{self, Descriptor};
use crate::error::{Error, Result};
use crate::node::{Woken, line};

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1000 * MILLISECOND;
/// Nanoseconds after which a member that waits looks though nothing has changed: so often that only one whose
/// process was stopped misses as much as others wait for it.
const NUDGE: u64 = line::PATIENCE / 2;
const _: () = assert!(NUDGE < line::PATIENCE);
/// After somebody has closed the file.
const ECHOES: [u64; 3] = [MILLISECOND, 10 * MILLISECOND, 100 * MILLISECOND];

#[derive(Debug)]
pub(super) struct Ear {
    bell: Descriptor,
    heard: Mutex<Heard>,
}

#[derive(Debug, Default)]
struct Heard {
    listens: bool,
    /// To the file that the member had after so many moves.
    moves: u64,
    inotify: Option<Descriptor>,
    /// The count of changes that the caller was last told of.
    told: u64,
    /// The one at which a thread inside had last seen something new.
    seen: u64,
    living: Living,
    /// When to look who lives, the last first.
    echoes: Vec<u64>,
    looked: u64,
    nudged: u64,
}

impl Ear {
    pub fn new() -> Result<Ear> {
        let bell = Descriptor::event();
        let bell = bell.map_err(|error| Error::io("wait for", "leases".as_ref(), error))?;
        Ok(Ear { bell, heard: Mutex::default() })
    }

    pub fn wake(&self) {
        self.bell.ring();
    }

    pub fn wait(&self, seat: &Seat, timeout: Option<Duration>) -> Woken {
        if !seat.is_here() {
            return Woken::Woken;
        }
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let end = timeout.map(|timeout| sys::now().saturating_add(nanoseconds(timeout)));
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.listen(seat);
        loop {
            if let Some(woken) = heard.due(seat, end) {
                return woken;
            }
            let until = heard.until(seat, end).saturating_sub(sys::now());
            let [rung, told] =
                sys::poll([Some(&self.bell), heard.inotify.as_ref()], Duration::from_nanos(until));
            if !seat.is_here() {
                return Woken::Woken;
            }
            if rung {
                self.bell.drain(&mut [0; 8]);
                return Woken::Woken;
            }
            if told && heard.hear(seat) {
                return Woken::Changed;
            }
        }
    }
}

impl Heard {
    fn listen(&mut self, seat: &Seat) {
        if self.listens {
            return;
        }
        self.listens = true;
        self.moves = seat.moves.load(Ordering::Relaxed);
        // `looked` and `nudged` are long ago, so what has come before now is not missed.
        self.seen = seat.foreign.load(Ordering::Relaxed);
        self.told = self.seen;
        self.living = seat.sitting().living().unwrap_or_default();
        let inotify = Descriptor::inotify().and_then(|inotify| {
            let sitting = seat.sitting();
            inotify.watch(&sitting.file, &sitting.path)?;
            Ok(inotify)
        });
        match inotify {
            Ok(inotify) => self.inotify = Some(inotify),
            Err(error) => log::warn!(
                "leases: no inotify ({error}; see fs.inotify.max_user_instances): what others give back is seen \
                 up to a quarter of a second later"
            ),
        }
    }

    fn pause(&self) -> u64 {
        if self.inotify.is_some() { SECOND } else { SECOND / 4 }
    }

    fn until(&self, seat: &Seat, end: Option<u64>) -> u64 {
        let due = Some(seat.due.load(Ordering::Relaxed)).filter(|due| *due != 0);
        let echo = self.echoes.last().copied();
        let nudge = seat.book().member.waits().then(|| self.nudged.saturating_add(NUDGE));
        let look = self.looked.saturating_add(self.pause());
        [end, due, echo, nudge].into_iter().flatten().fold(look, u64::min)
    }

    /// What the time has brought.
    fn due(&mut self, seat: &Seat, end: Option<u64>) -> Option<Woken> {
        let now = sys::now();
        if seat.moves.load(Ordering::Relaxed) != self.moves {
            *self = Heard::default();
            self.listen(seat);
            return Some(Woken::Changed);
        }
        // Another thread of ours has seen it; it may not have looked for what this one waits for.
        let seen = seat.foreign.load(Ordering::Relaxed);
        if seen != self.seen {
            self.seen = seen;
            if seen != self.told {
                self.told = seen;
                return Some(Woken::Changed);
            }
        }
        let due = seat.due.load(Ordering::Relaxed);
        if due != 0 && due <= now {
            // Unless it was set anew meanwhile.
            let _ = seat.due.compare_exchange(due, 0, Ordering::Relaxed, Ordering::Relaxed);
            return Some(Woken::Changed);
        }
        let mut look = false;
        while self.echoes.pop_if(|echo| *echo <= now).is_some() {
            look = true;
        }
        if now.saturating_sub(self.looked) >= self.pause() {
            self.looked = now;
            look = true;
            seat.settle(Duration::ZERO);
            // Who is inside next takes the file that the others take.
            if self.counted(seat) || seat.sitting().is_gone().unwrap_or(false) {
                return Some(Woken::Changed);
            }
        }
        if look && self.buried(seat) {
            return Some(Woken::Changed);
        }
        // A waiter that has not looked for longer knows by that that its process was stopped.
        if now.saturating_sub(self.nudged) >= NUDGE && seat.book().member.waits() {
            self.nudged = now;
            return Some(Woken::Changed);
        }
        end.is_some_and(|end| end <= now).then_some(Woken::Timeout)
    }

    /// Reads what inotify tells; whether it was news.
    fn hear(&mut self, seat: &Seat) -> bool {
        let (mut written, mut closed, mut over) = (false, false, false);
        let mut bytes = [0; 4096];
        while let Some(inotify) = &self.inotify {
            let there = inotify.drain(&mut bytes);
            let mut rest = &bytes[..there];
            // Each: watch (4), mask (4), cookie (4), length of a name that a file has not (4).
            while let Some((event, more)) = rest.split_at_checked(16) {
                let word =
                    |at: usize| u32::from_ne_bytes([event[at], event[at + 1], event[at + 2], event[at + 3]]);
                // What it does not name may be anything, where there was too much to tell.
                written |= word(4) & libc::IN_CLOSE_WRITE == 0;
                closed |= word(4) & libc::IN_MODIFY == 0;
                over |= word(4) & libc::IN_IGNORED != 0;
                rest = more.get(word(12) as usize..).unwrap_or_default();
            }
            if there == 0 {
                break;
            }
        }
        if over {
            self.inotify = None;
        }
        if closed {
            let now = sys::now();
            self.echoes = ECHOES.iter().rev().map(|echo| now + echo).collect();
        }
        written && self.counted(seat) || closed && self.buried(seat)
    }

    /// Whether others have written what the caller has not been told.
    fn counted(&mut self, seat: &Seat) -> bool {
        let Some(changes) = seat.sitting().changes() else { return false };
        let news = changes > seat.known.load(Ordering::Relaxed) && changes != self.told;
        if news {
            self.told = changes;
        }
        news
    }

    /// Whether others live than did.
    fn buried(&mut self, seat: &Seat) -> bool {
        let Ok(living) = seat.sitting().living() else { return false };
        let news = living != self.living;
        self.living = living;
        news
    }
}
