//! The reports of runs in an output folder: `survey.json`, and those of parts.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use gpusched::{Error, Result};
use serde_json::{Map, Value};

use crate::positions::MOST_SHOTS;
use crate::{names, process, side};

/// Keys whose values differ between the runs of a survey, beside those that describe its shots.
pub const OF_RUN: [&str; 8] =
    ["node", "seconds", "devices", "slots", "shot_bytes", "shot_host_bytes", "output_bytes", "warnings"];

/// The report of a run: its `survey.json`, or that of a part.
pub struct Report {
    pub path: PathBuf,
    pub content: Map<String, Value>,
}

impl Report {
    /// Reads a report. Returns `None` if the file has been removed, or is a copy under a name that
    /// only has the form of a part's report.
    pub fn read(path: PathBuf) -> Result<Option<Report>> {
        let unfit = || Error::io("read", &path, "it is damaged, or another program or version wrote it");
        let bytes = match side::read(&path) {
            Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|why| Error::io("read", &path, why))?,
        };
        let content: Map<String, Value> = serde_json::from_slice(&bytes).map_err(|_| unfit())?;
        let is_number = |shots: &Value| shots.as_u64().is_some_and(|shots| shots <= MOST_SHOTS as u64);
        let is_whole = content.get("key").is_some_and(Value::is_string)
            && content.get("number_of_shots").is_some_and(is_number)
            && content.get("shots").and_then(Value::as_array).is_some_and(|shots| shots.iter().all(is_shot));
        if !is_whole {
            return Err(unfit());
        }
        let report = Report { path, content };
        Ok(Some(report).filter(Report::has_its_name))
    }

    fn has_its_name(&self) -> bool {
        let name = self.name();
        let of_part = || self.content.get("part").is_some_and(Value::is_string);
        name == names::MANIFEST || of_part() && name.starts_with(&format!("survey.{}-", self.text("node")))
    }

    pub fn text(&self, key: &str) -> &str {
        self.content.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    pub fn shots(&self) -> &[Value] {
        self.content.get("shots").and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    pub fn number_of_shots(&self) -> usize {
        self.content.get("number_of_shots").and_then(Value::as_u64).unwrap_or_default() as usize
    }

    /// Returns the part of the report that a merged report contains.
    pub fn run(&self) -> Value {
        let kept = ["part", "state"].into_iter().chain(OF_RUN);
        let kept = kept.filter_map(|key| Some((key.to_owned(), self.content.get(key)?.clone())));
        let mut run: Map<String, Value> = kept.collect();
        run.insert("report".into(), self.name().into());
        Value::Object(run)
    }

    /// Returns true for a report that `collect` has merged.
    pub fn is_merged(&self) -> bool {
        self.content.contains_key("runs")
    }

    /// Returns the runs that were merged into the report.
    pub fn runs(&self) -> Vec<Value> {
        self.content.get("runs").and_then(Value::as_array).cloned().unwrap_or_default()
    }

    /// Returns true if the process of the run has ended. False: it runs, or is not on this node.
    pub fn is_known_to_have_ended(&self, node: &str) -> bool {
        let process = self.content.get("process").filter(|_| self.text("node") == node);
        process.is_some_and(process::has_ended)
    }

    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

fn is_shot(shot: &Value) -> bool {
    shot["shot"].is_u64() && shot["state"].is_string()
}

/// Returns the reports of a folder, in the order of their last change.
pub fn manifests(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |why| Error::io("list", folder, why);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_name().to_str().is_some_and(names::is_manifest) {
            let changed = entry.metadata().and_then(|about| about.modified()).ok();
            found.push((changed, entry.path()));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Returns true for the report of a part that has not written it yet.
pub fn is_empty(report: &Path) -> bool {
    fs::metadata(report).is_ok_and(|about| about.len() == 0)
}

/// Returns true if a folder has reports, and each run that excludes this one has ended: a run of all
/// shots, or for such a run any.
pub fn has_only_ended(folder: &Path, is_part: bool) -> bool {
    let read = |path| Report::read(path).ok().flatten();
    let reports: Vec<_> = manifests(folder).unwrap_or_default().into_iter().filter_map(read).collect();
    let node = names::node();
    let excludes = |report: &Report| {
        let counts = !report.is_merged() && (!is_part || report.name() == names::MANIFEST);
        counts && report.text("state") == "running" && !report.is_known_to_have_ended(&node)
    };
    !reports.is_empty() && !reports.iter().any(excludes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of all shots removes the reports of parts.
    #[test]
    fn report_that_is_removed_after_its_folder_is_listed_does_not_count() {
        let folder = testkit::Folder::new();
        assert!(matches!(Report::read(folder.at("survey.node-1.json")), Ok(None)));
    }
}
