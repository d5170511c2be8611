//! The locks: who lives, and the door.
//!
//! Byte `i` of the file, for `i` below 256, is locked while the member with record `i` lives. The door is
//! byte [`DOOR`]; who holds it locks one byte more for each record before his own, so that one who waits for long can
//! tell whom he waits for.

use std::time::Duration;

use super::layout::{self, MEMBERS};
use super::sys::Descriptor;

const DOOR: u64 = 1 << 20;
/// Tries with nothing but a yield between.
const YIELDS: u32 = 8;
const FIRST_PAUSE: Duration = Duration::from_micros(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(5);
/// Who has not left the door after so long is stopped.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Which members live: a bit for each.
pub(super) type Living = [u64; MEMBERS / 64];

/// Takes the door for the member with record `id`. `Err`: why not.
pub(super) fn enter(file: &Descriptor, id: usize, patience: Duration) -> std::result::Result<(), String> {
    let (mut tries, mut waited, mut pause) = (0, Duration::ZERO, FIRST_PAUSE);
    loop {
        match file.lock(DOOR, 1 + id as u64) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => return Err(format!("it can't be locked: {error}")),
        }
        if tries < YIELDS {
            tries += 1;
            std::thread::yield_now();
            continue;
        }
        // Not by the clock: this process may have been stopped itself.
        if waited >= patience {
            return Err(format!(
                "{} has kept it shut for {} s; is it stopped?",
                keeper(file),
                patience.as_secs()
            ));
        }
        std::thread::sleep(pause);
        waited += pause;
        pause = (2 * pause).min(LONGEST_PAUSE);
    }
}

pub(super) fn leave(file: &Descriptor, id: usize) -> std::io::Result<()> {
    file.unlock(DOOR, 1 + id as u64)
}

/// Who holds the door, in words.
fn keeper(file: &Descriptor) -> String {
    let process = || {
        let (_, length) = file.locked(DOOR, 1).ok()??;
        let id = (length as usize).checked_sub(1).filter(|id| *id < MEMBERS)?;
        let mut begin = [0; 8];
        file.read_at(&mut begin, layout::place_of(id)).ok()?;
        layout::process(&begin)
    };
    process().map_or_else(|| "a process that joins".into(), |process| format!("process {process}"))
}

/// The members that live, but for the one who asks.
pub(super) fn living(file: &Descriptor, but: usize) -> std::io::Result<Living> {
    let mut living = [0; MEMBERS / 64];
    let mut ranges = vec![(0, but), ((but + 1).min(MEMBERS), MEMBERS)];
    while let Some((begin, end)) = ranges.pop() {
        if begin >= end {
            continue;
        }
        let Some((at, length)) = file.locked(begin as u64, (end - begin) as u64)? else { continue };
        let from = (at as usize).clamp(begin, end);
        // A length of 0 reaches to the end of any file.
        let to = if length == 0 { end } else { at.saturating_add(length).min(end as u64) as usize };
        let to = to.max(from + 1).min(end);
        for id in from..to {
            living[id / 64] |= 1 << (id % 64);
        }
        ranges.extend([(begin, from), (to, end)]);
    }
    Ok(living)
}

pub(super) fn members_of(living: &Living) -> impl Iterator<Item = usize> {
    (0..MEMBERS).filter(|id| living[id / 64] >> (id % 64) & 1 == 1)
}
