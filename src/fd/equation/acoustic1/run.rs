//! The time loop of a shot on a team of threads.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::coefficients::Coefficients;
use super::form::Form;
use super::record::{Record, no_memory, reserved, snapshot};
use super::{one_pass, two_sweeps};
use crate::backend::cpu::{Member, Rows, Team, has_room};
use crate::error::{Error, Result};
use crate::fd::shot::Control;
use crate::fd::survey::{Gather, Shot};

/// Steps between two looks for a shot that has blown up.
pub const PROBE: usize = 64;
/// So many times the source no pressure is while steps are stable: beside the poles it is about as large as the source, and
/// less elsewhere. What blows up passes this on its way to infinity, and a shot may end in between.
const FAR_TOO_LARGE: f32 = 1e6;

/// How long the time loop took.
pub type Clock = Duration;

/// A way to compute steps, which the members of a team share.
pub trait Steps: Sync {
    /// What each member has for itself.
    type Own;

    fn own(&self) -> Result<Self::Own>;

    /// A member's share of a step. Begins and ends with all of them; a member that has returned from it may read the
    /// pressure until it calls it again.
    fn step(&self, member: &Member<'_>, own: &mut Self::Own, step: usize) -> Result<()>;

    /// The pressure after a step.
    fn pressure(&self, step: usize) -> Rows<'_>;
}

/// Runs a shot that fits the coefficients' grid.
///
/// Tiles go to whichever thread is free. Every cell is computed from the same numbers in the same order whoever
/// computes it, so the record does not depend on the threads.
pub fn run(
    c: &Coefficients,
    shot: &Shot,
    form: Form,
    team: &Team,
    control: &dyn Control,
) -> Result<(Gather, Clock)> {
    let layout = &c.layout;
    // All together, because memory that is not yet written to still counts as free.
    let picture = shot.snapshot_every.map_or(0, |_| 4 * layout.inner.iter().product::<usize>() as u64);
    let parts = [form.field_bytes(layout), Record::bytes(layout, shot), picture];
    let needed = parts.into_iter().fold(0, u64::saturating_add);
    if !has_room(needed) {
        return Err(no_memory("a shot", needed));
    }
    match form {
        Form::TwoSweeps => {
            let mut fields = two_sweeps::Fields::new(layout)?;
            time_loop(c, shot, &two_sweeps::TwoSweeps::new(c, shot, &mut fields), team, control)
        }
        Form::OnePass => {
            let geometry = one_pass::Geometry::new(c, team.threads());
            let mut fields = one_pass::Fields::new(layout, &geometry)?;
            time_loop(c, shot, &one_pass::OnePass::new(c, &geometry, shot, &mut fields), team, control)
        }
    }
}

fn time_loop<S: Steps>(
    c: &Coefficients,
    shot: &Shot,
    steps: &S,
    team: &Team,
    control: &dyn Control,
) -> Result<(Gather, Clock)> {
    let layout = &c.layout;
    let mut record = Record::new(layout, shot)?;
    let picture = Mutex::new(Vec::new());
    if shot.snapshot_every.is_some() {
        let cells = layout.inner.iter().product();
        let mut room = reserved(cells, "a snapshot of a shot")?;
        room.resize(cells, 0.0);
        *picture.lock().unwrap_or_else(PoisonError::into_inner) = room;
    }
    let samples = record.shared();
    let limit = limit(shot);
    let begin = Instant::now();
    team.run(control, |member, control| {
        let mut own = steps.own()?;
        let traces = member.share(samples.traces());
        let rows = member.share(layout.padded[0] * layout.padded[1]);
        for step in 0..shot.nt {
            let last = step + 1 == shot.nt;
            steps.step(member, &mut own, step)?;
            let p = steps.pressure(step);
            // SAFETY: the pressure is only read until the next step; the traces are this member's.
            unsafe { samples.take(p, traces.clone(), step, last) };
            if last || (step + 1).is_multiple_of(PROBE) {
                for row in rows.clone() {
                    // SAFETY: as above.
                    probe(unsafe { p.read(layout.row(row), layout.padded[2]) }, limit, step)?;
                }
            }
            let Some(control) = control else { continue };
            if shot.snapshot_every.is_some_and(|every| step.is_multiple_of(every)) {
                let mut to = picture.lock().unwrap_or_else(PoisonError::into_inner);
                // SAFETY: as above.
                unsafe { snapshot(layout, p, &mut to) };
                control.snapshot(step, &to)?;
            }
            control.step(step, shot.nt)?;
        }
        Ok(())
    })?;
    Ok((record.gather, begin.elapsed()))
}

/// A magnitude that only the pressure of a shot that has blown up reaches.
pub fn limit(shot: &Shot) -> f32 {
    let samples = shot.wavelet.samples.iter().take(shot.nt);
    let loudest = samples.fold(0.0, |most: f32, sample| most.max((shot.amplitude * sample).abs()));
    (FAR_TOO_LARGE * loudest).max(f32::MIN_POSITIVE)
}

/// Refuses numbers as large as the limit, infinite ones, and what is none.
fn probe(row: &[f32], limit: f32, step: usize) -> Result<()> {
    judge(row.iter().fold(0, |most, value| value.abs().to_bits().max(most)), limit, step)
}

/// The same, of the bits of the largest magnitude: as integers they are in the order of the numbers, and infinity comes
/// before what is no number.
pub fn judge(largest: u32, limit: f32, step: usize) -> Result<()> {
    if largest < limit.to_bits() {
        return Ok(());
    }
    let value = match f32::from_bits(largest) {
        finite if finite.is_finite() => format!("{finite:e}, more than {FAR_TOO_LARGE:e} times the source"),
        _ => "not a finite number".into(),
    };
    let what = format!("the pressure after step {}", step + 1);
    Err(Error::Unstable { what, value, why: "the shot has blown up".into() })
}

#[cfg(test)]
mod tests {
    use super::super::coefficients::Moduli;
    use super::super::isa::Isa;
    use super::*;
    use crate::fd::grid::Grid;
    use crate::fd::model::Model;
    use crate::fd::storage::Storage;
    use crate::fd::survey::Receivers;
    use crate::fd::wavelet::{Shape, Wavelet};

    struct Nothing;

    impl Control for Nothing {
        fn step(&self, _: usize, _: usize) -> Result<()> {
            Ok(())
        }

        fn snapshot(&self, _: usize, _: &[f32]) -> Result<()> {
            Ok(())
        }
    }

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

    fn bits(c: &Coefficients, shot: &Shot, form: Form, threads: usize) -> Vec<u32> {
        let team = Team::new(threads).unwrap();
        let (gather, _) = run(c, shot, form, &team, &Nothing).unwrap();
        assert!(gather.data.iter().any(|v| *v != 0.0), "nothing arrived");
        gather.data.iter().map(|v| v.to_bits()).collect()
    }

    #[test]
    fn neither_threads_nor_tiles_change_a_bit() {
        let n = [11, 14, 23];
        let shot = shot(n, 75);
        for form in [Form::TwoSweeps, Form::OnePass] {
            let mut c = coefficients(n);
            let alone = bits(&c, &shot, form, 1);
            for threads in [2, 3, 5, 7] {
                assert_eq!(bits(&c, &shot, form, threads), alone, "{form:?}, {threads} threads");
            }
            for (columns, depth) in [(1, 1), (5, 3), (9, 50), (50, 9), (1000, 1000)] {
                c.tiles = [[columns, depth]; 2];
                assert_eq!(bits(&c, &shot, form, 2), alone, "{form:?}, tiles of {columns} by {depth}");
            }
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
        for form in [Form::TwoSweeps, Form::OnePass] {
            let found = bits(&numbers, &shot, form, 2);
            assert_eq!(found, bits(&values, &shot, form, 2), "{form:?}");
            assert_ne!(found, bits(&whole, &shot, form, 2), "{form:?}");
        }
    }

    #[test]
    fn a_thinned_record_holds_samples_of_the_full_one() {
        let n = [6, 5, 7];
        let (c, team) = (coefficients(n), Team::new(2).unwrap());
        let full = run(&c, &shot(n, 75), Form::OnePass, &team, &Nothing).unwrap().0;
        for every in [2, 3, 16, 75, 100] {
            let thin = run(&c, &Shot { record_every: every, ..shot(n, 75) }, Form::OnePass, &team, &Nothing)
                .unwrap()
                .0;
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
