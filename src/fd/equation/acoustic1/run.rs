//! The time loop of a shot on a team of threads.

use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};

use super::coefficients::Coefficients;
use super::fields::{self, Fields};
use super::layout::Tile;
use super::record::{Record, no_memory, reserved, snapshot};
use super::rows::{Fused, Separate};
use super::source::Source;
use super::{pressure, velocity};
use crate::backend::cpu::{Team, has_room};
use crate::error::{Error, Result};
use crate::fd::shot::Control;
use crate::fd::survey::{Gather, Shot};

/// Steps between two looks for numbers that are none.
pub const PROBE: usize = 64;

/// How long the time loop took.
pub type Clock = Duration;

/// Runs a shot that fits the coefficients' grid.
///
/// A step has two sweeps with a barrier after each; tiles go to whichever thread is free. Every
/// cell is computed from the same numbers in the same order whoever computes it, so the record
/// does not depend on the threads. After a step's second barrier the pressure is only read, until
/// the next step's first: that is when samples and snapshots are taken.
pub fn run(c: &Coefficients, shot: &Shot, team: &Team, control: &dyn Control) -> Result<(Gather, Clock)> {
    let layout = &c.layout;
    // All together, because memory that is not yet written to still counts as free.
    let picture_bytes = shot.snapshot_every.map_or(0, |_| 4 * layout.inner.iter().product::<usize>() as u64);
    let parts = [Fields::bytes(layout), Record::bytes(layout, shot), picture_bytes];
    let needed = parts.into_iter().fold(0, u64::saturating_add);
    if !has_room(needed) {
        return Err(no_memory("a shot", needed));
    }
    let mut fields = Fields::new(layout)?;
    let mut record = Record::new(layout, shot)?;
    let source = Source::new(c, shot.source);
    let picture = std::sync::Mutex::new(Vec::new());
    if shot.snapshot_every.is_some() {
        let cells = layout.inner.iter().product();
        let mut room = reserved(cells, "a snapshot of a shot")?;
        room.resize(cells, 0.0);
        *picture.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = room;
    }
    let (shared, samples) = (fields.shared(), record.shared());
    let isa = Isa::best();
    let taken = [AtomicUsize::new(0), AtomicUsize::new(0)];
    let next = |sweep: usize| c.tiles.get(taken[sweep].fetch_add(1, Relaxed));
    let begin = Instant::now();
    team.run(control, |member, control| {
        let traces = member.share(samples.traces());
        let rows = member.share(layout.padded[0] * layout.padded[1]);
        for step in 0..shot.nt {
            let last = step + 1 == shot.nt;
            while let Some(tile) = next(0) {
                // SAFETY: each tile is taken once a sweep, and the pressure is only read.
                unsafe { isa.velocity(c, shared, tile) };
            }
            member.barrier_then(|| {
                taken[0].store(0, Relaxed);
                if let Some(value) = shot.wavelet.samples.get(step) {
                    // SAFETY: the others wait.
                    unsafe { source.fire(shared, shot.amplitude * value) };
                }
            })?;
            while let Some(tile) = next(1) {
                // SAFETY: each tile is taken once a sweep, and the velocities are only read.
                unsafe { isa.pressure(c, shared, tile) };
            }
            member.barrier_then(|| taken[1].store(0, Relaxed))?;
            // SAFETY: the pressure is written again after the next barrier; the traces are this member's.
            unsafe { samples.take(shared.p, traces.clone(), step, last) };
            if last || (step + 1).is_multiple_of(PROBE) {
                for row in rows.clone() {
                    // SAFETY: as above.
                    probe(unsafe { shared.p.read(layout.row(row), layout.padded[2]) }, step)?;
                }
            }
            let Some(control) = control else { continue };
            if shot.snapshot_every.is_some_and(|every| step.is_multiple_of(every)) {
                let mut to = picture.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                // SAFETY: as above.
                unsafe { snapshot(layout, shared.p, &mut to) };
                control.snapshot(step, &to)?;
            }
            control.step(step, shot.nt)?;
        }
        Ok(())
    })?;
    Ok((record.gather, begin.elapsed()))
}

/// Refuses numbers that are infinite or none.
pub fn probe(row: &[f32], step: usize) -> Result<()> {
    let largest = row.iter().fold(0, |most, value| value.to_bits().wrapping_shl(1).max(most));
    if largest < f32::INFINITY.to_bits() << 1 {
        return Ok(());
    }
    Err(unstable(step))
}

/// After a step there are numbers that are none.
pub fn unstable(step: usize) -> Error {
    Error::Unstable {
        what: format!("the pressure after step {}", step + 1),
        value: "not a finite number".into(),
        why: "the shot has blown up; take a smaller dt, a smaller amplitude, or look at the model".into(),
    }
}

/// The instructions that a sweep is compiled for.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Isa {
    /// What every processor of the architecture has.
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// Fused multiply-add is in the baseline of 64-bit Arm.
#[cfg(target_arch = "aarch64")]
type Baseline = Fused;
#[cfg(not(target_arch = "aarch64"))]
type Baseline = Separate;

impl Isa {
    fn best() -> Isa {
        #[cfg(target_arch = "x86_64")]
        {
            let fma = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            if fma && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl") {
                return Isa::Avx512;
            }
            if fma {
                return Isa::Avx2;
            }
        }
        Isa::Baseline
    }
}

/// One method a sweep, that runs it as compiled for the instructions.
macro_rules! dispatch {
    ($($sweep:ident),*) => {
        impl Isa {
            $(
                /// # Safety
                /// As for the sweep; and the processor has the instructions.
                unsafe fn $sweep(self, c: &Coefficients, fields: fields::Shared<'_>, tile: &Tile) {
                    #[cfg(target_arch = "x86_64")]
                    #[target_feature(enable = "avx2,fma")]
                    unsafe fn avx2(c: &Coefficients, fields: fields::Shared<'_>, tile: &Tile) {
                        // SAFETY: by the caller's promise.
                        unsafe { $sweep::sweep::<Fused>(c, fields, tile) }
                    }
                    #[cfg(target_arch = "x86_64")]
                    #[target_feature(enable = "avx512f,avx512vl,fma")]
                    unsafe fn avx512(c: &Coefficients, fields: fields::Shared<'_>, tile: &Tile) {
                        // SAFETY: by the caller's promise.
                        unsafe { $sweep::sweep::<Fused>(c, fields, tile) }
                    }
                    // SAFETY: by the caller's promise.
                    unsafe {
                        match self {
                            Isa::Baseline => $sweep::sweep::<Baseline>(c, fields, tile),
                            #[cfg(target_arch = "x86_64")]
                            Isa::Avx2 => avx2(c, fields, tile),
                            #[cfg(target_arch = "x86_64")]
                            Isa::Avx512 => avx512(c, fields, tile),
                        }
                    }
                }
            )*
        }
    };
}

dispatch!(velocity, pressure);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fd::grid::Grid;
    use crate::fd::model::Model;
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

    fn coefficients(n: [usize; 3]) -> Coefficients {
        let grid = Grid { n, h: [10.0, 11.0, 9.0] };
        let vp = (0..grid.cells()).map(|i| 1500.0 + (i * 37 % 1000) as f32).collect();
        let rho = (0..grid.cells()).map(|i| 1000.0 + (i * 53 % 800) as f32).collect();
        Coefficients::new(&Model::new(grid, vp, Some(rho)).unwrap(), 1e-3, 9).unwrap()
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
        let (gather, _) = run(c, shot, &team, &Nothing).unwrap();
        assert!(gather.data.iter().any(|v| *v != 0.0), "nothing arrived");
        gather.data.iter().map(|v| v.to_bits()).collect()
    }

    #[test]
    fn neither_threads_nor_tiles_change_a_bit() {
        let n = [11, 14, 23];
        let mut c = coefficients(n);
        let shot = shot(n, 75);
        let alone = bits(&c, &shot, 1);
        for threads in [2, 3, 7] {
            assert_eq!(bits(&c, &shot, threads), alone, "{threads} threads");
        }
        for (columns, depth) in [(1, 1), (5, 3), (1000, 1000)] {
            c.tiles = c.layout.tiles(columns, depth);
            assert_eq!(bits(&c, &shot, 2), alone, "tiles of {columns} by {depth}");
        }
    }

    #[test]
    fn a_thinned_record_holds_samples_of_the_full_one() {
        let n = [6, 5, 7];
        let (c, team) = (coefficients(n), Team::new(2).unwrap());
        let full = run(&c, &shot(n, 75), &team, &Nothing).unwrap().0;
        for every in [2, 3, 16, 75, 100] {
            let thin = run(&c, &Shot { record_every: every, ..shot(n, 75) }, &team, &Nothing).unwrap().0;
            assert_eq!((thin.traces, thin.samples), (full.traces, 75usize.div_ceil(every)));
            for (thin, full) in thin.data.chunks(thin.samples).zip(full.data.chunks(75)) {
                assert_eq!(thin, full.iter().copied().step_by(every).collect::<Vec<_>>(), "every {every}");
            }
        }
    }

    #[test]
    fn wide_instructions_round_as_narrow_ones() {
        let n = [9, 4, 33];
        let c = coefficients(n);
        let mut fields = [Fields::new(&c.layout).unwrap(), Fields::new(&c.layout).unwrap()];
        let isas = [Isa::Baseline, Isa::best()];
        let source = Source::new(&c, [4, 2, 16]);
        for (fields, isa) in fields.iter_mut().zip(isas) {
            let shared = fields.shared();
            for step in 0..40 {
                // SAFETY: one thread, one set of fields.
                unsafe {
                    c.tiles.iter().for_each(|tile| isa.velocity(&c, shared, tile));
                    source.fire(shared, (step as f32 / 5.0).sin());
                    c.tiles.iter().for_each(|tile| isa.pressure(&c, shared, tile));
                }
            }
        }
        let row = |fields: &mut Fields| {
            // SAFETY: nobody writes any more.
            unsafe { fields.shared().p.read(c.layout.row(0), c.layout.field_len() - c.layout.row(0)) }
                .to_vec()
        };
        let [mut narrow, mut wide] = fields;
        let (narrow, wide) = (row(&mut narrow), row(&mut wide));
        let norm = |a: &mut dyn Iterator<Item = f32>| a.map(|v| f64::from(v).powi(2)).sum::<f64>().sqrt();
        let apart =
            norm(&mut narrow.iter().zip(&wide).map(|(a, b)| a - b)) / norm(&mut narrow.iter().copied());
        // Fused and separate rounding drift apart by some 1e-7; a wrong lane would be of order one.
        assert!(apart < 2e-6, "{apart}");
        assert!(norm(&mut narrow.iter().copied()) > 0.0);
    }

    #[test]
    fn the_probe_knows_numbers() {
        for good in [0.0, -0.0, f32::MAX, f32::MIN, f32::MIN_POSITIVE, 1e-45] {
            assert!(probe(&[0.0, good], 0).is_ok(), "{good}");
        }
        for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert!(matches!(probe(&[0.0, bad, 1.0], 7), Err(Error::Unstable { .. })), "{bad}");
        }
    }
}
