//! Steps of a shot, shared by the members of a team.

use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::activity::Activity;
use super::equation::{TileStep, TiledEquation};
use super::partition::Partition;
use super::source::SourceInjector;
use super::tiles::Tile;
use super::tuning::{TileTuner, Tuning};
use crate::backend::cpu::{Buffer, Rows, TeamMember};
use crate::backend::float_mode::FloatMode;
use crate::error::Result;
use crate::fd::survey::Shot;
use crate::fd::time_loop::cpu::CpuSteps;
use crate::fd::vector::isa::Isa;

/// Bytes of fields from which on fields are written past the caches, because a cache does not hold
/// them until they are read again.
const LARGE: u64 = 16 << 20;

/// Steps of a shot.
pub struct TiledSteps<'a, E: TiledEquation> {
    equation: &'a E,
    partition: &'a Partition,
    shot: &'a Shot,
    fields: Vec<Rows<'a>>,
    injector: RwLock<SourceInjector>,
    isa: Isa,
    stream: bool,
    /// Number of tiles that members have taken in this step.
    taken: AtomicUsize,
    /// Written by one thread while the others wait for it.
    activity: RwLock<Activity<'a>>,
    tuning: Mutex<Tuning>,
}

impl<'a, E: TiledEquation> TiledSteps<'a, E> {
    /// Makes the steps of a shot. `fields`: those of [`TiledEquation::fields_at_rest`].
    pub fn new(equation: &'a E, partition: &'a Partition, shot: &'a Shot, fields: &'a mut [Buffer]) -> Self {
        let layout = equation.layout();
        TiledSteps {
            equation,
            partition,
            shot,
            fields: fields.iter_mut().map(Buffer::rows).collect(),
            injector: RwLock::new(SourceInjector::new(layout, shot, E::SOURCE)),
            isa: Isa::best(),
            stream: equation.field_bytes() >= LARGE,
            taken: AtomicUsize::new(0),
            activity: RwLock::new(Activity::new(partition, layout, 0)),
            tuning: Mutex::new(Tuning::new(None, shot.nt)),
        }
    }

    /// Tunes the tile size during the shot.
    pub fn tuned(self, tuner: &TileTuner) -> Self {
        let tuning = Tuning::new(Some(tuner), self.shot.nt);
        self.activity_mut().retile(tuning.first());
        TiledSteps { tuning: Mutex::new(tuning), ..self }
    }

    /// Replaces the instruction set, and whether fields are written past the caches.
    #[cfg(test)]
    pub fn with(self, isa: Isa, stream: bool) -> Self {
        TiledSteps { isa, stream, ..self }
    }

    /// Continues with other tiles, between two steps.
    #[cfg(test)]
    pub fn retile(&self, tiling: usize) {
        self.activity_mut().retile(tiling);
    }

    fn activity(&self) -> RwLockReadGuard<'_, Activity<'a>> {
        self.activity.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn activity_mut(&self) -> RwLockWriteGuard<'_, Activity<'a>> {
        self.activity.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A step reads one field of each pressure and writes the other. A barrier separates it from the
/// next.
impl<E: TiledEquation> CpuSteps for TiledSteps<'_, E> {
    type Own = Buffer;

    fn own(&self) -> Result<Buffer> {
        Buffer::zeroed(self.equation.scratch_len(self.partition), "what a thread of a shot computes with")
    }

    fn step(&self, member: &TeamMember<'_>, own: &mut Buffer, step: usize) -> Result<()> {
        let _mode = FloatMode::flushing();
        let TiledSteps { equation, partition, shot, ref fields, stream, isa, .. } = *self;
        let from = step % 2;
        let sample = shot.wavelet.samples.get(step);
        if let Some(sample) = sample {
            // All members have recorded their samples of this pressure when they arrive here.
            member.barrier_then(|| {
                let mut injector = self.injector.write().unwrap_or_else(PoisonError::into_inner);
                let value = shot.amplitude * sample;
                if value != 0.0 {
                    self.activity_mut().mark(|tile| injector.extent(tile));
                }
                let pressures = fields.chunks_exact(2).take(E::PRESSURES).map(|both| both[from]);
                // SAFETY: the others wait.
                unsafe { injector.put(pressures, fields[E::increment_field(from)], value) };
            })?;
        }
        let injector = self.injector.read().unwrap_or_else(PoisonError::into_inner);
        let injector = sample.map(|_| &*injector);
        let this = TileStep { equation, partition, fields, from, injector, stream, isa };
        let activity = self.activity();
        while let Some(active) = activity.active.get(self.taken.fetch_add(1, Relaxed)) {
            // SAFETY: each tile is taken once a step.
            unsafe {
                E::sweep(&this, active, own.as_mut_ptr());
                if stream {
                    isa.fence();
                }
                for both in fields.chunks_exact(2).take(E::PRESSURES) {
                    activity.swept(active, both[1 - from]);
                }
            }
        }
        drop(activity);
        member.barrier_then(|| {
            self.taken.store(0, Relaxed);
            let mut activity = self.activity_mut();
            activity.end_step();
            let mut tuning = self.tuning.lock().unwrap_or_else(PoisonError::into_inner);
            let tiling = tuning.tiling(step + 1, &activity);
            activity.retile(tiling);
        })
    }

    fn resumed(&self) {
        let z = self.equation.layout().active(2);
        let all = |tile: &Tile| Some([tile.sides[0].cells.clone(), tile.sides[1].cells.clone(), z.clone()]);
        self.activity_mut().mark(all);
    }

    fn computed(&self) -> f64 {
        self.activity().mean_share()
    }

    fn pressure(&self, step: usize) -> Rows<'_> {
        self.fields[1 - step % 2]
    }

    fn describe_cell(&self, cell: [usize; 3]) -> String {
        self.equation.describe_cell(cell)
    }

    fn fields(&self) -> Vec<Rows<'_>> {
        self.fields.clone()
    }

    fn state(&self, done: usize) -> Vec<Rows<'_>> {
        let is_overwritten = |number: usize| E::PAIRS.iter().any(|first| number == first + 1 - done % 2);
        let read = (0..self.fields.len()).filter(|number| !is_overwritten(*number));
        read.map(|number| self.fields[number]).collect()
    }
}
