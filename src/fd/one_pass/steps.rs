//! The steps of a shot, which the members of a team share.

use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::activity::Activity;
use super::fields::{Fields, SharedFields};
use super::geometry::Geometry;
use super::pass::sweep;
use super::policy::Policy;
use super::scratch::Scratch;
use super::source::SourceInjector;
use super::sweep::SweepStep;
use super::tiles::Tile;
use super::tuning::{TileTuner, Tuning};
use crate::backend::cpu::{Rows, TeamMember};
use crate::backend::float_mode::FloatMode;
use crate::error::Result;
use crate::fd::survey::Shot;
use crate::fd::time_loop::cpu_steps::CpuSteps;
use crate::fd::vector::isa::Isa;

/// Fields from this size on go past the caches when they are written: they are not there any more when they are read again.
const LARGE: u64 = 16 << 20;

/// The steps of a shot with a policy.
pub struct OnePass<'a, P> {
    policy: &'a P,
    geometry: &'a Geometry,
    shot: &'a Shot,
    fields: SharedFields<'a>,
    injector: RwLock<SourceInjector>,
    isa: Isa,
    large: bool,
    /// Tiles that were taken.
    taken: AtomicUsize,
    /// Written by one thread while the others wait for it.
    activity: RwLock<Activity<'a>>,
    tuning: Mutex<Tuning>,
}

impl<'a, P: Policy> OnePass<'a, P> {
    pub fn new(policy: &'a P, geometry: &'a Geometry, shot: &'a Shot, fields: &'a mut Fields) -> Self {
        let layout = &policy.coefficients().layout;
        let injector = RwLock::new(SourceInjector::new(layout, shot, P::SOURCE));
        let large = Fields::bytes(layout, P::PRESSURES) >= LARGE;
        let tuning = Tuning::new(None, shot.nt);
        OnePass {
            policy,
            geometry,
            shot,
            fields: fields.shared(),
            injector,
            isa: Isa::best(),
            large,
            taken: AtomicUsize::new(0),
            activity: RwLock::new(Activity::new(&geometry.partition, layout, 0)),
            tuning: Mutex::new(tuning),
        }
    }

    /// Lets the shot find its tile size.
    pub fn tuned(self, tuner: &TileTuner) -> Self {
        let tuning = Tuning::new(Some(tuner), self.shot.nt);
        self.activity_mut().retile(tuning.first());
        OnePass { tuning: Mutex::new(tuning), ..self }
    }

    /// Returns the same with other instructions, and as if its fields were as large as that or not.
    #[cfg(test)]
    pub fn with(self, isa: Isa, large: bool) -> Self {
        OnePass { isa, large, ..self }
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

/// A step reads one field of the pressure and writes the other; a barrier is between it and the next.
impl<P: Policy> CpuSteps for OnePass<'_, P> {
    type Own = Scratch<P>;

    fn own(&self) -> Result<Scratch<P>> {
        Scratch::new(self.geometry, self.policy.coefficients().storage)
    }

    fn step(&self, member: &TeamMember<'_>, scratch: &mut Scratch<P>, step: usize) -> Result<()> {
        let _mode = FloatMode::flushing();
        let OnePass { policy, geometry, shot, fields, isa, .. } = *self;
        let from = step % 2;
        let value = shot.wavelet.samples.get(step);
        if let Some(value) = value {
            // All members have taken their samples of this field when they arrive here.
            member.barrier_then(|| {
                let mut injector = self.injector.write().unwrap_or_else(PoisonError::into_inner);
                let value = shot.amplitude * value;
                if value != 0.0 {
                    self.activity_mut().mark(|tile| injector.extent(tile));
                }
                let pressures = fields.p.iter().take(P::PRESSURES).map(|both| both[from]);
                // SAFETY: the others wait.
                unsafe { injector.put(pressures, fields.d[0], value) };
            })?;
        }
        let injector = self.injector.read().unwrap_or_else(PoisonError::into_inner);
        let injector = value.map(|_| &*injector);
        let this = SweepStep { policy, geometry, fields, from, injector, stream: self.large, isa };
        let activity = self.activity();
        while let Some(active) = activity.active.get(self.taken.fetch_add(1, Relaxed)) {
            // SAFETY: each tile is taken once a step.
            unsafe {
                sweep(&this, active, scratch);
                for both in &fields.p[..P::PRESSURES] {
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
        let z = self.policy.coefficients().layout.active(2);
        let all = |tile: &Tile| Some([tile.sides[0].cells.clone(), tile.sides[1].cells.clone(), z.clone()]);
        self.activity_mut().mark(all);
    }

    fn computed(&self) -> f64 {
        self.activity().mean_share()
    }

    fn pressure(&self, step: usize) -> Rows<'_> {
        self.fields.p[0][1 - step % 2]
    }

    fn describe_cell(&self, cell: [usize; 3]) -> String {
        self.policy.describe_cell(cell)
    }

    fn fields(&self) -> Vec<Rows<'_>> {
        let SharedFields { p, d, velocity, split } = self.fields;
        let (p, d) = (p.into_iter().take(P::PRESSURES).flatten(), d.into_iter().take(P::PRESSURES));
        p.chain(d).chain(velocity.into_iter().flatten()).chain(split).collect()
    }
}
