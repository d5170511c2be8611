//! The files of one shot: the raw record, the snapshots, and a JSON file beside them
//! that tells all that is needed to read them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use gpusched::fd::plan::Plan;
use gpusched::fd::shot;
use gpusched::fd::survey::{Gather, Receivers, Shot};
use gpusched::io::{atomic, raw};
use gpusched::sched::{Exec, Task};
use gpusched::{Error, Result};
use serde_json::{Value, json};

use crate::job::Job;
use crate::picture::{Line, Picture, Section};
use crate::positions;

/// One shot's files. Shared by the task that writes them and the command that tells of them.
#[derive(Clone)]
pub struct Files {
    inner: Arc<Inner>,
}

struct Inner {
    number: usize,
    folder: PathBuf,
    plan: Arc<Plan>,
    shot: Shot,
    wavelet: Value,
    /// Step whose snapshot gets a picture, if this shot gets any.
    section_step: Option<usize>,
    pictured: bool,
    /// By attempt: two copies of a shot may run at a time.
    attempts: Mutex<BTreeMap<u32, State>>,
}

#[derive(Default)]
struct State {
    device: String,
    attempt: u32,
    begun: Option<Instant>,
    snapshots: Vec<Value>,
    written: Vec<String>,
    seconds: Option<f64>,
    picture: Picture,
}

/// What is told of a shot that is written.
pub struct Report {
    pub device: String,
    pub seconds: Option<f64>,
    pub files: Vec<String>,
}

impl Files {
    /// For the shot with this number, counted from 1.
    pub fn new(job: &Job, number: usize) -> Files {
        let shot = job.shots[number - 1].clone();
        let pictured = number <= job.survey.output.pictures;
        // The wave is well inside the model about half way.
        let middle = shot.snapshot_every.map(|every| (shot.nt - 1) / every / 2 * every);
        let wavelet = json!({
            "shape": job.survey.wavelet.shape,
            "peak_hz": job.survey.wavelet.peak_hz,
            "amplitude": job.survey.wavelet.amplitude,
            "centre_s": 1.0 / job.survey.wavelet.peak_hz,
        });
        let inner = Inner {
            number,
            folder: job.folder.clone(),
            plan: job.plan.clone(),
            shot,
            wavelet,
            section_step: middle.filter(|_| pictured),
            pictured,
            attempts: Mutex::default(),
        };
        Files { inner: Arc::new(inner) }
    }

    /// The shot as a task that writes these files.
    pub fn task(&self) -> Result<Task> {
        let mut task = shot::task(self.inner.plan.clone(), self.inner.shot.clone(), self.clone())?;
        task.label = format!("shot {}", self.inner.number);
        let (job, files) = (task.job, self.clone());
        task.job = Box::new(move |exec: &Exec<'_>| {
            files.begin(exec)?;
            job.run(exec)
        });
        Ok(task)
    }

    /// Of the attempt that counts, or else of the last.
    pub fn report(&self) -> Report {
        let attempts = self.attempts();
        let counts = attempts.values().find(|state| state.seconds.is_some());
        let state = counts.or_else(|| attempts.values().next_back());
        Report {
            device: state.map(|state| state.device.clone()).unwrap_or_default(),
            seconds: state.and_then(|state| state.seconds),
            files: state.map(|state| state.written.clone()).unwrap_or_default(),
        }
    }

    /// What there is to draw; given once.
    pub fn take_picture(&self) -> Picture {
        let mut attempts = self.attempts();
        let counts = attempts.values_mut().find(|state| state.seconds.is_some());
        counts.map(|state| std::mem::take(&mut state.picture)).unwrap_or_default()
    }

    fn attempts(&self) -> MutexGuard<'_, BTreeMap<u32, State>> {
        self.inner.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Before the first attempt, files of an earlier run go before they could be taken for this one's, the
    /// description before what it describes.
    fn begin(&self, exec: &Exec<'_>) -> Result<()> {
        let fresh = State {
            device: exec.device.label(),
            attempt: exec.attempt,
            begun: Some(Instant::now()),
            ..State::default()
        };
        self.attempts().insert(exec.attempt, fresh);
        if exec.attempt > 1 {
            return Ok(());
        }
        for name in [side_name(self.inner.number), record_name(self.inner.number)] {
            let path = self.inner.folder.join(name);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::io("replace", &path, error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl shot::Output for Files {
    fn snapshot(&self, exec: &Exec<'_>, step: usize, field: &[f32]) -> Result<()> {
        let inner = &self.inner;
        let grid = &inner.plan.model.grid;
        let name = format!("{}_step_{step:06}.bin", stem(inner.number));
        raw::write(&inner.folder.join(&name), field)?;
        let [nx, ny, nz] = grid.n;
        let mut attempts = self.attempts();
        let state = attempts.entry(exec.attempt).or_default();
        state.snapshots.push(json!({
            "file": name,
            "step": step,
            "time_s": time(step, inner.plan.dt),
            "dtype": "<f4",
            "order": "[iy][ix][iz], iz fastest",
            "shape": [ny, nx, nz],
            "crc32": checksum(field),
        }));
        state.written.push(name);
        if inner.section_step == Some(step) {
            let seconds = time(step, inner.plan.dt);
            state.picture.section = Some(Section::cut(grid, inner.shot.source, seconds, field));
        }
        Ok(())
    }

    fn finish(&self, exec: &Exec<'_>, gather: Gather) -> Result<()> {
        let inner = &self.inner;
        let record = record_name(inner.number);
        raw::write(&inner.folder.join(&record), &gather.data)?;
        let mut attempts = self.attempts();
        let state = attempts.entry(exec.attempt).or_default();
        let seconds = state.begun.map(|begun| begun.elapsed().as_secs_f64());
        let side = side_name(inner.number);
        let text = serde_json::to_string_pretty(&inner.describe(state, seconds, &record, &gather))
            .map_err(|error| Error::Internal(format!("{side}: {error}")))?;
        if let Err(error) = atomic::write(&inner.folder.join(&side), text.as_bytes()) {
            // A record without what tells how to read it is no result.
            drop(fs::remove_file(inner.folder.join(&record)));
            return Err(error);
        }
        state.seconds = seconds;
        state.written.splice(0..0, [record, side]);
        if inner.pictured {
            state.picture.line = Line::nearest(&inner.plan, &inner.shot, &gather);
        }
        Ok(())
    }
}

impl Inner {
    fn describe(&self, state: &State, seconds: Option<f64>, record: &str, gather: &Gather) -> Value {
        let (plan, shot) = (&self.plan, &self.shot);
        let grid = &plan.model.grid;
        let (receivers, shape, order) = match &shot.receivers {
            Receivers::Plane { iz, every } => {
                let [x, y] = [0, 1].map(|axis| {
                    let step_m = positions::tidy(every[axis] as f64 * f64::from(grid.h[axis]));
                    (step_m, grid.n[axis].div_ceil(every[axis]))
                });
                let receivers = json!({
                    "kind": "plane",
                    "depth_m": positions::metres(grid, [0, 0, *iz])[2],
                    "x": { "first_m": 0.0, "step_m": x.0, "count": x.1 },
                    "y": { "first_m": 0.0, "step_m": y.0, "count": y.1 },
                });
                (receivers, json!([y.1, x.1, gather.samples]), "[iy][ix][sample], sample fastest")
            }
            Receivers::List(cells) => {
                let list: Vec<_> = cells.iter().map(|&cell| positions::metres(grid, cell)).collect();
                let receivers = json!({ "kind": "list", "positions_m": list });
                (receivers, json!([gather.traces, gather.samples]), "[trace][sample], sample fastest")
            }
        };
        let [x, y, z] = shot.source;
        json!({
            "shot": self.number,
            "record": {
                "file": record,
                "dtype": "<f4",
                "order": order,
                "shape": shape,
                "unit": "pressure, in units of the wavelet's amplitude",
                "first_sample_s": time(0, plan.dt),
                "dt_s": decimal(plan.dt) * shot.record_every as f64,
                "muted": shot.mute.is_some(),
                "crc32": checksum(&gather.data),
            },
            "source": {
                "kind": "vertical dipole",
                "negative_pole_m": positions::metres(grid, shot.source),
                "positive_pole_m": positions::metres(grid, [x, y, z + 2]),
                "cell": [x, y, z],
            },
            "receivers": receivers,
            "wavelet": self.wavelet,
            "grid": { "n": grid.n, "spacing_m": grid.h.map(decimal) },
            "time": { "dt_s": decimal(plan.dt), "nt": shot.nt },
            "snapshots": state.snapshots,
            "device": state.device,
            "attempt": state.attempt,
            "seconds": seconds,
            "version": env!("CARGO_PKG_VERSION"),
        })
    }
}

fn stem(number: usize) -> String {
    format!("shot_{number:04}")
}

pub fn record_name(number: usize) -> String {
    format!("{}.bin", stem(number))
}

pub fn side_name(number: usize) -> String {
    format!("{}.json", stem(number))
}

pub fn picture_path(folder: &Path, number: usize, what: &str) -> PathBuf {
    folder.join(format!("{}_{what}.png", stem(number)))
}

/// The time of what is recorded at a step: after the step, hence one more.
fn time(step: usize, dt: f32) -> f64 {
    positions::tidy(decimal(dt) * (step + 1) as f64 * 1e3) / 1e3
}

/// The shortest decimal that is this float32, as float64: 0.001 stays 0.001 in a JSON file.
pub fn decimal(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}

/// CRC-32 of the little-endian bytes, as zlib has it.
fn checksum(data: &[f32]) -> String {
    let mut hasher = crc32fast::Hasher::new();
    let mut bytes = Vec::with_capacity(1 << 16);
    for values in data.chunks(1 << 14) {
        bytes.clear();
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        hasher.update(&bytes);
    }
    format!("{:08x}", hasher.finalize())
}
