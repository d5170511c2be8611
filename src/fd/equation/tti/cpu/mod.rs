//! A step on the CPU: in each tile the fluxes of a plane, then the divergence of those around it.

mod derivative;
mod divergence;
mod fields;
mod flux;
mod geometry;
mod queue;
mod sweep;

use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub use fields::TtiFields;
pub use geometry::{TUNING_STEPS, TtiGeometry};

use self::fields::SharedTtiFields;
use self::queue::QueueMemory;
use self::sweep::{TileStep, TtiSweep};
use super::coefficients::TtiCoefficients;
use crate::backend::cpu::{Rows, TeamMember};
use crate::backend::float_mode::FloatMode;
use crate::error::Result;
use crate::fd::control::Control;
use crate::fd::isotropic_ball::IsotropicBall;
use crate::fd::one_pass::activity::Activity;
use crate::fd::one_pass::source::SourceInjector;
use crate::fd::one_pass::tiles::Tile;
use crate::fd::one_pass::tuning::{TileTuner, Tuning};
use crate::fd::storage::Storage;
use crate::fd::survey::Shot;
use crate::fd::time_loop::cpu_steps::CpuSteps;
use crate::fd::vector::isa::Isa;

/// Cells of the source below its own, and factors.
const MONOPOLE: [(usize, f32); 1] = [(0, 1.0)];
/// Bytes of fields from which on they go past the caches when they are written.
const LARGE: u64 = 16 << 20;

/// Returns the bytes that each thread of a shot computes with.
pub fn thread_bytes(c: &TtiCoefficients) -> u64 {
    // Tiles for more threads are shorter, and as wide.
    let partition = TtiGeometry::new(c, 1).partition;
    QueueMemory::bytes(partition.columns(), partition.ends.len)
}

/// Returns the tuner of the tiles of all shots of a kind.
pub fn tile_tuner(
    c: &TtiCoefficients,
    geometry: &TtiGeometry,
    threads: usize,
    control: &dyn Control,
) -> TileTuner {
    TileTuner::new("tti two-stage", &c.layout, Storage::Float32, &geometry.partition, threads, control)
}

/// The steps of a shot.
pub struct TwoStages<'a> {
    c: &'a TtiCoefficients,
    geometry: &'a TtiGeometry,
    shot: &'a Shot,
    fields: SharedTtiFields<'a>,
    source: RwLock<SourceInjector>,
    ball: Option<IsotropicBall>,
    pub(super) isa: Isa,
    pub(super) stream: bool,
    /// Tiles that were taken.
    taken: AtomicUsize,
    /// Written by one thread while the others wait for it.
    activity: RwLock<Activity<'a>>,
    tuning: Mutex<Tuning>,
}

impl<'a> TwoStages<'a> {
    pub fn new(
        c: &'a TtiCoefficients,
        geometry: &'a TtiGeometry,
        shot: &'a Shot,
        fields: &'a mut TtiFields,
    ) -> Self {
        TwoStages {
            c,
            geometry,
            shot,
            fields: fields.shared(),
            source: RwLock::new(SourceInjector::new(&c.layout, shot, &MONOPOLE)),
            ball: c
                .isotropic_source
                .then(|| IsotropicBall::new(&c.layout, &c.columns.e, &c.columns.s, shot.source)),
            isa: Isa::best(),
            stream: TtiFields::bytes(&c.layout) >= LARGE,
            taken: AtomicUsize::new(0),
            activity: RwLock::new(Activity::new(&geometry.partition, &c.layout, 0)),
            tuning: Mutex::new(Tuning::new(None, shot.nt)),
        }
    }

    /// Lets the shot find its tile size.
    pub fn tuned(self, tuner: &TileTuner) -> Self {
        let tuning = Tuning::new(Some(tuner), self.shot.nt);
        self.activity_mut().retile(tuning.first());
        TwoStages { tuning: Mutex::new(tuning), ..self }
    }

    fn activity(&self) -> RwLockReadGuard<'_, Activity<'a>> {
        self.activity.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn activity_mut(&self) -> RwLockWriteGuard<'_, Activity<'a>> {
        self.activity.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A step reads one field of each pressure and writes the other; a barrier is between it and the next.
impl CpuSteps for TwoStages<'_> {
    type Own = QueueMemory;

    fn own(&self) -> Result<QueueMemory> {
        let partition = &self.geometry.partition;
        QueueMemory::new(partition.columns(), partition.ends.len)
    }

    fn step(&self, member: &TeamMember<'_>, scratch: &mut QueueMemory, step: usize) -> Result<()> {
        let _mode = FloatMode::flushing();
        let from = step % 2;
        let sample = self.shot.wavelet.samples.get(step);
        if let Some(sample) = sample {
            // All members have taken their samples of this field when all are here.
            member.barrier_then(|| {
                let mut source = self.source.write().unwrap_or_else(PoisonError::into_inner);
                let value = self.shot.amplitude * sample;
                if value != 0.0 {
                    self.activity_mut().mark(|tile| source.extent(tile));
                }
                let pressures = [self.fields.p[from], self.fields.q[from]].into_iter();
                // SAFETY: the others wait.
                unsafe { source.put(pressures, self.fields.d, value) };
            })?;
        }
        let source = self.source.read().unwrap_or_else(PoisonError::into_inner);
        let tile_step = TileStep {
            c: self.c,
            geometry: self.geometry,
            fields: self.fields,
            from,
            source: sample.map(|_| &*source),
            ball: self.ball.as_ref(),
            stream: self.stream,
        };
        let activity = self.activity();
        while let Some(active) = activity.active.get(self.taken.fetch_add(1, Relaxed)) {
            let sweep = TtiSweep::new(tile_step, active, scratch);
            // SAFETY: each tile is taken once a step.
            unsafe {
                sweep.run_with(self.isa);
                activity.swept(active, self.fields.p[1 - from]);
                activity.swept(active, self.fields.q[1 - from]);
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
        let z = self.c.layout.active(2);
        let all = |tile: &Tile| Some([tile.sides[0].cells.clone(), tile.sides[1].cells.clone(), z.clone()]);
        self.activity_mut().mark(all);
    }

    fn computed(&self) -> f64 {
        self.activity().mean_share()
    }

    fn pressure(&self, step: usize) -> Rows<'_> {
        self.fields.p[1 - step % 2]
    }

    fn describe_cell(&self, cell: [usize; 3]) -> String {
        self.c.describe_cell(cell)
    }

    fn fields(&self) -> Vec<Rows<'_>> {
        self.fields.all()
    }
}
