//! The time loop of a shot on a team of threads.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use super::instability::{self, PROBE, limit};
use crate::backend::cpu::{Rows, Team, TeamMember, check_free};
use crate::error::{Error, Result};
use crate::fd::control::{Control, State};
use crate::fd::grid::layout::Layout;
use crate::fd::record::{Record, snapshot};
use crate::fd::survey::{Effort, Gather, Shot};
use crate::fd::vector::isa::Isa;

/// Steps of a shot, shared by the members of a team.
pub trait CpuSteps: Sync {
    /// State of one member.
    type Own;

    fn own(&self) -> Result<Self::Own>;

    /// Computes a member's share of a step, with denormals flushed. All members call it for every
    /// step, and it ends with a barrier. A member that has returned may read the pressure until it
    /// calls it again.
    fn step(&self, member: &TeamMember<'_>, own: &mut Self::Own, step: usize) -> Result<()>;

    /// Returns the pressure after a step.
    fn pressure(&self, step: usize) -> Rows<'_>;

    /// Marks the fields as not at rest. Called before the first step of a resumed shot.
    fn resumed(&self) {}

    /// Returns the share of the cells that the steps so far have computed.
    fn computed(&self) -> f64 {
        1.0
    }

    /// Returns the words for a padded cell in a message.
    fn describe_cell(&self, cell: [usize; 3]) -> String;

    /// Returns all fields, which are zero before the first step.
    fn fields(&self) -> Vec<Rows<'_>>;

    /// Returns the fields that `done` steps pass to the next. Their lengths do not depend on `done`.
    fn state(&self, _done: usize) -> Vec<Rows<'_>> {
        self.fields()
    }
}

/// Refuses a shot whose memory the host cannot provide: `own` bytes for its steps, its record and
/// its snapshot.
pub fn check_memory(layout: &Layout, shot: &Shot, own: u64) -> Result<()> {
    let needed = own.saturating_add(Record::bytes(layout, shot, shot.nt));
    check_free("a shot", needed)
}

/// Runs the steps of a shot that fits the layout.
///
/// Tiles go to any free thread. Every cell is computed from the same numbers in the same order on
/// each, so the record does not depend on the threads.
pub fn run<S: CpuSteps>(
    layout: &Layout,
    shot: &Shot,
    steps: &S,
    team: &Team,
    control: &dyn Control,
) -> Result<(Gather, Effort)> {
    let mut record = Record::new(layout, shot)?;
    let picture = Mutex::new(std::mem::take(&mut record.picture));
    let begun = control.resume(&mut CpuCheckpoint { steps, done: 0, gather: &mut record.gather })?;
    record.refill(begun);
    if begun > 0 {
        steps.resumed();
    }
    // The step after which all members stop.
    let stop = AtomicUsize::new(shot.nt - 1);
    let samples = record.shared();
    let limit = limit(shot);
    let unstable_at = OnceLock::new();
    let begin = OnceLock::new();
    let ended = team.run(control, |member, control| {
        let mut own = steps.own()?;
        let loaded = if begun > 0 { steps.state(begun) } else { Vec::new() };
        let is_zero = |field: &Rows<'_>| loaded.iter().all(|other| other.as_ptr() != field.as_ptr());
        for field in steps.fields().into_iter().filter(is_zero) {
            // SAFETY: the field is zero, no step has begun, and shares are disjoint.
            unsafe { field.populate(member.share(field.values())) };
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
                let row = |row| unsafe { p.read(layout.row(row), layout.padded[2]) };
                let found = rows.clone().try_for_each(|nth| check_largest(largest(row(nth)), limit, step));
                found.inspect_err(|_| _ = unstable_at.set(step))?;
            }
            if let Some(control) = control {
                if shot.snapshot_every.is_some_and(|every| step.is_multiple_of(every)) {
                    let mut to = picture.lock().unwrap_or_else(PoisonError::into_inner);
                    // SAFETY: as above.
                    unsafe { snapshot(layout, p, &mut to) };
                    control.snapshot(step, &to)?;
                }
                control.step(step, shot.nt)?;
                if !last && control.pauses() {
                    // All members meet at a barrier in the next step before any of them reads this.
                    stop.store(step + 1, Relaxed);
                }
            }
            if last {
                break;
            }
        }
        Ok(())
    });
    match (ended, unstable_at.get()) {
        (Err(error), Some(&step)) => return Err(with_place(error, layout, steps, step)),
        (ended, _) => ended?,
    }
    let done = stop.into_inner() + 1;
    if done < shot.nt {
        control.pause(done, &mut CpuCheckpoint { steps, done, gather: &mut record.gather })?;
        return Err(Error::Cancelled);
    }
    let time = begin.get().map(Instant::elapsed).unwrap_or_default();
    Ok((record.gather, Effort { time, computed: steps.computed() }))
}

/// Adds the place to the error of an unstable shot. It is searched in the whole field, so the
/// message does not depend on the thread that found the instability first. No thread writes the
/// pressure any more.
fn with_place<S: CpuSteps>(error: Error, layout: &Layout, steps: &S, step: usize) -> Error {
    let Error::Unstable { .. } = error else { return error };
    let p = steps.pressure(step);
    let plane = |y: usize| {
        let (first, rows) = (layout.row(y * layout.padded[0]), layout.padded[0] * layout.pitch);
        // SAFETY: a plane of rows is within the field, and all members of the team have returned.
        unsafe { p.read(first, rows) }
    };
    let rows = (0..layout.padded[1]).flat_map(|y| plane(y).chunks(layout.pitch));
    let largest = rows.map(|row| largest(&row[..layout.padded[2]])).fold(0, u32::max);
    let error = instability::error(largest, step);
    instability::placed(error, &|cell| steps.describe_cell(cell), layout, None, |y, look| {
        look(plane(y));
        Ok(())
    })
}

/// State between two steps, while no member computes.
struct CpuCheckpoint<'a, S> {
    steps: &'a S,
    done: usize,
    gather: &'a mut Gather,
}

impl<S: CpuSteps> State for CpuCheckpoint<'_, S> {
    fn kind(&self) -> String {
        if Isa::best().is_fused() { "cpu".into() } else { "cpu, not fused".into() }
    }

    fn values(&self) -> u64 {
        (self.steps.state(0).into_iter().map(Rows::values).sum::<usize>() + self.gather.data.len()) as u64
    }

    fn leave(&mut self, to: &mut dyn FnMut(&[f32]) -> Result<()>) -> Result<()> {
        for field in self.steps.state(self.done) {
            // SAFETY: no member of the team is at work.
            to(unsafe { field.all() })?;
        }
        to(&self.gather.data)
    }

    fn take(&mut self, done: usize, from: &mut dyn FnMut(&mut [f32]) -> Result<()>) -> Result<()> {
        for field in self.steps.state(done) {
            // SAFETY: as above.
            from(unsafe { field.all_mut() })?;
        }
        from(&mut self.gather.data)
    }
}

/// Returns the bits of the largest magnitude.
fn largest(row: &[f32]) -> u32 {
    row.iter().fold(0, |most, value| value.abs().to_bits().max(most))
}

/// Refuses a largest magnitude, given by its bits, of `limit` or more, infinite or NaN. As integers
/// the bits of magnitudes are in the order of the numbers, with infinity and NaN after all others.
pub fn check_largest(largest: u32, limit: f32, step: usize) -> Result<()> {
    if largest < limit.to_bits() { Ok(()) } else { Err(instability::error(largest, step)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fd::wavelet::Wavelet;

    fn probe(row: &[f32], limit: f32) -> Result<()> {
        check_largest(largest(row), limit, 7)
    }

    #[test]
    fn probe_refuses_what_is_not_finite() {
        for good in [0.0, -0.0, f32::MAX, f32::MIN, f32::MIN_POSITIVE, 1e-45] {
            assert!(probe(&[0.0, good], f32::INFINITY).is_ok(), "{good}");
        }
        for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for limit in [f32::INFINITY, f32::MIN_POSITIVE] {
                assert!(matches!(probe(&[0.0, bad, 1.0], limit), Err(Error::Unstable { .. })), "{bad}");
            }
        }
        assert!(probe(&[-2.9, 2.9], 3.0).is_ok());
        assert!(probe(&[3.0], 3.0).is_err() && probe(&[-3.1], 3.0).is_err());
    }

    #[test]
    fn the_limit_grows_with_the_source_and_lets_silence_pass() {
        let loud = Wavelet::from_samples(vec![1.0, -4.0, 100.0]).unwrap();
        let plain = Shot { source: [2; 3], wavelet: loud, amplitude: -2.0, nt: 2, ..Shot::default() };
        assert_eq!(limit(&plain), 8e6);
        // A limit beyond float32 becomes infinite and accepts all numbers.
        assert_eq!(limit(&Shot { amplitude: f32::MAX, ..plain.clone() }), f32::INFINITY);
        let silent = limit(&Shot { amplitude: 0.0, ..plain });
        assert!(probe(&[0.0, -0.0], silent).is_ok());
    }
}
