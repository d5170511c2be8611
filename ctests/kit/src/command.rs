//! The `gpusched` command, run in a temporary folder.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::ops::Deref;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

use crate::process::{isolated, output};
use crate::{Folder, built};

/// Four shots over a step in velocity, on the smallest useful grid.
pub const SURVEY: &str = r#"title = "Test"
[grid]
n = [24, 8, 16]
spacing_m = 10.0
[model]
vp = { layers = [{ value = 1500.0 }, { top_m = 80.0, value = 2000.0 }] }
rho = "gardner"
[time]
dt_s = 0.002
nt = 60
record_every = 2
[wavelet]
frequency_hz = 20.0
[sources]
first_m = [60.0, 40.0, 10.0]
step_m = [40.0, 10.0]
count = [4, 1]
[receivers]
every = [2, 4]
[snapshots]
every = 30
[output]
pictures = 1
"#;

/// Returns `SURVEY` with four time steps and without pictures, for tests of files and events.
pub fn brief() -> String {
    let steps = SURVEY.replace("nt = 60", "nt = 4").replace("every = 30", "every = 3");
    steps.replace("pictures = 1", "pictures = 0")
}

pub fn one_shot(survey: &str) -> String {
    survey.replace("count = [4, 1]", "count = [1, 1]").replace("pictures = 1", "pictures = 0")
}

pub fn executable() -> PathBuf {
    let path = built().with_file_name("gpusched");
    assert!(path.exists(), "{} does not exist: cargo build", path.display());
    path
}

pub struct Workspace {
    folder: Folder,
}

impl Deref for Workspace {
    type Target = Folder;

    fn deref(&self) -> &Folder {
        &self.folder
    }
}

impl Workspace {
    #[allow(clippy::new_without_default)] // it touches the disk
    pub fn new() -> Workspace {
        Workspace { folder: Folder::new() }
    }

    pub fn with_survey(text: &str) -> Workspace {
        let workspace = Workspace::new();
        fs::write(workspace.at("survey.toml"), text).unwrap();
        workspace
    }

    pub fn floats(&self, name: &str) -> Vec<f32> {
        let bytes = fs::read(self.at(name)).unwrap();
        bytes.chunks_exact(4).map(|value| f32::from_le_bytes(value.try_into().unwrap())).collect()
    }

    pub fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.at(name)).unwrap()).unwrap()
    }

    /// Returns the command in this folder, on the CPU whatever the environment says.
    pub fn command(&self, args: &[impl AsRef<OsStr>]) -> Command {
        let mut command = isolated(executable());
        command.args(args).current_dir(self.path()).env("XDG_CACHE_HOME", self.at("cache"));
        command
    }

    pub fn gpusched(&self, args: &[impl AsRef<OsStr>]) -> Ended {
        Ended::from(output(&mut self.command(args)).unwrap())
    }

    /// Returns all files in `out` by name, except survey.json, which describes the run and not the
    /// shots.
    pub fn results(&self) -> BTreeMap<String, Vec<u8>> {
        let all = fs::read_dir(self.at("out")).into_iter().flatten().map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let bytes = fs::read(self.at("out").join(&name)).unwrap();
            (name, bytes)
        });
        all.filter(|(name, _)| name != "survey.json").collect()
    }
}

#[derive(Debug)]
pub struct Ended {
    /// -1 if a signal ended the process.
    pub status: i32,
    pub out: String,
    pub err: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Ended {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let status = output.status.code().unwrap_or(-1);
        Ended { status, out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Ended {
    pub fn events(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub fn shots(&self, state: &str) -> Vec<u64> {
        let events = self.events();
        let mut shots: Vec<_> = events
            .iter()
            .filter(|event| event["event"] == "shot" && event["state"] == state)
            .map(|event| event["shot"].as_u64().unwrap())
            .collect();
        shots.sort_unstable();
        shots
    }
}
