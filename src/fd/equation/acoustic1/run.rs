//! The time loop of a shot on a team of threads.

use std::ops::Range;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use super::coefficients::Coefficients;
use super::isa::Isa;
use super::layout::Layout;
use super::record::{Record, no_memory, reserved, snapshot};
use super::steps::Steps;
use super::{blown, one_pass};
use crate::backend::cpu::{Rows, Team, can_allocate};
use crate::error::{Error, Result};
use crate::fd::control::Control;
use crate::fd::pause::State;
use crate::fd::survey::{Effort, Gather, Shot};

/// Steps between two looks for a shot that has blown up.
pub const PROBE: usize = 64;

/// Runs a shot that fits the coefficients' grid.
///
/// Tiles go to whichever thread is free. Every cell is computed from the same numbers in the same order whoever
/// computes it, so the record does not depend on the threads.
pub fn run(c: &Coefficients, shot: &Shot, team: &Team, control: &dyn Control) -> Result<(Gather, Effort)> {
    let layout = &c.layout;
    // All together, because memory that is not yet written to still counts as free.
    let picture = shot.snapshot_every.map_or(0, |_| 4 * layout.inner.iter().product::<usize>() as u64);
    let own = one_pass::threads_bytes(c, team.threads());
    let parts = [one_pass::Fields::bytes(layout), own, Record::bytes(layout, shot), picture];
    let needed = parts.into_iter().fold(0, u64::saturating_add);
    if !can_allocate(needed) {
        return Err(no_memory("a shot", needed));
    }
    let geometry = one_pass::Geometry::new(c, team.threads());
    let mut fields = one_pass::Fields::new(layout, &geometry)?;
    let tuner = one_pass::TileTuner::new(c, &geometry, team.threads(), control);
    let steps = one_pass::OnePass::new(c, &geometry, shot, &mut fields).tuned(&tuner);
    let done = time_loop(c, shot, &steps, team, control);
    tuner.report(control);
    done
}

fn time_loop<S: Steps>(
    c: &Coefficients,
    shot: &Shot,
    steps: &S,
    team: &Team,
    control: &dyn Control,
) -> Result<(Gather, Effort)> {
    let layout = &c.layout;
    let mut record = Record::new(layout, shot)?;
    let picture = Mutex::new(snapshot_buffer(layout, shot)?);
    let begun = control.resume(&mut Between { steps, gather: &mut record.gather })?;
    record.refill(begun);
    if begun > 0 {
        steps.resumed();
    }
    // The step after which all stop.
    let stop = AtomicUsize::new(shot.nt - 1);
    let samples = record.shared();
    let limit = limit(shot);
    let blown_up = OnceLock::new();
    let begin = OnceLock::new();
    let ended = team.run(control, |member, control| {
        let mut own = steps.own()?;
        if begun == 0 {
            for field in steps.fields() {
                // SAFETY: nothing has happened yet, and shares are disjoint.
                unsafe { field.populate(member.share(field.values())) };
            }
        }
        member.barrier_then(|| _ = begin.set(Instant::now()))?;
        let traces = member.share(samples.traces());
        let rows = member.share(layout.padded[0] * layout.padded[1]);
        for step in begun..shot.nt {
            steps.step(member, &mut own, step)?;
            let last = step == stop.load(Relaxed);
            let p = steps.pressure(step);
            // SAFETY: the pressure is only read until the next step; the traces are this member's.
            unsafe { samples.take(p, traces.clone(), step, last) };
            if last || (step + 1).is_multiple_of(PROBE) {
                // SAFETY: as above.
                let found = unsafe { probe_rows(layout, p, rows.clone(), limit, step) };
                found.inspect_err(|_| _ = blown_up.set(step))?;
            }
            let Some(control) = control else {
                if last {
                    break;
                }
                continue;
            };
            if shot.snapshot_every.is_some_and(|every| step.is_multiple_of(every)) {
                let mut to = picture.lock().unwrap_or_else(PoisonError::into_inner);
                // SAFETY: as above.
                unsafe { snapshot(layout, p, &mut to) };
                control.snapshot(step, &to)?;
            }
            control.step(step, shot.nt)?;
            if last {
                break;
            }
            if control.pauses() {
                // All come together in the next step before anybody asks.
                stop.store(step + 1, Relaxed);
            }
        }
        Ok(())
    });
    match (ended, blown_up.get()) {
        (Err(error), Some(&step)) => return Err(where_blown(error, c, steps.pressure(step), step)),
        (ended, _) => ended?,
    }
    let done = stop.into_inner() + 1;
    if done < shot.nt {
        control.pause(done, &mut Between { steps, gather: &mut record.gather })?;
        return Err(Error::Cancelled);
    }
    let time = begin.get().map(Instant::elapsed).unwrap_or_default();
    Ok((record.gather, Effort { time, computed: steps.computed() }))
}

/// The words of a shot that has blown up do not depend on who has seen it first. Nobody writes the pressure any more.
fn where_blown(error: Error, c: &Coefficients, p: Rows<'_>, step: usize) -> Error {
    let layout = &c.layout;
    let Error::Unstable { .. } = error else { return error };
    let plane = |y: usize| {
        let (first, rows) = (layout.row(y * layout.padded[0]), layout.padded[0] * layout.pitch);
        // SAFETY: a plane of rows is within the field, and all members of the team have returned.
        unsafe { p.read(first, rows) }
    };
    let rows = (0..layout.padded[1]).flat_map(|y| plane(y).chunks(layout.pitch));
    let largest = rows.map(|row| largest(&row[..layout.padded[2]])).fold(0, u32::max);
    let error = blown::error(largest, step, sound(step));
    blown::placed(error, c, layout, None, |y, look| {
        look(plane(y));
        Ok(())
    })
}

/// Steps after which the pressure was looked at before that, and was in order.
fn sound(step: usize) -> usize {
    step / PROBE * PROBE
}

/// The state between two steps, when nobody computes.
struct Between<'a, S> {
    steps: &'a S,
    gather: &'a mut Gather,
}

impl<S: Steps> State for Between<'_, S> {
    fn kind(&self) -> String {
        if Isa::best().is_fused() { "cpu".into() } else { "cpu, not fused".into() }
    }

    fn values(&self) -> u64 {
        (self.steps.fields().into_iter().map(Rows::values).sum::<usize>() + self.gather.data.len()) as u64
    }

    fn leave(&mut self, to: &mut dyn FnMut(&[f32]) -> Result<()>) -> Result<()> {
        for field in self.steps.fields() {
            // SAFETY: no member of the team is at work.
            to(unsafe { field.all() })?;
        }
        to(&self.gather.data)
    }

    fn take(&mut self, from: &mut dyn FnMut(&mut [f32]) -> Result<()>) -> Result<()> {
        for field in self.steps.fields() {
            // SAFETY: as above.
            from(unsafe { field.all_mut() })?;
        }
        from(&mut self.gather.data)
    }
}

/// A magnitude that only the pressure of a shot that has blown up reaches.
pub fn limit(shot: &Shot) -> f32 {
    let samples = shot.wavelet.samples.iter().take(shot.nt);
    let loudest = samples.fold(0.0, |most: f32, sample| most.max((shot.amplitude * sample).abs()));
    blown::limit(loudest)
}

/// Allocates the buffer for the snapshots of a shot: empty if it takes none.
fn snapshot_buffer(layout: &Layout, shot: &Shot) -> Result<Vec<f32>> {
    let cells = shot.snapshot_every.map_or(0, |_| layout.inner.iter().product());
    let mut buffer = reserved(cells, "a snapshot of a shot")?;
    buffer.resize(cells, 0.0);
    Ok(buffer)
}

/// Checks rows of the pressure for values of a shot that has blown up.
///
/// # Safety
/// No thread writes the pressure.
unsafe fn probe_rows(
    layout: &Layout,
    p: Rows<'_>,
    rows: Range<usize>,
    limit: f32,
    step: usize,
) -> Result<()> {
    for row in rows {
        // SAFETY: by the caller's promise.
        probe(unsafe { p.read(layout.row(row), layout.padded[2]) }, limit, step)?;
    }
    Ok(())
}

/// Refuses numbers as large as the limit, infinite ones, and what is none.
fn probe(row: &[f32], limit: f32, step: usize) -> Result<()> {
    judge(largest(row), limit, step)
}

/// The bits of the largest magnitude.
fn largest(row: &[f32]) -> u32 {
    row.iter().fold(0, |most, value| value.abs().to_bits().max(most))
}

/// The same, of the bits of the largest magnitude: as integers they are in the order of the numbers, and infinity comes
/// before what is no number.
pub fn judge(largest: u32, limit: f32, step: usize) -> Result<()> {
    if largest < limit.to_bits() { Ok(()) } else { Err(blown::error(largest, step, sound(step))) }
}

#[cfg(test)]
mod tests {
    use super::super::coefficients::Moduli;
    use super::super::isa::Isa;
    use super::*;
    use crate::fd::control::Silent;
    use crate::fd::grid::Grid;
    use crate::fd::model::Model;
    use crate::fd::storage::Storage;
    use crate::fd::survey::Receivers;
    use crate::fd::wavelet::{Shape, Wavelet};

    fn moduli(n: [usize; 3], storage: Storage) -> Moduli {
        let grid = Grid { n, h: [10.0, 11.0, 9.0] };
        let vp = (0..grid.cells()).map(|i| 1500.0 + (i * 37 % 1000) as f32).collect();
        let rho = (0..grid.cells()).map(|i| 1000.0 + (i * 53 % 800) as f32).collect();
        Moduli::new(&Model::new(grid, vp, Some(rho)).unwrap(), 9, storage).unwrap()
    }

    fn coefficients(n: [usize; 3]) -> Coefficients {
        moduli(n, Storage::Float32).coefficients(1e-3)
    }

    fn shot(n: [usize; 3], nt: usize) -> Shot {
        Shot {
            source: n.map(|n| n / 2),
            wavelet: Wavelet::new(Shape::Ricker, 30.0, 1e-3, nt).unwrap(),
            amplitude: 10_000.0,
            nt,
            receivers: Receivers::Plane { iz: 0, every: [1, 2] },
            record_every: 1,
            snapshot_every: None,
            mute: None,
        }
    }

    fn bits(c: &Coefficients, shot: &Shot, threads: usize) -> Vec<u32> {
        let team = Team::new(threads).unwrap();
        let (gather, _) = run(c, shot, &team, &Silent).unwrap();
        assert!(gather.data.iter().any(|v| *v != 0.0), "nothing arrived");
        gather.data.iter().map(|v| v.to_bits()).collect()
    }

    #[test]
    fn threads_change_no_bit() {
        let n = [11, 14, 23];
        let shot = shot(n, 75);
        let c = coefficients(n);
        let alone = bits(&c, &shot, 1);
        for threads in [2, 3, 5, 7] {
            assert_eq!(bits(&c, &shot, threads), alone, "{threads} threads");
        }
    }

    /// A processor that can't fuse rounds what they stand for twice.
    #[test]
    fn sixteen_bits_are_the_values_that_they_stand_for() {
        if Isa::best() == Isa::Baseline && cfg!(not(target_arch = "aarch64")) {
            return;
        }
        let n = [11, 14, 23];
        let shot = shot(n, 75);
        let numbers = moduli(n, Storage::Bits16).coefficients(1e-3);
        let (values, whole) = (numbers.expanded(), coefficients(n));
        let found = bits(&numbers, &shot, 2);
        assert_eq!(found, bits(&values, &shot, 2));
        assert_ne!(found, bits(&whole, &shot, 2));
    }

    #[test]
    fn a_thinned_record_holds_samples_of_the_full_one() {
        let n = [6, 5, 7];
        let (c, team) = (coefficients(n), Team::new(2).unwrap());
        let full = run(&c, &shot(n, 75), &team, &Silent).unwrap().0;
        for every in [2, 3, 16, 75, 100] {
            let thin = run(&c, &Shot { record_every: every, ..shot(n, 75) }, &team, &Silent).unwrap().0;
            assert_eq!((thin.traces, thin.samples), (full.traces, 75usize.div_ceil(every)));
            for (thin, full) in thin.data.chunks(thin.samples).zip(full.data.chunks(75)) {
                assert_eq!(thin, full.iter().copied().step_by(every).collect::<Vec<_>>(), "every {every}");
            }
        }
    }

    #[test]
    fn the_probe_knows_numbers() {
        for good in [0.0, -0.0, f32::MAX, f32::MIN, f32::MIN_POSITIVE, 1e-45] {
            assert!(probe(&[0.0, good], f32::INFINITY, 0).is_ok(), "{good}");
        }
        for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for limit in [f32::INFINITY, f32::MIN_POSITIVE] {
                assert!(matches!(probe(&[0.0, bad, 1.0], limit, 7), Err(Error::Unstable { .. })), "{bad}");
            }
        }
        assert!(probe(&[-2.9, 2.9], 3.0, 0).is_ok());
        assert!(probe(&[3.0], 3.0, 0).is_err() && probe(&[-3.1], 3.0, 0).is_err());
    }

    #[test]
    fn the_limit_grows_with_the_source_and_lets_silence_pass() {
        let loud = Wavelet::from_samples(vec![1.0, -4.0, 100.0]).unwrap();
        let plain = Shot { wavelet: loud, nt: 2, amplitude: -2.0, ..shot([4; 3], 2) };
        assert_eq!(limit(&plain), 8e6);
        // What is over any number lets all numbers pass.
        assert_eq!(limit(&Shot { amplitude: f32::MAX, ..plain.clone() }), f32::INFINITY);
        let silent = limit(&Shot { amplitude: 0.0, ..plain });
        assert!(probe(&[0.0, -0.0], silent, 0).is_ok());
    }
}
