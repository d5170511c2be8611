//! `gpusched status` and `gpusched collect`: the state of each shot of an output folder. The
//! sources are the reports of one or several runs, and the descriptions beside the records.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use gpusched::io::atomic;
use gpusched::{Error, Result, descriptor};
use serde_json::{Value, json};

use crate::reports::{OF_RUN, Report, is_empty, manifests};
use crate::say::{self, say};
use crate::side::Description;
use crate::{checkpoint, names, part, resume};

/// Maximum number of failed shots whose errors are printed.
const NAMED: usize = 20;

/// The state of all shots.
pub struct Merged {
    folder: PathBuf,
    reports: Vec<Report>,
    shots: Vec<Value>,
    /// Why `survey.json` was not written, which was not necessary.
    unwritten: Option<String>,
}

/// Reads the reports, and checks which descriptions exist.
pub fn status(folder: &Path) -> Result<Merged> {
    merge(folder, None, false)
}

/// Checks the files of all shots and writes `survey.json`, unless a run of all shots still writes
/// it. Removes the reports of parts if none of them still runs.
pub fn collect(folder: &Path) -> Result<Merged> {
    // Each part that runs shares the lock; a run of all shots holds it alone.
    let claim = descriptor::open_read(folder).ok();
    let lock = |lock: fn(&File) -> std::result::Result<(), TryLockError>| claim.as_ref().map(lock);
    let mut compared = Compared::default();
    let (mut merged, all_ended) = loop {
        // Without a lock, because parts may begin meanwhile.
        let merged = merge(folder, Some(&compared), false)?;
        compared = Compared::of(&merged);
        if !matches!(lock(File::try_lock), Some(Ok(()))) {
            break (merged, false);
        }
        let merged = merge(folder, Some(&compared), true)?;
        // A part may have written other shots meanwhile. Their files are not read under the lock.
        if Compared::of(&merged).good.is_subset(&compared.all) {
            break (merged, true);
        }
        drop(claim.as_ref().map(File::unlock));
    };
    if !all_ended && matches!(lock(File::try_lock_shared), Some(Err(TryLockError::WouldBlock))) {
        return Ok(merged);
    }
    let text = serde_json::to_string_pretty(&merged.manifest())
        .map_err(|error| Error::Internal(format!("survey.json: {error}")))?;
    match atomic::write(&folder.join(names::MANIFEST), text.as_bytes()) {
        Err(Error::Io { why, .. }) if merged.is_complete() => merged.unwritten = Some(why),
        written => written?,
    }
    if all_ended {
        remove_parts(folder);
    }
    Ok(merged)
}

/// Removes the reports of parts. A failure is logged.
pub fn remove_parts(folder: &Path) {
    for path in manifests(folder).unwrap_or_default() {
        // The user may have a file of such a name.
        if path.file_name().is_some_and(|name| name != names::MANIFEST)
            && (is_empty(&path) || matches!(Report::read(path.clone()), Ok(Some(_))))
            && let Err(why) = fs::remove_file(&path)
        {
            log::warn!("could not remove {}: {why}", path.display());
        }
    }
}

/// The shots whose checksums were compared.
#[derive(Default)]
struct Compared {
    all: BTreeSet<usize>,
    good: BTreeSet<usize>,
}

impl Compared {
    fn of(merged: &Merged) -> Compared {
        let good: BTreeSet<usize> = merged.numbers("done").into_iter().collect();
        let damaged = (1..).zip(&merged.shots).filter(|(_, shot)| is_damaged(shot)).map(|(number, _)| number);
        Compared { all: good.iter().copied().chain(damaged).collect(), good }
    }
}

/// Merges the reports of a folder. Compares the checksums of the shots that are not known to be
/// good. `None`: no checksum is compared. `all_ended`: no run writes to the folder; then only those
/// of shots that were damaged are compared.
fn merge(folder: &Path, compared: Option<&Compared>, all_ended: bool) -> Result<Merged> {
    let node = names::node();
    let mut reports = Vec::new();
    for path in manifests(folder)?.into_iter().filter(|path| !is_empty(path)) {
        let Some(mut report) = Report::read(path)? else { continue };
        let ended = || all_ended || report.is_known_to_have_ended(&node);
        if report.text("state") == "running" && ended() {
            report.content.insert("state".into(), "killed".into());
        }
        reports.push(report);
    }
    let Some(last) = reports.last() else {
        let why = "no run has written survey.json there; name the folder of output.folder";
        return Err(Error::io("read the results in", folder, why));
    };
    if let Some(other) = reports.iter().find(|report| report.text("key") != last.text("key")) {
        let why = format!("it is of another survey than {}; remove the one that is not wanted", last.name());
        return Err(Error::io("merge", &other.path, why));
    }
    let mut listed: BTreeMap<u64, Vec<(&Report, &Value)>> = BTreeMap::new();
    for report in &reports {
        for shot in report.shots() {
            listed.entry(shot["shot"].as_u64().unwrap_or_default()).or_default().push((report, shot));
        }
    }
    let numbers: Vec<usize> = (1..=last.number_of_shots()).collect();
    let shots = resume::read_all(&numbers, |number| {
        let listed = listed.get(&(number as u64)).map_or(&[][..], Vec::as_slice);
        let is_good = |of: &Compared| of.good.contains(&number) || all_ended && !of.all.contains(&number);
        state(folder, number, listed, compared.map(is_good))
    });
    let shots = shots.into_values().collect();
    Ok(Merged { folder: folder.to_owned(), shots, reports, unwritten: None })
}

/// Returns the merged entry of a shot, made of its entries in the reports. `is_good`: whether its
/// checksums are known to be right; if not, they are compared. `None`: they are not compared.
fn state(folder: &Path, number: usize, listed: &[(&Report, &Value)], is_good: Option<bool>) -> Value {
    let entry = |(report, shot): &(&Report, &Value)| {
        let mut shot = (*shot).clone();
        if let Some(node) = report.content.get("node").filter(|_| shot.get("node").is_none()) {
            shot["node"] = node.clone();
        }
        shot
    };
    let in_state = |state: &str| listed.iter().rev().find(|(_, shot)| shot["state"] == state);
    let has_key = |key: &str| listed.iter().any(|(_, shot)| shot["key"] == key);
    let without_files = |state: &str, why: Option<String>| {
        let mut shot = listed.last().map_or_else(|| json!({ "shot": number }), |(_, shot)| (*shot).clone());
        if let Value::Object(fields) = &mut shot {
            fields.retain(|name, _| ["shot", "source_m", "key"].contains(&name.as_str()));
            fields.insert("state".into(), state.into());
            why.map(|why| fields.insert("error".into(), why.into()));
        }
        shot
    };
    match Description::of(folder, number) {
        Some(found) if has_key(&found.key) => {
            if is_good == Some(false)
                && let Err(why) = whole(folder, &found, number)
            {
                return without_files("missing", Some(why));
            }
            if is_good.is_none()
                && let Some(bad) = last_bad(listed)
            {
                return entry(bad);
            }
            let mut shot = in_state("done").or(listed.last()).map(entry).unwrap_or_default();
            if let Value::Object(fields) = &mut shot {
                fields.remove("error");
            }
            shot["state"] = "done".into();
            shot["record"] = names::record(number).into();
            shot["description"] = names::side(number).into();
            if shot.get("files").is_none() {
                let snapshots = found.snapshots.into_iter().map(|one| one.file);
                shot["files"] =
                    [names::record(number), names::side(number)].into_iter().chain(snapshots).collect();
            }
            return shot;
        }
        _ => {}
    }
    let is_paused =
        || checkpoint::header(&folder.join(names::paused(number))).is_some_and(|header| has_key(&header.key));
    // A merged report is of no run, and stays as it is when a run is killed.
    let queued = listed.iter().rev().find(|(report, shot)| {
        report.text("state") == "running" && !report.is_merged() && shot["state"] == "queued"
    });
    match (listed.last(), queued) {
        (Some(last), _) if last.1["state"] == "failed" => entry(last),
        (_, Some(queued)) => entry(queued),
        // A killed run that resumed the shot has no entry of its state.
        _ if is_paused() => in_state("paused").map_or_else(|| without_files("paused", None), entry),
        _ => without_files("missing", None),
    }
}

/// Returns true for a shot of which an earlier `collect` found a damaged file.
fn is_damaged(shot: &Value) -> bool {
    shot["state"] == "missing" && shot.get("error").is_some()
}

/// Returns the entry by which a described shot is not done: of an earlier `collect` that found a
/// damaged file, or of the last run, in which the shot failed. `None`: a run has completed the shot
/// since then, or a killed one may have.
fn last_bad<'a, T>(listed: &'a [(T, &Value)]) -> Option<&'a (T, &'a Value)> {
    let decides = |(_, shot): &&(T, &Value)| shot["state"] == "done" || is_damaged(shot);
    let last = listed.iter().rev().find(decides).or(listed.last())?;
    (is_damaged(last.1) || last.1["state"] == "failed").then_some(last)
}

/// Compares the checksums of the files of a shot with its description.
fn whole(folder: &Path, found: &Description, number: usize) -> std::result::Result<(), String> {
    let Some(sums) = found.sums() else { return Err(format!("{} is damaged", names::side(number))) };
    let check = |name: String, sum: u32| resume::check(folder, &name, None, Some(sum));
    check(names::record(number), sums.record)?;
    sums.snapshots.iter().try_for_each(|(&step, &sum)| check(names::snapshot(number, step), sum))
}

impl Merged {
    fn numbers(&self, state: &str) -> Vec<usize> {
        (1..).zip(&self.shots).filter(|(_, shot)| shot["state"] == state).map(|(number, _)| number).collect()
    }

    /// Returns true if `survey.json` alone reports all shots as done, and they are.
    fn is_complete(&self) -> bool {
        let [report] = &self.reports[..] else { return false };
        let is_done = |shot: &Value| shot["state"] == "done";
        report.name() == names::MANIFEST
            && report.text("state") == "done"
            && report.shots().len() == self.shots.len()
            && report.shots().iter().chain(&self.shots).all(is_done)
    }

    /// Returns the merged `survey.json`.
    fn manifest(&self) -> Value {
        let mut content = self.reports.last().map(|last| last.content.clone()).unwrap_or_default();
        for key in ["part", "process", "schedule"].into_iter().chain(OF_RUN) {
            content.remove(key);
        }
        let parts: Vec<Value> = self.reports.iter().map(|report| report.name().into()).collect();
        let merged = |run: &Value| run["report"] == names::MANIFEST || !parts.contains(&run["report"]);
        let (of_parts, of_all): (Vec<_>, Vec<_>) =
            self.reports.iter().partition(|report| !report.is_merged());
        let before = of_all.into_iter().flat_map(Report::runs).filter(merged);
        let runs: Vec<Value> = before.chain(of_parts.into_iter().map(Report::run)).collect();
        let (failed, done) = (self.numbers("failed").len(), self.numbers("done").len());
        let state = match (failed, self.numbers("queued").len()) {
            _ if done == self.shots.len() => "done",
            (_, 1..) => "running",
            (0, 0) => "stopped",
            _ => "failed",
        };
        content.insert("runs".into(), runs.into());
        content.insert("state".into(), state.into());
        content.insert("failed".into(), failed.into());
        content.insert("shots".into(), self.shots.clone().into());
        content.into()
    }

    /// Prints the counts. Returns true if all shots are done.
    pub fn report(&self, as_json: bool) -> bool {
        let shots = self.shots.len();
        let [done, failed, paused, queued, missing] =
            ["done", "failed", "paused", "queued", "missing"].map(|state| self.numbers(state).len());
        let open =
            (1..).zip(&self.shots).filter(|(_, shot)| shot["state"] != "done").map(|(number, _)| number);
        let open = part::list(open);
        let errors = self.shots.iter().filter(|shot| shot.get("error").is_some());
        if as_json {
            let errors: Vec<_> = errors
                .map(|shot| json!({ "shot": shot["shot"], "node": shot["node"], "error": shot["error"] }))
                .collect();
            let mut event = json!({
                "event": "status",
                "folder": self.folder.to_string_lossy(),
                "shots": shots,
                "done": done,
                "failed": failed,
                "paused": paused,
                "queued": queued,
                "missing": missing,
                "not_done": open,
                "errors": errors,
            });
            if let Some(why) = &self.unwritten {
                event["unwritten"] = why.as_str().into();
            }
            say!("{event}");
            return done == shots;
        }
        for shot in errors.clone().take(NAMED) {
            let node = shot["node"].as_str().map_or(String::new(), |node| format!(" on {node}"));
            let why = shot["error"].as_str().unwrap_or_default();
            say::alert(&format!(
                "shot {}, {}{node}: {why}",
                shot["shot"],
                shot["state"].as_str().unwrap_or_default()
            ));
        }
        if let more @ 1.. = errors.count().saturating_sub(NAMED) {
            say::alert(&format!("{more} more shots have errors; --json lists all"));
        }
        let mut line = format!("{done} of {shots} shots done");
        for (count, what) in
            [(failed, "failed"), (paused, "stopped"), (queued, "running or queued"), (missing, "missing")]
        {
            if count > 0 {
                line += &format!(", {count} {what}");
            }
        }
        say!("{line}");
        if let Some(why) = &self.unwritten {
            say!("survey.json is complete, and was not written: {why}");
        }
        if done < shots {
            say!("not done: {open}");
        }
        done == shots
    }
}
