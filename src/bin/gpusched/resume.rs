//! What an earlier run has left in the output folder, shot by shot: whole results of the same parameters,
//! which are kept, and all else, which is computed again.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::num::NonZero;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use gpusched::descriptor;
use gpusched::io::atomic;
use serde_json::json;

use crate::job::Job;
use crate::names;
use crate::say::say;
use crate::side::{self, About, Sums, Told};

/// More threads than a disk has use for.
const READERS: usize = 8;

#[derive(Debug, PartialEq)]
pub enum Found {
    /// The description is readable and has the key of this survey's shot, and all files that it has to tell of
    /// are there, with the right size and checksum.
    Whole,
    /// Neither record nor description.
    Nothing,
    /// Something that is not to be kept, and why.
    Unfit(String),
}

/// Looks at every shot; all files of whole ones are read. With `renew` descriptions are brought up to date.
pub fn look(job: &Job, renew: bool) -> Vec<Found> {
    let shots = job.shots.len();
    let next = AtomicUsize::new(1);
    let all = Mutex::new(Vec::with_capacity(shots));
    let readers = thread::available_parallelism().map_or(1, NonZero::get).clamp(1, READERS);
    let read = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number > shots {
                return;
            }
            let found = shot(&job.folder, &About::new(job, number), renew);
            all.lock().unwrap_or_else(PoisonError::into_inner).push((number, found));
        }
    };
    thread::scope(|scope| {
        // Where the system gives no thread more, those that are there do it all.
        for _ in 1..readers {
            drop(thread::Builder::new().spawn_scoped(scope, read));
        }
        read();
    });
    let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    all.sort_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, found)| found).collect()
}

/// Removes snapshots that a killed run has named of shots that it neither described nor left a state of: nothing tells
/// what they are of, and a survey that takes others would leave them there. That one can't be removed is no reason
/// not to run. A state is of no use `anew`.
pub fn remove_strays(job: &Job, anew: bool) -> io::Result<()> {
    for entry in fs::read_dir(&job.folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(number) = name.to_str().and_then(names::snapshot_of) else { continue };
        let is_there = |name: String| job.folder.join(name).symlink_metadata().is_ok();
        let told = is_there(names::side(number)) || !anew && is_there(names::paused(number));
        if !told && number <= job.shots.len() && entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn shot(folder: &Path, about: &About, renew: bool) -> Found {
    let (record, side) = (names::record(about.number), names::side(about.number));
    let text = match side::read(&folder.join(&side)) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return match fs::symlink_metadata(folder.join(&record)) {
                Ok(_) => Found::Unfit(format!("{record} is there without {side}")),
                Err(_) => Found::Nothing,
            };
        }
        Err(error) => return Found::Unfit(format!("{side} can't be read: {error}")),
    };
    let Some((told, sums)) = Told::parse(&text).and_then(|told| told.sums().map(|sums| (told, sums))) else {
        return Found::Unfit(format!("{side} is damaged, or not of this program"));
    };
    if told.key != about.key {
        return Found::Unfit("computed from other parameters, or from another model".into());
    }
    match whole(folder, about, &sums) {
        Ok(()) if renew => renewed(folder, about, &sums, &text),
        Ok(()) => Found::Whole,
        Err(why) => Found::Unfit(why),
    }
}

/// What a survey says of a shot beside what decides its result, such as the version, is brought up to date.
fn renewed(folder: &Path, about: &About, sums: &Sums, text: &[u8]) -> Found {
    let fresh = about.text(sums);
    let written = fresh.and_then(|fresh| {
        if fresh.as_bytes() == text {
            return Ok(());
        }
        atomic::write(&folder.join(names::side(about.number)), fresh.as_bytes())
    });
    written.map_or_else(|error| Found::Unfit(error.to_string()), |()| Found::Whole)
}

fn whole(folder: &Path, about: &About, sums: &Sums) -> Result<(), String> {
    let check = |name: String, values: usize, sum: u32| {
        let read = checksum(&folder.join(&name), 4 * values as u64);
        match read.map_err(|error| format!("{name}: {error}"))? {
            Some(found) if found == sum => Ok(()),
            Some(_) => Err(format!("{name} is not what was written: its checksum differs")),
            None => Err(format!("{name} is not {} bytes long", 4 * values as u64)),
        }
    };
    check(names::record(about.number), about.traces() * about.shot.samples(), sums.record)?;
    for step in about.steps() {
        let name = names::snapshot(about.number, step);
        let Some(&sum) = sums.snapshots.get(&step) else { return Err(format!("{name} is not described")) };
        check(name, about.plan.model.grid.cells(), sum)?;
    }
    Ok(())
}

/// CRC-32 of a plain file of that size; `None`: it has another.
pub fn checksum(path: &Path, size: u64) -> io::Result<Option<u32>> {
    let found = fs::symlink_metadata(path)?;
    if !found.is_file() {
        return Err(io::Error::other("not a plain file"));
    }
    if found.len() != size {
        return Ok(None);
    }
    let mut file = descriptor::open_read(path)?;
    let mut hasher = crc32fast::Hasher::new();
    let mut block = vec![0; 1 << 18];
    loop {
        match file.read(&mut block) {
            Ok(0) => return Ok(Some(hasher.finalize())),
            Ok(count) => hasher.update(&block[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Shots that a line names before it only counts.
const NAMED: usize = 8;

/// Says what is kept, and of what is there and is not, why.
pub fn tell(job: &Job, found: &[Found], as_json: bool) {
    let mut reasons: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut kept = 0;
    for (number, found) in (1..).zip(found) {
        let event = match found {
            Found::Whole => {
                kept += 1;
                json!({ "event": "shot", "shot": number, "state": "kept" })
            }
            Found::Unfit(why) => {
                reasons.entry(why).or_default().push(number);
                json!({ "event": "redo", "shot": number, "why": why })
            }
            Found::Nothing => continue,
        };
        if as_json {
            say!("{event}");
        }
    }
    let redone = reasons.values().map(Vec::len).sum::<usize>();
    let missing = found.len() - kept - redone;
    let is_paused = |number: &usize| job.folder.join(names::paused(*number)).is_file();
    let paused = (1..).zip(found).filter(|(_, found)| **found != Found::Whole).map(|(number, _)| number);
    let paused = paused.filter(is_paused).count();
    if as_json {
        say!(
            "{}",
            json!({
                "event": "resume",
                "kept": kept,
                "redone": redone,
                "missing": missing,
                "paused": paused,
            })
        );
        return;
    }
    for (why, numbers) in reasons {
        let named: Vec<_> = numbers.iter().take(NAMED).map(usize::to_string).collect();
        let more = match numbers.len() - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        say!("not kept: shot {}{more}: {why}", named.join(", "));
    }
    let states = if paused == 0 {
        String::new()
    } else {
        format!("; {paused} of these have left a state to go on from")
    };
    say!("resume: {kept} of {} shots kept, {redone} computed again, {missing} missing{states}", found.len());
}
