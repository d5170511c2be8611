//! A folder that goes again, a survey in it, and the command run on it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

/// Four shots over a step in velocity, as small as it goes.
pub const SURVEY: &str = r#"title = "Test"
[grid]
n = [24, 8, 16]
spacing_m = 10.0
[model]
velocity = { layers = [{ value = 1500.0 }, { top_m = 80.0, value = 2000.0 }] }
density = "gardner"
[time]
dt_s = 0.002
nt = 60
sample_every = 2
[wavelet]
peak_hz = 20.0
[sources]
first_m = [60.0, 40.0, 10.0]
step_m = [40.0, 10.0]
count = [4, 1]
[receivers]
every = [2, 4]
[snapshots]
every = 30
[output]
pictures = 2
"#;

pub struct Folder {
    path: PathBuf,
}

impl Folder {
    pub fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("gpusched-command-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder { path }
    }

    pub fn with_survey(text: &str) -> Folder {
        let folder = Folder::new();
        fs::write(folder.at("survey.toml"), text).unwrap();
        folder
    }

    pub fn at(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    pub fn floats(&self, name: &str) -> Vec<f32> {
        let bytes = fs::read(self.at(name)).unwrap();
        bytes.chunks_exact(4).map(|value| f32::from_le_bytes(value.try_into().unwrap())).collect()
    }

    pub fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.at(name)).unwrap()).unwrap()
    }

    /// Runs the command in this folder, on the CPU whatever the environment says.
    pub fn gpusched(&self, args: &[&str]) -> Ended {
        let output = Command::new(env!("CARGO_BIN_EXE_gpusched"))
            .args(args)
            .current_dir(&self.path)
            .env_remove("GPUSCHED_DEVICES")
            .env_remove("GPUSCHED_SLOTS")
            .env("XDG_CACHE_HOME", self.at("cache"))
            .output()
            .unwrap();
        Ended::from(output)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[derive(Debug)]
pub struct Ended {
    pub status: i32,
    pub out: String,
    pub err: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Ended {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let status = output.status.code().expect("the command was killed");
        Ended { status, out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Ended {
    pub fn events(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}
