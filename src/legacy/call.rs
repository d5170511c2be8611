//! Converts the arguments of a call to the types of [`crate::fd`].

use std::ops::Range;

use super::args::Args;
use super::function::{Function, Snapshots, Sources};
use crate::error::{Error, Result};
use crate::fd::anisotropy::is_reduced_everywhere;
use crate::fd::grid::{AXES, Grid};
use crate::fd::model::Outline;
use crate::fd::survey::{Receivers, Shot};
use crate::fd::verify::direct_wave_mute;
use crate::fd::wavelet::{Shape, Wavelet};

/// Maximum number of shots of one call.
const MOST_SHOTS: i32 = 100_000;
/// Maximum number of time steps of a shot, the same as in a plan.
const MOST_STEPS: i32 = 10_000_000;

/// Checked arguments of a call.
pub struct Call {
    function: &'static Function,
    pub grid: Grid,
    /// Numbers of the shots that the call computes.
    pub shots: Range<usize>,
    nt: usize,
    /// Cell of shot 0, counted from 0, and the number of cells from one source to the next.
    source: [i64; 3],
    source_step: [i64; 3],
    pub wavelet: Wavelet,
    receivers_every: [usize; 2],
    record_every: usize,
    pub snapshot_every: Option<usize>,
    /// Peak frequency in Hz and time step in s for the mute; `None`: no mute.
    mute: Option<(f32, f32)>,
    /// Bytes from one shot to the next in the record file.
    pub record_stride: u64,
}

impl Call {
    pub fn new(function: &'static Function, args: &Args) -> Result<Call> {
        let cells = |name, n, least| count(name, n, least..=100_000, "cells");
        let nz_least = 1 + function.receivers_z as i32;
        let n = [cells("nx", args.nx, 1)?, cells("ny", args.ny, 1)?, cells("nz", args.nz, nz_least)?];
        let grid = Grid::new(n, [args.dx, args.dy, args.dz])?;
        let ns = match function.sources {
            Sources::First => 1,
            _ => count("ns", args.ns, 1..=MOST_SHOTS, "shots")?,
        };
        let nt = count("nt", args.nt, 1..=MOST_STEPS, "steps")?;
        let wavelet = (function.wavelet)(args, nt)?;
        let receivers_every =
            [every("dgx", args.dgx, "dx", args.dx, n[0])?, every("dgy", args.dgy, "dy", args.dy, n[1])?];
        let record_every = every("dgt", args.dgt, "dt", args.dt, nt)?;
        let snapshot_every = match function.snapshots {
            Snapshots::Always(steps) => (steps < nt).then_some(steps),
            _ if !args.show_snapshot => None,
            Snapshots::Interval => {
                Some(count("snap_interval", args.snap_interval, 1..=i32::MAX, "steps")?.min(nt))
            }
            Snapshots::Every(steps) => Some(steps.min(nt)),
        };
        let (shots, source_step) = match function.sources {
            // Sources move in x only (oddity B3 of docs/legacy.md).
            Sources::AlongX => (0..ns, [args.jsx, 0, 0]),
            Sources::First => (0..1, [0; 3]),
            Sources::One => {
                let is = count("is", args.is, 0..=args.ns - 1, "(ns - 1)")?;
                (is..is + 1, [args.jsx, args.jsy, args.jsz])
            }
        };
        let call = Call {
            function,
            grid,
            nt,
            source: [args.sxbeg, args.sybeg, args.szbeg]
                .map(|cell| i64::from(cell) - i64::from(function.first_cell)),
            source_step: source_step.map(i64::from),
            wavelet,
            receivers_every,
            record_every,
            snapshot_every,
            mute: (args.cut_directwave && function.mutes).then_some((args.fm, args.dt)),
            record_stride: record_stride(shots.end, [nt, n[0], n[1]])?,
            shots,
        };
        call.check_sources()?;
        Ok(call)
    }

    /// Returns an error if a source is outside the grid and the cells around it.
    fn check_sources(&self) -> Result<()> {
        let first = i64::from(self.function.first_cell);
        let ends: &[(&str, usize)] = match self.function.sources {
            Sources::AlongX => &[("", self.shots.start), ("(ns - 1)", self.shots.end - 1)],
            Sources::First => &[("", 0)],
            Sources::One => &[("is", self.shots.start)],
        };
        for &(what, number) in ends {
            for (axis, name) in AXES.iter().enumerate() {
                let n = self.grid.n[axis] as i64;
                let place = self.source_of(number, axis);
                let around = i64::from(self.function.around);
                if (-around..n + around).contains(&place) {
                    continue;
                }
                let moved = if what.is_empty() { String::new() } else { format!(" + {what} js{name}") };
                let limit = match first - 1 + around {
                    -1 => " - 1".to_owned(),
                    0 => String::new(),
                    more => format!(" + {more}"),
                };
                return Err(Error::argument(
                    format!("the source's position s{name}beg{moved}"),
                    place + first,
                    format!("{} to n{name}{limit}, which is {}", first - around, n - 1 + first + around),
                ));
            }
        }
        Ok(())
    }

    /// Returns the cell of a shot's source along an axis. `check_sources` has checked both ends of
    /// the line.
    fn source_of(&self, shot: usize, axis: usize) -> i64 {
        self.source[axis] + shot as i64 * self.source_step[axis]
    }

    /// Returns true if no cell is far enough from a shot's source to keep its epsilon and delta.
    pub fn is_reduced_everywhere(&self, shot: usize) -> bool {
        let cell: [i64; 3] = std::array::from_fn(|axis| self.source_of(shot, axis));
        // The farthest cell of a source before the first cell is that of a first cell in a longer grid.
        let n = std::array::from_fn(|axis| self.grid.n[axis] + cell[axis].min(0).unsigned_abs() as usize);
        is_reduced_everywhere(n, cell.map(|index| index.max(0) as usize))
    }

    /// Returns the shot with this number.
    pub fn shot(&self, number: usize, model: &Outline) -> Result<Shot> {
        let cell: [i64; 3] = std::array::from_fn(|axis| self.source_of(number, axis));
        let nearest: [i64; 3] = std::array::from_fn(|axis| cell[axis].clamp(0, self.grid.n[axis] as i64 - 1));
        let mut shot = Shot {
            source: nearest.map(|index| index as usize),
            outside: std::array::from_fn(|axis| (cell[axis] - nearest[axis]) as isize),
            wavelet: self.wavelet.copied()?,
            amplitude: self.function.amplitude,
            nt: self.nt,
            receivers: Receivers::Plane { iz: self.function.receivers_z, every: self.receivers_every },
            record_every: self.record_every,
            snapshot_every: self.snapshot_every,
            ..Shot::default()
        };
        if let Some((frequency, dt)) = self.mute {
            shot.mute = Some(direct_wave_mute(model, &shot, dt, frequency, Shape::CutRicker.periods())?);
        }
        Ok(shot)
    }
}

fn count(name: &str, value: i32, accepted: std::ops::RangeInclusive<i32>, unit: &str) -> Result<usize> {
    if !accepted.contains(&value) {
        let (least, most) = (accepted.start(), accepted.end());
        return Err(Error::argument(name, value, format!("{least} to {most} {unit}")));
    }
    Ok(value as usize)
}

/// Returns the ratio of a coarse to a fine interval, at most `n`. The float32 quotient is truncated
/// as in the old library: 0.005 over 0.001 gives 4 (oddity B12 of docs/legacy.md).
fn every(coarse_name: &str, coarse: f32, fine_name: &str, fine: f32, n: usize) -> Result<usize> {
    let quotient = coarse / fine;
    if !(quotient >= 1.0 && quotient.is_finite()) {
        let accepted = format!("a finite number, at least {fine_name}, which is {fine}");
        return Err(Error::argument(coarse_name, coarse, accepted));
    }
    Ok((quotient as usize).min(n))
}

/// Returns the bytes from one shot to the next in the record file. Decimated shots are as far apart
/// as whole ones.
fn record_stride(shots: usize, [nt, nx, ny]: [usize; 3]) -> Result<u64> {
    let size = nt as u128 * nx as u128 * ny as u128 * 4;
    // A file has at most 2^63 - 1 bytes.
    if size * shots as u128 > i64::MAX as u128 {
        return Err(Error::argument(
            "the size of the record file, 4 ns nt nx ny,",
            size * shots as u128,
            "at most 2^63 - 1 bytes",
        ));
    }
    Ok(size as u64)
}
