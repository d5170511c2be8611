//! A step in one pass over the grid: the pressure alone, its velocities eliminated where nothing is damped.

mod activity;
#[cfg(test)]
mod any_shape;
mod fields;
mod flux_xy;
mod flux_z;
mod geometry;
mod partition;
mod pass;
mod prefetch;
mod rows;
mod scratch;
mod source;
mod sweep;
mod tiles;
mod tuning;
mod update;

use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub use fields::Fields;
pub use geometry::{Geometry, TUNING_STEPS};
pub use tuning::TileTuner;

use self::activity::{ActiveTile, Activity};
use self::fields::SharedFields;
use self::pass::sweep;
use self::scratch::Scratch;
use self::source::SourceInjector;
use self::sweep::SweepStep;
use self::tiles::Tile;
use self::tuning::Tuning;
use super::coefficients::Coefficients;
use crate::backend::cpu::{Rows, TeamMember};
use crate::backend::float_mode::FloatMode;
use crate::error::Result;
use crate::fd::survey::Shot;
use crate::fd::time_loop::cpu_steps::CpuSteps;
use crate::fd::vector::isa::Isa;
use crate::fd::vector::lanes::Plain;
#[cfg(target_arch = "x86_64")]
use crate::fd::vector::x86::{Avx2, Avx512};

/// Fields from this size on go past the caches when they are written: they are not there any more when they are read again.
const LARGE: u64 = 16 << 20;

/// Bytes of what so many threads of a shot compute with.
pub fn threads_bytes(c: &Coefficients, threads: usize) -> u64 {
    thread_bytes(c).saturating_mul(threads as u64)
}

/// Bytes of what each thread of a shot computes with.
fn thread_bytes(c: &Coefficients) -> u64 {
    // Tiles for more threads are shorter, and as wide.
    Scratch::bytes(&Geometry::new(c, 1), c.storage)
}

pub struct OnePass<'a> {
    c: &'a Coefficients,
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

impl<'a> OnePass<'a> {
    pub fn new(c: &'a Coefficients, geometry: &'a Geometry, shot: &'a Shot, fields: &'a mut Fields) -> Self {
        let injector = RwLock::new(SourceInjector::new(&c.layout, shot.source));
        let large = Fields::bytes(&c.layout) >= LARGE;
        let tuning = Tuning::new(None, shot.nt);
        OnePass {
            c,
            geometry,
            shot,
            fields: fields.shared(),
            injector,
            isa: Isa::best(),
            large,
            taken: AtomicUsize::new(0),
            activity: RwLock::new(Activity::new(&geometry.partition, &c.layout, 0)),
            tuning: Mutex::new(tuning),
        }
    }

    /// Lets the shot find its tile size.
    pub fn tuned(self, tuner: &TileTuner) -> Self {
        let tuning = Tuning::new(Some(tuner), self.shot.nt);
        self.activity_mut().retile(tuning.first());
        OnePass { tuning: Mutex::new(tuning), ..self }
    }

    fn activity(&self) -> RwLockReadGuard<'_, Activity<'a>> {
        self.activity.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn activity_mut(&self) -> RwLockWriteGuard<'_, Activity<'a>> {
        self.activity.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A step reads one field of the pressure and writes the other; a barrier is between it and the next.
impl CpuSteps for OnePass<'_> {
    type Own = Scratch;

    fn own(&self) -> Result<Scratch> {
        Scratch::new(self.geometry, self.c.storage)
    }

    fn step(&self, member: &TeamMember<'_>, scratch: &mut Scratch, step: usize) -> Result<()> {
        let _mode = FloatMode::flushing();
        let OnePass { c, geometry, shot, fields, .. } = *self;
        let from = step % 2;
        let value = shot.wavelet.samples.get(step);
        if let Some(value) = value {
            // Whoever took samples of this field has done so when all are here.
            member.barrier_then(|| {
                let mut injector = self.injector.write().unwrap_or_else(PoisonError::into_inner);
                let value = shot.amplitude * value;
                if value != 0.0 {
                    self.activity_mut().mark(|tile| injector.extent(tile));
                }
                // SAFETY: the others wait.
                unsafe { injector.put(fields.p[from], value) };
            })?;
        }
        let injector = self.injector.read().unwrap_or_else(PoisonError::into_inner);
        let injector = value.map(|_| &*injector);
        let this = SweepStep { c, geometry, fields, from, injector, stream: self.large };
        let activity = self.activity();
        while let Some(active) = activity.active.get(self.taken.fetch_add(1, Relaxed)) {
            // SAFETY: each tile is taken once a step.
            unsafe {
                self.isa.pass(&this, active, scratch);
                activity.swept(active, fields.p[1 - from]);
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
        let fields::SharedFields { p, d, velocity, split } = self.fields;
        p.into_iter().chain([d]).chain(velocity.into_iter().flatten()).chain(split).collect()
    }
}

impl Isa {
    /// # Safety
    /// As for [`sweep()`]; and the processor has the instructions.
    unsafe fn pass(self, step: &SweepStep<'_>, active: &ActiveTile, scratch: &mut Scratch) {
        // SAFETY: by the caller's promise.
        unsafe {
            match active.tile.sides.each_ref().map(|side| side.pml) {
                [false, false] => self.pass_of::<false, false>(step, active, scratch),
                [false, true] => self.pass_of::<false, true>(step, active, scratch),
                [true, false] => self.pass_of::<true, false>(step, active, scratch),
                [true, true] => self.pass_of::<true, true>(step, active, scratch),
            }
        }
    }

    /// A function for each kind of tile and of processor: one for all would be more than a compiler likes.
    #[inline(always)]
    unsafe fn pass_of<const X_PML: bool, const Y_PML: bool>(
        self,
        step: &SweepStep<'_>,
        active: &ActiveTile,
        scratch: &mut Scratch,
    ) {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma")]
        unsafe fn avx2<const X_PML: bool, const Y_PML: bool>(
            step: &SweepStep<'_>,
            active: &ActiveTile,
            scratch: &mut Scratch,
        ) {
            // SAFETY: by the caller's promise.
            unsafe { sweep::<Avx2, X_PML, Y_PML>(step, active, scratch) }
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f,avx512vl,fma")]
        unsafe fn avx512<const X_PML: bool, const Y_PML: bool>(
            step: &SweepStep<'_>,
            active: &ActiveTile,
            scratch: &mut Scratch,
        ) {
            // SAFETY: by the caller's promise.
            unsafe { sweep::<Avx512, X_PML, Y_PML>(step, active, scratch) }
        }
        #[inline(never)]
        unsafe fn plain<const X_PML: bool, const Y_PML: bool>(
            step: &SweepStep<'_>,
            active: &ActiveTile,
            scratch: &mut Scratch,
        ) {
            // SAFETY: by the caller's promise.
            unsafe { sweep::<Plain, X_PML, Y_PML>(step, active, scratch) }
        }
        // SAFETY: by the caller's promise.
        unsafe {
            match self {
                Isa::Baseline => plain::<X_PML, Y_PML>(step, active, scratch),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => avx2::<X_PML, Y_PML>(step, active, scratch),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 => avx512::<X_PML, Y_PML>(step, active, scratch),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::Team;
    use crate::fd::equation::acoustic1::coefficients::Acoustic1Material;
    use crate::fd::grid::Grid;
    use crate::fd::model::Model;
    use crate::fd::storage::Storage;
    use crate::fd::survey::Receivers;
    use crate::fd::wavelet::{Shape, Wavelet};

    /// The pressure after some steps in a small rough medium, all of it.
    fn field(isa: Isa, large: bool, storage: Storage) -> Vec<f32> {
        field_of(1.0, isa, large, storage)
    }

    fn field_of(amplitude: f32, isa: Isa, large: bool, storage: Storage) -> Vec<f32> {
        let n = [19, 14, 33];
        let grid = Grid { n, h: [10.0, 11.0, 9.0] };
        let vp = (0..grid.cells()).map(|i| 1500.0 + (i * 37 % 1000) as f32).collect();
        let rho = (0..grid.cells()).map(|i| 1000.0 + (i * 53 % 800) as f32).collect();
        let model = Model::new(grid, vp, Some(rho)).unwrap();
        let c = Acoustic1Material::new(&model, 9, storage).unwrap().coefficients(1e-3);
        let shot = Shot {
            source: [4, 2, 16],
            wavelet: Wavelet::new(Shape::Ricker, 30.0, 1e-3, 40).unwrap(),
            amplitude,
            nt: 40,
            receivers: Receivers::Plane { iz: 0, every: [1, 1] },
            record_every: 1,
            snapshot_every: None,
            mute: None,
        };
        let geometry = Geometry::new(&c, 2);
        let mut fields = Fields::new(&c.layout, &geometry).unwrap();
        let mut steps = OnePass::new(&c, &geometry, &shot, &mut fields);
        (steps.isa, steps.large) = (isa, large);
        let team = Team::new(2).unwrap();
        let run = |member: &TeamMember<'_>, _: Option<&()>| {
            let mut own = steps.own()?;
            (0..shot.nt).try_for_each(|step| steps.step(member, &mut own, step))
        };
        team.run(&(), run).unwrap();
        let p = steps.pressure(shot.nt - 1);
        let begin = c.layout.row(0);
        // SAFETY: nobody writes any more.
        unsafe { p.read(begin, c.layout.field_len() - begin) }.to_vec()
    }

    /// The velocities of a source of 1e-36 are denormal.
    #[test]
    fn denormal_numbers_are_flushed_with_all_instructions() {
        for (isa, storage) in
            Isa::all().into_iter().flat_map(|isa| Storage::ALL.map(|storage| (isa, storage)))
        {
            for large in [false, true] {
                let field = field_of(1e-36, isa, large, storage);
                assert!(field.iter().all(|p| *p == 0.0), "{isa:?}, {storage:?}, {large}");
            }
        }
    }

    #[test]
    fn instructions_and_caches_change_no_bit() {
        for storage in Storage::ALL {
            let best = field(Isa::best(), false, storage);
            assert!(best.iter().any(|v| *v != 0.0));
            assert_eq!(field(Isa::best(), true, storage), best);
            #[cfg(target_arch = "x86_64")]
            if Isa::best() == Isa::Avx512 {
                assert_eq!(field(Isa::Avx2, false, storage), best);
                assert_eq!(field(Isa::Avx2, true, storage), best);
            }
        }
    }

    /// Fused and separate rounding drift apart by some 1e-7; a wrong lane would be of order one.
    #[test]
    fn the_baseline_rounds_twice_at_most() {
        for storage in Storage::ALL {
            let [narrow, wide] = [Isa::Baseline, Isa::best()].map(|isa| field(isa, false, storage));
            let norm = |a: &mut dyn Iterator<Item = f32>| a.map(|v| f64::from(v).powi(2)).sum::<f64>().sqrt();
            let apart =
                norm(&mut narrow.iter().zip(&wide).map(|(a, b)| a - b)) / norm(&mut narrow.iter().copied());
            assert!(apart < 2e-6, "{apart}");
        }
    }

    /// What is never updated stays at rest, and so do the values between rows.
    #[test]
    fn nothing_moves_beyond_the_updated_cells() {
        let layout = crate::fd::grid::layout::Layout::new(&Grid { n: [19, 14, 33], h: [1.0; 3] }, 9);
        let [nx, ny, _] = layout.padded;
        for storage in Storage::ALL {
            let field = field(Isa::best(), false, storage);
            for row in 0..nx * ny {
                let active = layout.active(0).contains(&(row % nx)) && layout.active(1).contains(&(row / nx));
                for (z, value) in field[row * layout.pitch..][..layout.pitch].iter().enumerate() {
                    let moves = active && layout.active(2).contains(&z);
                    assert!(moves || *value == 0.0, "row {row}, {z}: {value}");
                }
            }
        }
    }
}
