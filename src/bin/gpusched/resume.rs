//! Checks the output folder for results of an earlier run. Complete results of the same parameters
//! and model are kept; all other shots are computed again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, BufReader, ErrorKind};
use std::num::NonZero;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use gpusched::fd::control::STATE_LAYOUT;
use gpusched::io::atomic;
use gpusched::{Error, Result, descriptor};
use serde_json::json;

use crate::checkpoint::{self, Checkpoint, Header, Summed};
use crate::folder::{may_pass, remove};
use crate::job::Job;
use crate::names;
use crate::say::{self, say};
use crate::side::{self, About, Description, Sums, snapshot_steps};

/// Maximum number of threads that read files.
const READERS: usize = 8;

/// Reason why a result or a saved state is not usable.
pub const STALE: &str = "it has other parameters, or another model";

#[derive(Debug, PartialEq)]
pub enum Found {
    /// The description has the key of the shot, and all files have the right size and checksum.
    Whole,
    /// The shot has neither record nor description.
    Nothing,
    /// The files can't be kept, for this reason.
    Unfit(String),
    /// A file could not be read now. All may be whole.
    Unread(Error),
}

/// Checks the shots of a run and reads the files of complete ones. Those of the shots in `written`
/// are not read: an earlier process of the run has written or read them. With `renew`, also updates
/// their descriptions and removes their saved states.
///
/// Returns an error if the files of a shot could not be read now. Computing the shot would remove
/// them.
pub fn examine(job: &Job, written: &BTreeSet<usize>, renew: bool) -> Result<BTreeMap<usize, Found>> {
    let numbers: Vec<usize> = job.numbers.iter().copied().collect();
    let examine = |number| shot(&job.folder, &About::new(job, number), !written.contains(&number), renew);
    let found = read_all(&numbers, examine);
    let error =
        found.values().find_map(|found| if let Found::Unread(error) = found { Some(error) } else { None });
    error.map_or(Ok(()), |error| Err(error.clone()))?;
    Ok(found)
}

/// Calls `read` for each shot on several threads, each with a buffer for one file at a time.
pub fn read_all<T: Send>(numbers: &[usize], read: impl Fn(usize) -> T + Sync) -> BTreeMap<usize, T> {
    let next = AtomicUsize::new(0);
    let all = Mutex::new(BTreeMap::new());
    let readers = thread::available_parallelism().map_or(1, NonZero::get).clamp(1, READERS);
    let work = || {
        loop {
            let Some(&number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
            let found = read(number);
            all.lock().unwrap_or_else(PoisonError::into_inner).insert(number, found);
        }
    };
    thread::scope(|scope| {
        // If the system provides no more threads, the existing ones do the work.
        for _ in 1..readers {
            drop(thread::Builder::new().spawn_scoped(scope, work));
        }
        work();
    });
    all.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Snapshots of steps that the survey does not have, by shot.
pub type Strays = BTreeMap<usize, Vec<String>>;

/// Removes the snapshots of killed runs. A run of all shots removes those of shots without a
/// description or a saved state of this survey; without `resume` a saved state does not count. Each
/// run removes the strays of its shots, and returns the strays of shots that may arrive later.
pub fn remove_strays(job: &Job, resume: bool) -> io::Result<Strays> {
    let mut strays = Strays::new();
    for entry in fs::read_dir(&job.folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let parts = name.to_str().and_then(|name| Some((name, names::snapshot_parts(name)?)));
        let Some((name, (number, step))) = parts else { continue };
        if !(1..=job.shots.len()).contains(&number) || !entry.file_type()?.is_file() {
            continue;
        }
        let path = |name: String| job.folder.join(name);
        let is_described = || path(names::side(number)).symlink_metadata().is_ok();
        let is_saved = || {
            checkpoint::header(&path(names::paused(number)))
                .is_some_and(|header| header.key == job.key(number))
        };
        if !side::has_snapshot(&job.shots[number - 1], step) {
            strays.entry(number).or_default().push(name.to_owned());
        } else if !(job.is_part || is_described() || (resume && is_saved())) {
            fs::remove_file(entry.path())?;
        }
    }
    for &number in &job.numbers {
        remove_unlisted(&job.folder, number, &mut strays);
    }
    Ok(strays)
}

/// Removes the strays of a shot, except those that its description or saved state lists: they are
/// removed when the shot is computed again. A failure is logged.
pub fn remove_unlisted(folder: &Path, number: usize, strays: &mut Strays) {
    let Some(strays) = strays.remove(&number) else { return };
    let described =
        Description::of(folder, number).into_iter().flat_map(|found| found.snapshots).map(|one| one.file);
    let saved = checkpoint::header(&folder.join(names::paused(number)));
    let saved = saved.into_iter().flat_map(|header| header.snapshots.into_keys());
    let listed: BTreeSet<_> = described.chain(saved.map(|step| names::snapshot(number, step))).collect();
    for name in strays.iter().filter(|name| !listed.contains(*name)) {
        remove(&folder.join(name)).unwrap_or_else(|error| log::warn!("{error}"));
    }
}

/// Checks one shot, as [`examine`] does. With `read` false only the sizes of its files.
pub fn shot(folder: &Path, about: &About, read: bool, renew: bool) -> Found {
    let (record, side) = (names::record(about.number), names::side(about.number));
    let text = match side::read(&folder.join(&side)) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return match fs::symlink_metadata(folder.join(&record)) {
                Ok(_) => Found::Unfit(format!("{record} has no {side}")),
                Err(_) => Found::Nothing,
            };
        }
        Err(error) => return unfit(folder, format!("{side} cannot be read: {error}")),
    };
    let description = Description::parse(&text);
    let Some((found, sums)) = description.and_then(|found| found.sums().map(|sums| (found, sums))) else {
        return Found::Unfit(format!("{side} is damaged, or another program wrote it"));
    };
    if found.key != about.key {
        return Found::Unfit(STALE.into());
    }
    match whole(folder, about, &sums, read) {
        Ok(()) => {
            if renew {
                // A killed run, or a part that another part has overtaken, may have left the state.
                let renewed = update(folder, about, &sums, &text);
                for error in [renewed, remove(&folder.join(names::paused(about.number)))] {
                    error.unwrap_or_else(|error| log::warn!("{error}"));
                }
            }
            Found::Whole
        }
        Err(why) => unfit(folder, why),
    }
}

fn unfit(folder: &Path, why: String) -> Found {
    let advice = format!("{why}; the file may be whole: start the run again, or remove the file");
    let error = Error::io("read the results in", folder, advice);
    if may_pass(&error) || error.is_out_of_descriptors() { Found::Unread(error) } else { Found::Unfit(why) }
}

/// Opens the saved state of a shot, if it exists, and checks it and its snapshots. The error is the
/// reason why it is not usable.
pub fn saved_state(folder: &Path, about: &About) -> std::result::Result<Option<Checkpoint>, String> {
    let Some(checkpoint) = Checkpoint::open(&folder.join(names::paused(about.number)))? else {
        return Ok(None);
    };
    let header = &checkpoint.header;
    if header.key != about.key || header.done >= about.plan.steps(&about.shot) {
        return Err(STALE.into());
    }
    if header.layout != STATE_LAYOUT {
        return Err("another version saved it".into());
    }
    for step in snapshot_steps(&about.shot).take_while(|&step| step < header.done) {
        let name = names::snapshot(about.number, step);
        let (saved, cells) = (header.snapshots.get(&step), about.plan.model.grid.cells());
        if saved.is_none_or(|&sum| check(folder, &name, Some(cells), Some(sum)).is_err()) {
            return Err(format!("{name} is missing or damaged"));
        }
    }
    Ok(Some(checkpoint))
}

/// Returns the headers of the usable saved states of shots that are not complete.
pub fn saved_states(job: &Job, found: &BTreeMap<usize, Found>) -> BTreeMap<usize, Header> {
    let unfinished = found.iter().filter(|(_, found)| **found != Found::Whole);
    let unfinished: Vec<usize> = unfinished.map(|(&number, _)| number).collect();
    let state = |number| saved_state(&job.folder, &About::new(job, number)).ok().flatten();
    let states = read_all(&unfinished, |number| state(number).map(|state| state.header));
    states.into_iter().filter_map(|(number, header)| Some((number, header?))).collect()
}

/// Updates the fields of a description that the key does not cover, such as the version.
fn update(folder: &Path, about: &About, sums: &Sums, text: &[u8]) -> Result<()> {
    let fresh = about.text(sums)?;
    if fresh.as_bytes() == text {
        return Ok(());
    }
    atomic::write(&folder.join(names::side(about.number)), fresh.as_bytes())
}

fn whole(folder: &Path, about: &About, sums: &Sums, read: bool) -> std::result::Result<(), String> {
    let record = about.traces() * about.shot.samples();
    check(folder, &names::record(about.number), Some(record), read.then_some(sums.record))?;
    for step in snapshot_steps(&about.shot) {
        let name = names::snapshot(about.number, step);
        let Some(&sum) = sums.snapshots.get(&step) else { return Err(format!("{name} is not described")) };
        check(folder, &name, Some(about.plan.model.grid.cells()), read.then_some(sum))?;
    }
    Ok(())
}

/// Compares the number of float32 values and the CRC-32 of a file, each unless it is `None`. The
/// error is the difference.
pub fn check(
    folder: &Path,
    name: &str,
    values: Option<usize>,
    sum: Option<u32>,
) -> std::result::Result<(), String> {
    let path = folder.join(name);
    let failed = |error: io::Error| format!("{name}: {error}");
    let size = size(&path).map_err(failed)?;
    if let Some(wanted) = values.map(|values| 4 * values as u64).filter(|&wanted| wanted != size) {
        return Err(format!("{name} is not {wanted} bytes long"));
    }
    match sum {
        Some(sum) if checksum(&path).map_err(failed)? != sum => {
            Err(format!("{name} is damaged: its checksum differs"))
        }
        _ => Ok(()),
    }
}

/// Returns the bytes of a plain file.
fn size(path: &Path) -> io::Result<u64> {
    let found = fs::symlink_metadata(path)?;
    if found.is_file() { Ok(found.len()) } else { Err(io::Error::other("not a plain file")) }
}

/// Returns the CRC-32 of a file.
fn checksum(path: &Path) -> io::Result<u32> {
    let mut file = BufReader::with_capacity(1 << 18, descriptor::open_read(path)?);
    let mut summed = Summed::new(io::sink());
    io::copy(&mut file, &mut summed)?;
    Ok(summed.sum.finalize())
}

/// Maximum number of shots that a line names.
const NAMED: usize = 8;

/// Prints the number of kept shots, and why others are not kept.
/// `paused`: number of usable saved states.
pub fn report(found: &BTreeMap<usize, Found>, paused: usize) {
    let mut reasons: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut kept = 0;
    for (&number, found) in found {
        let event = match found {
            Found::Whole => {
                kept += 1;
                json!({ "event": "shot", "shot": number, "state": "kept" })
            }
            Found::Unfit(why) => {
                reasons.entry(why).or_default().push(number);
                json!({ "event": "redo", "shot": number, "why": why })
            }
            Found::Nothing | Found::Unread(_) => continue,
        };
        if say::has_events() {
            say!("{event}");
        }
    }
    let redone = reasons.values().map(Vec::len).sum::<usize>();
    let missing = found.len() - kept - redone;
    for (why, numbers) in reasons {
        let named: Vec<_> = numbers.iter().take(NAMED).map(usize::to_string).collect();
        let more = match numbers.len() - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        say::for_people(&format!("not kept: shot {}{more}: {why}", named.join(", ")));
    }
    let states =
        if paused == 0 { String::new() } else { format!("; {paused} of these continue from a saved state") };
    let shots = found.len();
    say::report(
        &format!("resume: {kept} of {shots} shots kept, {redone} computed again, {missing} missing{states}"),
        &json!({ "event": "resume", "kept": kept, "redone": redone, "missing": missing, "paused": paused }),
    );
}
