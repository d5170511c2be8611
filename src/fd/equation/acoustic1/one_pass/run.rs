//! The time loop of a shot on a team of threads.

use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::RwLock;
use std::time::Instant;

use super::super::coefficients::Coefficients;
use super::super::layout::Tile;
use super::super::record::{Record, no_memory, reserved, snapshot};
use super::super::run::{Clock, PROBE, probe};
use super::fields::Fields;
use super::lanes::Plain;
#[cfg(target_arch = "x86_64")]
use super::lanes::{Avx2, Avx512};
use super::pass::{self, Geometry, Scratch, Step};
use super::source::Poles;
use crate::backend::cpu::{Team, has_room};
use crate::error::Result;
use crate::fd::shot::Control;
use crate::fd::survey::{Gather, Shot};

pub fn run(c: &Coefficients, shot: &Shot, team: &Team, control: &dyn Control) -> Result<(Gather, Clock)> {
    let layout = &c.layout;
    let geometry = Geometry::new(c);
    let picture_bytes = shot.snapshot_every.map_or(0, |_| 4 * layout.inner.iter().product::<usize>() as u64);
    let parts = [Fields::bytes(layout, &geometry.zones, &geometry.ends), Record::bytes(layout, shot), picture_bytes];
    let needed = parts.into_iter().fold(0, u64::saturating_add);
    if !has_room(needed) {
        return Err(no_memory("a shot", needed));
    }
    let mut fields = Fields::new(c, &geometry.zones, &geometry.ends)?;
    let mut record = Record::new(layout, shot)?;
    let poles = RwLock::new(Poles::new(layout, shot.source));
    let picture = std::sync::Mutex::new(Vec::new());
    if shot.snapshot_every.is_some() {
        let cells = layout.inner.iter().product();
        let mut room = reserved(cells, "a snapshot of a shot")?;
        room.resize(cells, 0.0);
        *picture.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = room;
    }
    let (shared, samples) = (fields.shared(), record.shared());
    let isa = Isa::best();
    let env = |name: &str, default: usize| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let (columns, depth) = (env("GT_X", 32), env("GT_Y", 64));
    let stream = env("GT_NT", 1) == 1;
    let tiles = layout.tiles(columns, depth);
    let taken = AtomicUsize::new(0);
    let next = || tiles.get(taken.fetch_add(1, Relaxed));
    let begin = Instant::now();
    team.run(control, |member, control| {
        let mut scratch = Scratch::new(&geometry.ends, columns)?;
        let traces = member.share(samples.traces());
        let rows = member.share(layout.padded[0] * layout.padded[1]);
        for step in 0..shot.nt {
            let last = step + 1 == shot.nt;
            let from = step % 2;
            let p = shared.p[1 - from];
            if let Some(value) = shot.wavelet.samples.get(step) {
                // Samples and snapshots of the step before have been taken when all are here.
                member.barrier_then(|| {
                    let mut poles = poles.write().unwrap_or_else(std::sync::PoisonError::into_inner);
                    // SAFETY: the others wait.
                    unsafe { poles.put(shared.p[from], shot.amplitude * value) };
                })?;
            }
            let with_source = step < shot.wavelet.samples.len();
            let poles = poles.read().unwrap_or_else(std::sync::PoisonError::into_inner);
            let poles_now = with_source.then_some(&*poles);
            let this = Step { c, geometry: &geometry, fields: shared, from, poles: poles_now };
            while let Some(tile) = next() {
                // SAFETY: each tile is taken once a step.
                unsafe { isa.sweep(&this, tile, &mut scratch, stream) };
            }
            drop(poles);
            member.barrier_then(|| taken.store(0, Relaxed))?;
            // SAFETY: the pressure is written again after the next barrier; the traces are this member's.
            unsafe { samples.take(p, traces.clone(), step, last) };
            if last || (step + 1).is_multiple_of(PROBE) {
                for row in rows.clone() {
                    // SAFETY: as above.
                    probe(unsafe { p.read(layout.row(row), layout.padded[2]) }, step)?;
                }
            }
            let Some(control) = control else { continue };
            if shot.snapshot_every.is_some_and(|every| step.is_multiple_of(every)) {
                let mut to = picture.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
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

    /// # Safety
    /// As for the sweep; and the processor has the instructions.
    unsafe fn sweep(self, step: &Step<'_>, tile: &Tile, scratch: &mut Scratch, stream: bool) {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma")]
        unsafe fn avx2(step: &Step<'_>, tile: &Tile, scratch: &mut Scratch, stream: bool) {
            // SAFETY: by the caller's promise.
            unsafe {
                if stream { pass::sweep::<Avx2, true>(step, tile, scratch) } else { pass::sweep::<Avx2, false>(step, tile, scratch) }
            }
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f,avx512vl,fma")]
        unsafe fn avx512(step: &Step<'_>, tile: &Tile, scratch: &mut Scratch, stream: bool) {
            // SAFETY: by the caller's promise.
            unsafe {
                if stream { pass::sweep::<Avx512, true>(step, tile, scratch) } else { pass::sweep::<Avx512, false>(step, tile, scratch) }
            }
        }
        // SAFETY: by the caller's promise.
        unsafe {
            match self {
                Isa::Baseline => pass::sweep::<Plain, false>(step, tile, scratch),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => avx2(step, tile, scratch, stream),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 => avx512(step, tile, scratch, stream),
            }
        }
    }
}
