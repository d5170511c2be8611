//! The time loop of a shot on a team of threads.

use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};

use super::coefficients::Coefficients;
use super::fields::{self, Fields};
use super::layout::Tile;
use super::record::{Record, reserved, snapshot};
use super::rows::{Fused, Separate};
use super::source::Source;
use super::{pressure, velocity};
use crate::backend::cpu::Team;
use crate::error::{Error, Result};
use crate::fd::shot::Control;
use crate::fd::survey::{Gather, Shot};

/// Steps between two looks for numbers that are none.
const PROBE: usize = 64;

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
fn probe(row: &[f32], step: usize) -> Result<()> {
    let largest = row.iter().fold(0, |most, value| value.to_bits().wrapping_shl(1).max(most));
    if largest < f32::INFINITY.to_bits() << 1 {
        return Ok(());
    }
    Err(Error::Unstable {
        what: format!("the pressure after step {}", step + 1),
        value: "not a finite number".into(),
        why: "the shot has blown up; take a smaller dt, a smaller amplitude, or look at the model".into(),
    })
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
