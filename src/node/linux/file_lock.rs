//! The locks of the table file.
//!
//! Byte `i`, for `i` below 256, is locked while the member with record `i` lives. Byte
//! [`TABLE_LOCK`] is the lock of the whole table. Its holder also locks as many bytes behind it as
//! its record number, so that a member that waits too long can name the holder.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use super::layout::{self, MAX_MEMBERS};
use super::sys::Descriptor;

const TABLE_LOCK: u64 = 1 << 20;
/// Number of attempts that are followed by a yield only, before the first pause.
const YIELDS: u32 = 8;
const FIRST_PAUSE: Duration = Duration::from_micros(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(5);

/// Locks the table for the member with record `id`. The error is the reason, in words.
pub(super) fn lock_table(file: &Descriptor, id: usize, timeout: Duration) -> std::result::Result<(), String> {
    let (mut tries, mut waited, mut pause) = (0, Duration::ZERO, FIRST_PAUSE);
    loop {
        match file.lock(TABLE_LOCK, 1 + id as u64) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => return Err(format!("it can't be locked: {error}")),
        }
        if tries < YIELDS {
            tries += 1;
            std::thread::yield_now();
            continue;
        }
        // The pauses are summed up, because a clock would count time in which this process was
        // stopped.
        if waited >= timeout {
            let (holder, seconds) = (lock_holder(file), timeout.as_secs_f64());
            return Err(format!("{holder} has kept it locked for {seconds} s; is it stopped?"));
        }
        std::thread::sleep(pause);
        waited += pause;
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}

pub(super) fn unlock_table(file: &Descriptor, id: usize) -> io::Result<()> {
    file.unlock(TABLE_LOCK, 1 + id as u64)
}

/// Describes the holder of the table lock.
fn lock_holder(file: &Descriptor) -> String {
    let process = || {
        let (_, length) = file.conflicting_lock(TABLE_LOCK, 1).ok()??;
        let id = (length as usize).checked_sub(1).filter(|id| *id < MAX_MEMBERS)?;
        let mut begin = [0; 8];
        file.read_at(&mut begin, layout::record_offset(id)).ok()?;
        layout::process_id(&begin)
    };
    process().map_or_else(|| "a process that joins".into(), |process| format!("process {process}"))
}

/// Returns the records of the living members that have opened the table by another descriptor than
/// `file`.
pub(super) fn live_members(file: &Descriptor) -> io::Result<BTreeSet<usize>> {
    let mut live = BTreeSet::new();
    let mut ranges = vec![(0, MAX_MEMBERS)];
    while let Some((begin, end)) = ranges.pop() {
        if begin >= end {
            continue;
        }
        let Some((at, length)) = file.conflicting_lock(begin as u64, (end - begin) as u64)? else { continue };
        let from = (at as usize).clamp(begin, end);
        // A length of 0 means: to the end of any file.
        let to = if length == 0 { end } else { at.saturating_add(length).min(end as u64) as usize };
        let to = to.max(from + 1).min(end);
        live.extend(from..to);
        ranges.extend([(begin, from), (to, end)]);
    }
    Ok(live)
}
