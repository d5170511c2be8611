//! `survey.json`: the parameters, and the state of each shot. It is written at the start and updated as shots end, so
//! that it is also true of a run that was killed.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use gpusched::io::atomic;
use gpusched::{Error, Result};
use serde_json::{Value, json};

use crate::job::Job;
use crate::output::Report;
use crate::{names, positions};

/// The reciprocal of the largest share of the time that writing takes while shots end.
const PART: u32 = 20;

pub struct Manifest {
    path: PathBuf,
    content: Value,
    begun: Instant,
    /// Time of the last write, and its duration.
    written: Option<(Instant, Duration)>,
}

impl Manifest {
    pub fn new(job: &Job, mut summary: Value) -> Manifest {
        let shots: Vec<_> = (1..=job.shots.len())
            .map(|number| {
                json!({
                    "shot": number,
                    "source_m": positions::metres(job.grid(), job.shots[number - 1].source),
                    "state": "queued",
                })
            })
            .collect();
        if let Value::Object(parts) = &mut summary {
            parts.insert("number_of_shots".into(), job.shots.len().into());
            parts.insert("version".into(), env!("CARGO_PKG_VERSION").into());
            parts.insert(
                "wavelet".into(),
                json!({
                    "shape": job.survey.wavelet.shape,
                    "frequency_hz": job.survey.wavelet.frequency_hz,
                    "amplitude": job.survey.amplitude(),
                }),
            );
            parts.insert("state".into(), "running".into());
            parts.insert("shots".into(), shots.into());
        }
        let path = job.folder.join(names::MANIFEST);
        Manifest { path, content: summary, begun: Instant::now(), written: None }
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

    fn whole(&mut self, number: usize, files: Vec<String>) -> &mut Value {
        let shot = &mut self.content["shots"][number - 1];
        shot["state"] = "done".into();
        shot["record"] = names::record(number).into();
        shot["description"] = names::side(number).into();
        shot["files"] = files.into();
        shot
    }

    pub fn failed(&mut self, number: usize, why: &str) {
        let shot = &mut self.content["shots"][number - 1];
        shot["state"] = "failed".into();
        shot["error"] = why.into();
    }

    /// Records a shot that was stopped after so many steps.
    pub fn paused(&mut self, number: usize, done: usize) {
        let shot = &mut self.content["shots"][number - 1];
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
        done
    }

    pub fn write_now_and_then(&mut self) -> Result<()> {
        if self.written.is_some_and(|(written, took)| written.elapsed() < took * PART) {
            return Ok(());
        }
        self.write()
    }

    /// Writes the end of the run. `open`: number of shots that were not started, or stopped.
    pub fn finish(&mut self, failed: usize, open: usize) -> Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifest_is_renewed_when_the_last_writing_is_long_ago_for_its_cost() {
        let folder = testkit::Folder::new();
        let path = folder.at("survey.json");
        let now = Instant::now();
        for (took, renewed) in [(Duration::ZERO, true), (Duration::from_secs(3600), false)] {
            let _ = std::fs::remove_file(&path);
            let written = Some((now, took));
            let mut manifest = Manifest { path: path.clone(), content: json!({}), begun: now, written };
            manifest.write_now_and_then().unwrap();
            assert_eq!(path.exists(), renewed, "after {took:?}");
        }
    }
}
