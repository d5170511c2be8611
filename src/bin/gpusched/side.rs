//! The description of a shot, a JSON file beside its record: axes, units, checksums, and the key of
//! the input.
//!
//! It is written last, after the files that it lists, so it also marks a complete shot. It contains
//! neither device nor time: a recomputed shot has the same description.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use gpusched::fd::plan::Plan;
use gpusched::fd::survey::{Receivers, Shot, SourceKind};
use gpusched::{Error, Result, descriptor};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::digits::{decimal, tidy};
use crate::job::Job;
use crate::{names, positions};

/// The part of a description that is known before the shot is computed.
pub struct About {
    pub number: usize,
    pub plan: Arc<Plan>,
    pub shot: Shot,
    pub key: String,
    wavelet: Value,
}

/// CRC-32 of the record, and of the snapshots by step.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Sums {
    pub record: u32,
    pub snapshots: BTreeMap<usize, u32>,
}

impl About {
    /// Describes the shot with this number, counted from 1.
    pub fn new(job: &Job, number: usize) -> About {
        let shot = job.shots[number - 1].clone();
        let shape = job.survey.wavelet.shape;
        // The first sample of the wavelet acts at time 0. That of a cut shape has the value at one
        // step.
        let mut before = f64::from(shape.is_cut());
        // The source of `acoustic2` stays in the pressure, so each sample acts a step earlier.
        if shot.kind == SourceKind::Pressure && job.plan.options.equation.name() == "acoustic2" {
            before += 1.0;
        }
        let centre = 0.5 * shape.periods() / job.survey.wavelet.frequency_hz - before * decimal(job.plan.dt);
        let mut wavelet = job.survey.wavelet();
        wavelet["centre_s"] = tidy(centre).into();
        let key = job.key(number);
        About { number, plan: job.plan.clone(), shot, key, wavelet }
    }

    pub fn traces(&self) -> usize {
        self.shot.receivers.count(self.plan.model.grid.n)
    }

    /// Returns the text of the file.
    pub fn text(&self, sums: &Sums) -> Result<String> {
        serde_json::to_string_pretty(&self.describe(sums))
            .map_err(|error| Error::Internal(format!("{}: {error}", names::side(self.number))))
    }

    /// Returns the source with its position in metres.
    fn source(&self) -> Value {
        let (grid, cell) = (&self.plan.model.grid, self.shot.source);
        let [x, y, z] = cell;
        let mut at = positions::metres(grid, cell);
        let mut force = |axis: usize| {
            at[axis] = tidy(at[axis] + 0.5 * decimal(grid.h[axis]));
            "N"
        };
        let unit = match self.shot.kind {
            SourceKind::Pressure if self.plan.options.equation.name().starts_with("acoustic") => {
                return json!({
                    "kind": "vertical dipole",
                    "negative_pole_m": at,
                    "positive_pole_m": positions::metres(grid, [x, y, z + 2]),
                    "cell": cell,
                });
            }
            SourceKind::ForceX => force(0),
            SourceKind::ForceY => force(1),
            SourceKind::ForceZ => force(2),
            SourceKind::Monopole => "m³/s",
            _ => "pressure, in units of the wavelet's amplitude",
        };
        json!({ "kind": self.shot.kind.name(), "unit": unit, "position_m": at, "cell": cell })
    }

    fn describe(&self, sums: &Sums) -> Value {
        let (plan, shot) = (&self.plan, &self.shot);
        let grid = &plan.model.grid;
        let [nx, ny, nz] = grid.n;
        let samples = shot.samples();
        let (receivers, shape, order) = match &shot.receivers {
            Receivers::Plane { iz, every } => {
                let [x, y] = [0, 1].map(|axis| {
                    let step_m = tidy(every[axis] as f64 * decimal(grid.h[axis]));
                    (step_m, grid.n[axis].div_ceil(every[axis]))
                });
                let receivers = json!({
                    "kind": "plane",
                    "depth_m": positions::metres(grid, [0, 0, *iz])[2],
                    "x": { "first_m": 0.0, "step_m": x.0, "count": x.1 },
                    "y": { "first_m": 0.0, "step_m": y.0, "count": y.1 },
                });
                (receivers, json!([y.1, x.1, samples]), "[iy][ix][sample], sample fastest")
            }
            Receivers::List(cells) => {
                let list: Vec<_> = cells.iter().map(|&cell| positions::metres(grid, cell)).collect();
                let receivers = json!({ "kind": "list", "positions_m": list });
                (receivers, json!([self.traces(), samples]), "[trace][sample], sample fastest")
            }
        };
        let snapshots: Vec<_> = sums
            .snapshots
            .iter()
            .map(|(&step, &sum)| {
                json!({
                    "file": names::snapshot(self.number, step),
                    "step": step,
                    "time_s": time(step, plan.dt),
                    "dtype": "<f4",
                    "order": "[iy][ix][iz], iz fastest",
                    "shape": [ny, nx, nz],
                    "crc32": hex(sum),
                })
            })
            .collect();
        json!({
            "shot": self.number,
            "equation": plan.options.equation.name(),
            "absorbing_layer": absorbing_layer(plan),
            "record": {
                "file": names::record(self.number),
                "dtype": "<f4",
                "order": order,
                "shape": shape,
                "unit": match shot.kind {
                    SourceKind::Pressure => "pressure, in units of the wavelet's amplitude",
                    _ => "Pa",
                },
                "first_sample_s": time(0, plan.dt),
                "dt_s": tidy(decimal(plan.dt) * shot.record_every as f64),
                "muted": shot.mute.is_some(),
                "crc32": hex(sums.record),
            },
            "source": self.source(),
            "receivers": receivers,
            "wavelet": self.wavelet,
            "grid": { "n": grid.n, "spacing_m": grid.h.map(decimal) },
            "time": { "dt_s": decimal(plan.dt), "nt": shot.nt, "record_every": shot.record_every },
            "snapshots": snapshots,
            "key": self.key,
            "version": env!("CARGO_PKG_VERSION"),
        })
    }
}

/// Describes the absorbing layer of a plan.
pub fn absorbing_layer(plan: &Plan) -> Value {
    json!({ "name": plan.options.equation.absorber().name(), "cells": plan.options.pml })
}

/// The part of a description that a resumed run reads.
#[derive(Deserialize)]
pub struct Description {
    pub key: String,
    record: Summed,
    #[serde(default)]
    pub snapshots: Vec<Snapshot>,
}

#[derive(Deserialize)]
struct Summed {
    crc32: String,
}

#[derive(Deserialize)]
pub struct Snapshot {
    pub file: String,
    step: usize,
    crc32: String,
}

impl Description {
    /// Reads the description of a shot. Returns `None` if that is not possible.
    pub fn of(folder: &Path, number: usize) -> Option<Description> {
        Description::parse(&read(&folder.join(names::side(number))).ok()?)
    }

    /// Returns `None` if the text is not a description.
    pub fn parse(text: &[u8]) -> Option<Description> {
        serde_json::from_slice(text).ok()
    }

    pub fn sums(&self) -> Option<Sums> {
        let sum = |text: &str| u32::from_str_radix(text, 16).ok();
        let snapshots =
            self.snapshots.iter().map(|one| Some((one.step, sum(&one.crc32)?))).collect::<Option<_>>();
        Some(Sums { record: sum(&self.record.crc32)?, snapshots: snapshots? })
    }
}

/// Returns the steps of a shot's snapshots.
pub fn snapshot_steps(shot: &Shot) -> impl Iterator<Item = usize> + use<> {
    let every = shot.snapshot_every;
    (0..if every.is_some() { shot.nt } else { 0 }).step_by(every.unwrap_or(1))
}

/// Returns true if the shot has a snapshot of this step.
pub fn has_snapshot(shot: &Shot, step: usize) -> bool {
    shot.snapshot_every.is_some_and(|every| step < shot.nt && step.is_multiple_of(every))
}

/// Reads a description. Returns an error for files that are not plain or exceed 1 GiB.
pub fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    const LARGEST: u64 = 1 << 30;
    let found = fs::symlink_metadata(path)?;
    if !found.is_file() || found.len() > LARGEST {
        return Err(std::io::Error::other("not a plain file of at most 1 GiB"));
    }
    let mut text = Vec::new();
    descriptor::open_read(path)?.take(LARGEST).read_to_end(&mut text)?;
    Ok(text)
}

/// Returns the time of a sample in seconds. A sample is taken after its step.
pub fn time(step: usize, dt: f32) -> f64 {
    tidy(decimal(dt) * (step + 1) as f64)
}

fn hex(sum: u32) -> String {
    format!("{sum:08x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_a_sample_is_after_its_step() {
        assert_eq!([time(0, 0.001), time(9, 0.002), time(999_999, 0.0015)], [0.001, 0.02, 1500.0]);
        assert_eq!([time(2, 0.0007), time(4, 2.2e-11)], [0.0021, 1.1e-10]);
    }
}
