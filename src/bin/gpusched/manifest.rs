//! `survey.json`: the parameters, and the state of each shot. It is written at the start and
//! updated as shots end, so it is also right after a run was killed. A part of a survey has a file
//! of its own with only its shots.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gpusched::io::atomic;
use gpusched::{Error, Result, descriptor};
use serde_json::{Value, json};

use crate::job::Job;
use crate::output::Report;
use crate::{names, positions, process, side};

/// Reciprocal of the largest fraction of the time that writing the manifest takes while shots end.
const PART: u32 = 20;

/// Results of the earlier processes of a run that has started again.
#[derive(Default)]
pub struct Earlier {
    /// The manifest, which the run continues.
    path: Option<PathBuf>,
    /// Entries of the shots that they computed.
    pub shots: BTreeMap<usize, Value>,
    /// Numbers of the shots that they computed or kept.
    pub written: BTreeSet<usize>,
    pub time: Duration,
    /// Statistics of the devices, as the summary has them.
    pub schedule: Value,
}

impl Earlier {
    /// Reads the manifest of this survey that an earlier image of this process has written. Returns
    /// an error if the survey is another one now.
    pub fn read(job: &Job) -> Result<Earlier> {
        let is_own = |content: &Value| {
            content["process"] == process::name() && content["key"] == job.survey_key().as_str()
        };
        let parts = (1..).map(names::part_manifest);
        let names: Box<dyn Iterator<Item = String>> =
            if job.is_part { Box::new(parts) } else { Box::new([names::MANIFEST.to_owned()].into_iter()) };
        for path in names.map(|name| job.folder.join(name)) {
            let text = match side::read(&path) {
                Err(why) if why.kind() == ErrorKind::NotFound => break,
                read => read.map_err(|why| Error::io("read", &path, why))?,
            };
            let Some(content) = serde_json::from_slice(&text).ok().filter(is_own) else { continue };
            return Ok(Earlier::of(path, &content));
        }
        // `gpusched collect` may have merged it while the folder was free.
        let path = job.folder.join(names::MANIFEST);
        let merged: Option<Value> = match side::read(&path) {
            Err(why) if why.kind() == ErrorKind::NotFound => None,
            read => serde_json::from_slice(&read.map_err(|why| Error::io("read", &path, why))?).ok(),
        };
        if merged.is_some_and(|content| content["key"] == job.survey_key().as_str()) {
            return Ok(Earlier::default());
        }
        let why = "the survey, its model or output.folder was changed during the run; `gpusched run --resume` \
                   with the earlier ones computes the missing shots";
        Err(Error::io("continue the run in", &job.folder, why))
    }

    fn of(path: PathBuf, content: &Value) -> Earlier {
        let shots = content["shots"].as_array().into_iter().flatten();
        let done = shots.filter(|shot| shot["state"] == "done");
        let entry = |shot: &Value| Some((shot["shot"].as_u64()? as usize, shot.clone()));
        let mut shots: BTreeMap<usize, Value> = done.filter_map(entry).collect();
        let written = shots.keys().copied().collect();
        shots.retain(|_, shot| shot["kept"].is_null());
        let seconds = content["seconds"].as_f64().unwrap_or_default();
        Earlier {
            path: Some(path),
            shots,
            written,
            time: Duration::try_from_secs_f64(seconds).unwrap_or_default(),
            schedule: content["schedule"].clone(),
        }
    }

    /// Returns when the first process of the run began.
    pub fn begun(&self) -> Instant {
        let now = Instant::now();
        now.checked_sub(self.time).unwrap_or(now)
    }
}

pub struct Manifest {
    path: PathBuf,
    content: Value,
    /// Numbers of the shots of the run.
    numbers: Vec<usize>,
    begun: Instant,
    /// Time of the last write, and its duration.
    written: Option<(Instant, Duration)>,
    /// The file has been written, so that another process can continue the run.
    is_on_disk: bool,
}

impl Manifest {
    /// Prepares the manifest. The file of a part is created under a new name and is empty until the
    /// first write.
    pub fn new(job: &Job, mut summary: Value, earlier: &Earlier) -> Result<Manifest> {
        let numbers: Vec<usize> = job.numbers.iter().copied().collect();
        let shots: Vec<_> = numbers.iter().map(|&number| queued(job, number)).collect();
        if let Value::Object(parts) = &mut summary {
            parts.insert("number_of_shots".into(), job.shots.len().into());
            parts.insert("key".into(), job.survey_key().into());
            parts.insert("node".into(), names::node().into());
            parts.insert("process".into(), process::name());
            parts.insert("version".into(), env!("CARGO_PKG_VERSION").into());
            parts.insert("wavelet".into(), job.survey.wavelet());
            parts.insert("mute".into(), json!(job.survey.mute));
            parts.insert("state".into(), "running".into());
            parts.insert("shots".into(), shots.into());
        }
        let path = match &earlier.path {
            Some(path) => path.clone(),
            None if job.is_part => claim_name(&job.folder)?,
            None => job.folder.join(names::MANIFEST),
        };
        let (begun, is_on_disk) = (earlier.begun(), earlier.path.is_some());
        Ok(Manifest { path, content: summary, numbers, begun, written: None, is_on_disk })
    }

    /// Adds a shot, or resets its state.
    pub fn add(&mut self, job: &Job, number: usize) {
        let Some(shots) = self.content["shots"].as_array_mut() else { return };
        match self.numbers.binary_search(&number) {
            Ok(at) => shots[at] = queued(job, number),
            Err(at) => {
                self.numbers.insert(at, number);
                shots.insert(at, queued(job, number));
            }
        }
    }

    pub fn done(&mut self, number: usize, report: &Report) {
        let shot = self.whole(number, report.files.clone());
        shot["device"] = report.device.clone().into();
        shot["attempt"] = report.attempt.into();
        shot["seconds"] = report.seconds.into();
        shot["computed"] = report.computed.into();
    }

    /// Records a shot that an earlier run computed.
    pub fn kept(&mut self, number: usize, files: Vec<String>) {
        self.whole(number, files)["kept"] = true.into();
    }

    /// Records a shot that an earlier process of the run computed, by its entry.
    pub fn computed(&mut self, number: usize, entry: Value) {
        *self.shot(number) = entry;
    }

    fn whole(&mut self, number: usize, files: Vec<String>) -> &mut Value {
        let shot = self.shot(number);
        shot["state"] = "done".into();
        shot["record"] = names::record(number).into();
        shot["description"] = names::side(number).into();
        shot["files"] = files.into();
        shot
    }

    fn shot(&mut self, number: usize) -> &mut Value {
        let at = self.numbers.binary_search(&number).unwrap_or_default();
        &mut self.content["shots"][at]
    }

    pub fn failed(&mut self, number: usize, why: &str) {
        let shot = self.shot(number);
        shot["state"] = "failed".into();
        shot["error"] = why.into();
    }

    /// Records a shot that was stopped after `done` steps.
    pub fn paused(&mut self, number: usize, done: usize) {
        let shot = self.shot(number);
        shot["state"] = "paused".into();
        shot["steps_done"] = done.into();
    }

    pub fn write(&mut self) -> Result<()> {
        let begin = Instant::now();
        self.content["seconds"] = self.begun.elapsed().as_secs_f64().into();
        let text = serde_json::to_string_pretty(&self.content)
            .map_err(|error| Error::Internal(format!("survey.json: {error}")))?;
        let done = atomic::write(&self.path, text.as_bytes());
        self.written = Some((Instant::now(), begin.elapsed()));
        self.is_on_disk |= done.is_ok();
        done
    }

    /// Writes the manifest unless it has been written. Returns false after a failure.
    pub fn ensure_on_disk(&mut self) -> bool {
        self.is_on_disk || self.write().is_ok()
    }

    pub fn write_now_and_then(&mut self) -> Result<()> {
        if self.written.is_some_and(|(written, took)| written.elapsed() < took * PART) {
            return Ok(());
        }
        self.write()
    }

    /// Writes the final state of the run. `open`: number of shots that were not started, or
    /// stopped. `schedule`: statistics for the next process of the run.
    pub fn finish(&mut self, failed: usize, open: usize, schedule: Option<Value>) -> Result<()> {
        if let Some(schedule) = schedule {
            self.content["schedule"] = schedule;
        }
        self.content["state"] = match (failed, open) {
            (0, 0) => "done",
            (0, _) => "stopped",
            _ => "failed",
        }
        .into();
        self.content["failed"] = failed.into();
        self.write()
    }
}

/// Creates an empty file with a name that no other part has. The host name and the process id are
/// not unique: containers may share both.
fn claim_name(folder: &Path) -> Result<PathBuf> {
    let mut count = 1;
    loop {
        let path = folder.join(names::part_manifest(count));
        match descriptor::create_new(&path) {
            Ok(_) => return Ok(path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => count += 1,
            Err(error) => return Err(Error::io("create", &path, error)),
        }
    }
}

fn queued(job: &Job, number: usize) -> Value {
    json!({
        "shot": number,
        "key": job.key(number),
        "source_m": positions::metres(job.grid(), job.shots[number - 1].source),
        "state": "queued",
    })
}

#[cfg(test)]
mod tests {
    use testkit::command::brief;

    use super::*;

    /// `gpusched collect` may write the report of a run that starts again, without its process.
    #[test]
    fn restart_goes_on_with_the_same_survey_only() {
        let folder = testkit::Folder::new();
        std::fs::write(folder.at("survey.toml"), brief()).unwrap();
        let job = Job::load(&folder.at("survey.toml")).unwrap();
        std::fs::create_dir_all(&job.folder).unwrap();
        assert!(Earlier::read(&job).is_err(), "no report");
        let (key, process) = (job.survey_key(), process::name());
        for (content, goes_on) in [
            (json!({ "key": key, "process": process }), Some(true)),
            (json!({ "key": key }), Some(false)),
            (json!({ "key": "another", "process": process }), None),
        ] {
            std::fs::write(job.folder.join(names::MANIFEST), content.to_string()).unwrap();
            let earlier = Earlier::read(&job).ok();
            assert_eq!(earlier.map(|earlier| earlier.path.is_some()), goes_on, "{content}");
        }
    }

    #[test]
    fn manifest_is_rewritten_only_after_a_multiple_of_its_cost() {
        let folder = testkit::Folder::new();
        let path = folder.at("survey.json");
        let now = Instant::now();
        for (took, renewed) in [(Duration::ZERO, true), (Duration::from_secs(3600), false)] {
            let _ = std::fs::remove_file(&path);
            let written = Some((now, took));
            let mut manifest = Manifest {
                path: path.clone(),
                content: json!({}),
                numbers: Vec::new(),
                begun: now,
                written,
                is_on_disk: false,
            };
            manifest.write_now_and_then().unwrap();
            assert_eq!(path.exists(), renewed, "after {took:?}");
        }
    }
}
