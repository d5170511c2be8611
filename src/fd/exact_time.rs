//! Corrects the error of time steps in records.
//!
//! Where the wave equation has a frequency `w`, leapfrog steps have `W` with
//!
//! ```text
//! w dt = 2 sin(W dt / 2)
//! ```
//!
//! and nothing else differs. At its `W` a shot equals what steps without error would give at `w`,
//! in any medium, except for the damping in absorbing layers. So the wavelet is injected with each
//! `w` moved to its `W`, and in the record each `W` is moved back (Stork 2013; Koene, Robertsson,
//! Broggini and Andersson 2018). The steps are those of any other shot.

use std::f64::consts::PI;
use std::iter::repeat;
use std::sync::{Mutex, PoisonError};
use std::thread::available_parallelism;

use rustfft::num_complex::Complex;

use super::host_memory::{collected, filled, reserved};
use super::survey::{Gather, Shot};
use super::warp::{Times, WHAT, Warp};
use super::wavelet::Wavelet;
use crate::backend::Lane;
use crate::backend::cpu::{Team, TeamMember};
use crate::error::{Error, Result};

/// Least steps, and least samples, that a shot computes beyond the end of its record.
const MORE_STEPS: usize = 24;
const MORE_SAMPLES: usize = 8;

/// Samples after the end of a series over which it fades out.
const FADE: usize = 64;

/// Most threads that correct a record. The memory estimate of every shot counts
/// as many.
const THREADS: usize = 8;

/// Highest `W dt` in radians; higher ones are dropped. A frequency with fewer than three steps a
/// period would move to twice its time, and no grid carries it.
const HIGHEST: f64 = 2.0 * PI / 3.0;

/// Returns the wavelet to inject in the steps of a shot. A wavelet that lasts to the end of the
/// record and does not end with zero is continued smoothly. The record does not depend on the
/// continuation, but a sudden end would ring back into it.
///
/// # Errors
/// No memory.
pub fn warped_wavelet(shot: &Shot) -> Result<Wavelet> {
    let source = |stepped: f64| Some(2.0 * (stepped / 2.0).sin()).filter(|_| stepped <= HIGHEST);
    let samples = &shot.wavelet.samples;
    let nt = steps(shot);
    let given = &samples[..samples.len().min(nt)];
    let has_ended = samples.len() < shot.nt || given.last() == Some(&0.0);
    let after = if has_ended { [0.0; FADE] } else { fade(given) };
    let real = |value: f64| Complex::new(value, 0.0);
    let mut series = reserved(given.len() + FADE, WHAT)?;
    series.extend(given.iter().map(|&sample| sample.into()).chain(after).map(real));
    let warp = Warp::new(series.len(), Times { first: 0, every: 1 }, source)?;
    warp.apply(&mut series, &mut warp.scratch()?);
    let samples = series.iter().take(nt).map(|value| value.re as f32);
    Ok(Wavelet { samples: collected(samples, WHAT)? })
}

/// Returns the number of steps to compute. The correction of the last samples needs those after
/// them.
pub fn steps(shot: &Shot) -> usize {
    shot.nt + MORE_STEPS.max(MORE_SAMPLES * shot.record_every)
}

/// Refuses a shot with so few samples that the steps after its end would be more than its own.
/// Refuses snapshots: their correction would need the whole field of all steps.
pub fn check(shot: &Shot) -> Result<()> {
    let most = shot.nt.max(MORE_STEPS) / MORE_SAMPLES;
    if shot.record_every > most {
        let accepted = format!(
            "1 to {most} steps with exact time, which computes {MORE_SAMPLES} samples beyond the record's end; or without it"
        );
        return Err(Error::argument("record_every", shot.record_every, accepted));
    }
    let Some(every) = shot.snapshot_every else { return Ok(()) };
    let accepted =
        "no snapshots with exact time, which corrects records only; take them in a shot without it";
    Err(Error::argument("snapshot_every", every, accepted))
}

/// Returns the approximate bytes of the host that warping a shot's wavelet or its record takes,
/// whichever takes more.
pub fn bytes(shot: &Shot) -> u64 {
    let of = |samples: usize, threads: usize| {
        let [all, each] = Warp::bytes(samples + FADE);
        all + threads as u64 * each
    };
    let steps = steps(shot);
    let samples = steps.div_ceil(shot.record_every.max(1));
    of(steps, 1).max(of(samples, THREADS))
}

/// Corrects the record of a shot that ran [`steps`] steps with the wavelet of [`warped_wavelet`],
/// and cuts it to the shot's samples. Call it before the mute.
pub fn corrected(mut gather: Gather, shot: &Shot, lane: Lane<'_>) -> Result<Gather> {
    correct(&mut gather, shot.record_every, lane)?;
    let (taken, samples) = (gather.samples, shot.samples());
    for trace in 0..gather.traces {
        gather.data.copy_within(trace * taken..trace * taken + samples, trace * samples);
    }
    gather.data.truncate(gather.traces * samples);
    Ok(Gather { samples, ..gather })
}

/// Corrects all traces on the threads of a lane, two at a time.
fn correct(gather: &mut Gather, every: usize, lane: Lane<'_>) -> Result<()> {
    let samples = gather.samples;
    if samples == 0 || gather.traces == 0 {
        return Ok(());
    }
    let highest = HIGHEST.min(PI / every as f64);
    let source = |frequency: f64| Some(2.0 * (frequency / 2.0).asin()).filter(|stepped| *stepped <= highest);
    // Sample 0 of the record is taken after the first step, so at time 1; value 0 of the wavelet is
    // at time 0.
    let warp = Warp::new(samples + FADE, Times { first: 1, every }, source)?;
    let pairs = Mutex::new(gather.data.chunks_mut(2 * samples));
    let work = |member: &TeamMember<'_>, _: Option<&()>| {
        if member.index >= THREADS {
            return Ok(());
        }
        let mut scratch = warp.scratch()?;
        let mut series = filled(samples + FADE, Complex::new(0.0, 0.0), WHAT)?;
        loop {
            let next = pairs.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((one, other)) = next.map(|pair| pair.split_at_mut(samples)) else { return Ok(()) };
            // The last of an odd number of traces has no partner: `other` is empty.
            let [all, others] = [&*one, &*other]
                .map(|trace| trace.iter().map(|v| f64::from(*v)).chain(fade(trace)).chain(repeat(0.0)));
            series.iter_mut().zip(all.zip(others)).for_each(|(to, (re, im))| *to = Complex::new(re, im));
            warp.apply(&mut series, &mut scratch);
            one.iter_mut().zip(&series).for_each(|(to, from)| *to = from.re as f32);
            other.iter_mut().zip(&series).for_each(|(to, from)| *to = from.im as f32);
        }
    };
    match lane {
        Lane::Cpu(team) => team.run(&(), work),
        Lane::Cuda(_) => {
            let threads = available_parallelism().map_or(1, usize::from).min(THREADS).min(gather.traces);
            Team::new(threads)?.run(&(), work)
        }
    }
}

/// Returns samples that continue a trace after its end without a kink: the trace reflected about
/// its last sample, in time and in value, and faded out.
fn fade(trace: &[f32]) -> [f64; FADE] {
    let Some((&last, before)) = trace.split_last() else { return [0.0; FADE] };
    let mut image = before.iter().rev().map(|&v| f64::from(v));
    std::array::from_fn(|i| {
        let weight = (PI * (i + 1) as f64 / (2 * (FADE + 1)) as f64).cos().powi(2);
        weight * (2.0 * f64::from(last) - image.next().unwrap_or(0.0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fd::wavelet::Shape;

    fn shot(samples: Vec<f32>) -> Shot {
        Shot { nt: samples.len(), wavelet: Wavelet { samples }, ..Shot::default() }
    }

    /// Without steps between them, the warp of the wavelet and the correction cancel: the record is
    /// the wavelet, one step later.
    #[test]
    fn correction_undoes_the_warp_of_the_wavelet() {
        for (nt, every) in [(150, 1), (400, 1), (401, 3)] {
            let smooth = |i: usize| (-((i as f64 - 60.0) / 12.0).powi(2)).exp() as f32;
            let shot = shot((0..nt).map(smooth).collect());
            let warped = warped_wavelet(&shot).unwrap();
            let taken = |samples: &[f32]| samples.iter().copied().skip(1).step_by(every).collect::<Vec<_>>();
            let data = [taken(&warped.samples[..nt]), taken(&warped.samples[..nt])].concat();
            let mut gather = Gather { traces: 2, samples: data.len() / 2, data };
            correct(&mut gather, every, Lane::Cpu(&Team::new(2).unwrap())).unwrap();
            let truth = taken(&shot.wavelet.samples);
            for trace in gather.data.chunks(gather.samples) {
                let apart = trace.iter().zip(&truth).fold(0.0, |most: f32, (a, b)| most.max((a - b).abs()));
                assert!(apart < 2e-6, "{nt}, {every}: {apart:e}");
            }
        }
    }

    #[test]
    fn an_early_wavelet_is_the_same_and_a_late_one_comes_before_its_time() {
        let early = Wavelet::new(Shape::CutRicker, 10.0, 1e-4, 5000).unwrap();
        let warped = warped_wavelet(&shot(early.samples.clone())).unwrap().samples;
        let apart = warped.iter().zip(&early.samples).fold(0.0, |most: f32, (a, b)| most.max((a - b).abs()));
        assert!(apart > 0.0 && apart < 2e-3, "{apart:e}");
        // 5 steps a period: W dt is 1.36 instead of 1.26, and the pulse arrives at 0.81 of its
        // time.
        let burst = |i: usize| {
            let t = i as f64 - 1000.0;
            ((t / 100.0).powi(2) * -0.5).exp() * (t * 2.0 * PI / 5.0).cos()
        };
        let late = shot((0..2000).map(|i| burst(i) as f32).collect());
        let early = warped_wavelet(&late).unwrap().samples;
        let power = |samples: &[f32]| samples.iter().map(|v| f64::from(v * v)).sum::<f64>();
        let centre =
            early.iter().enumerate().map(|(i, v)| i as f64 * f64::from(v * v)).sum::<f64>() / power(&early);
        assert!((centre / 1000.0 - (PI / 5.0).asin().cos()).abs() < 0.02, "{centre}");
    }

    #[test]
    fn shortest_traces_are_corrected() {
        for (traces, samples, every) in [(0, 0, 1), (1, 1, 1), (3, 2, 7), (2, 1, 1000)] {
            let mut gather = Gather { traces, samples, data: vec![1.0; traces * samples] };
            correct(&mut gather, every, Lane::Cpu(&Team::new(2).unwrap())).unwrap();
            assert!(gather.data.iter().all(|v| v.is_finite()));
        }
        assert!(warped_wavelet(&shot(vec![1.0])).unwrap().samples[0].is_finite());
    }
}
