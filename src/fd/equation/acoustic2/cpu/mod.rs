//! The step on the CPU.

mod sweep;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use self::sweep::{Step, TileSweep};
use super::coefficients::Coefficients;
use super::layer;
use crate::backend::cpu::{Buffer, Rows, Team, TeamMember};
use crate::backend::float_mode::FloatMode;
use crate::error::Result;
use crate::fd::control::Control;
use crate::fd::grid::layout::Layout;
use crate::fd::grid::zones::{Ends, Zones};
use crate::fd::inject::DIPOLE;
use crate::fd::one_pass::activity::Activity;
use crate::fd::one_pass::partition::Partition;
use crate::fd::one_pass::source::SourceInjector;
use crate::fd::one_pass::tiles::Tile;
use crate::fd::one_pass::tuning::{TileTuner, Tuning, tuning_steps};
use crate::fd::survey::{Effort, Gather, Shot};
use crate::fd::time_loop;
use crate::fd::time_loop::cpu_steps::CpuSteps;
use crate::fd::vector::isa::Isa;

/// Runs a shot that fits the coefficients' grid.
pub fn run(c: &Coefficients, shot: &Shot, team: &Team, control: &dyn Control) -> Result<(Gather, Effort)> {
    let layout = &c.layout;
    time_loop::cpu::check_memory(layout, shot, field_bytes(c))?;
    let partition = partition(layout, team.threads(), &SIZES);
    let mut fields = fields(c)?;
    let name = if c.layers.is_some() { "acoustic2-pml" } else { "acoustic2" };
    let tuner = TileTuner::new(name, layout, c.storage, &partition, team.threads(), control);
    let steps = Sweeps::new(c, &partition, shot, &mut fields).tuned(&tuner);
    let done = time_loop::cpu::run(layout, shot, &steps, team, control);
    tuner.report(control);
    done
}

/// Rows along x and planes along y of the tiles that are tried, the default first. Nine planes of a tile fit into the
/// second-level cache.
const SIZES: [[usize; 2]; 4] = [[32, 512], [24, 512], [16, 512], [48, 512]];

/// Steps after which any shot has found its tile size.
pub const TUNING_STEPS: usize = tuning_steps(SIZES.len());

/// Divides the grid into tiles for so many threads. All cells are updated alike.
fn partition(layout: &Layout, threads: usize, sizes: &[[usize; 2]]) -> Partition {
    let zones = [0, 1, 2].map(|axis| Zones::uniform(layout, axis));
    Partition::new(zones, Ends::uniform(layout), threads, sizes)
}

/// Returns the lengths of the fields of a shot: the pressure of even and of odd steps, and those of a PML.
fn lens(c: &Coefficients) -> impl Iterator<Item = usize> {
    let layers = c.layers.iter().flat_map(|_| layer::lens(&c.layout, Layout::clone));
    [c.layout.field_len(); 2].into_iter().chain(layers)
}

/// Returns the fields of a shot at rest.
fn fields(c: &Coefficients) -> Result<Vec<Buffer>> {
    lens(c).map(|len| Buffer::zeroed(len, "a field of a shot")).collect()
}

/// Returns the bytes that [`fields`] allocates.
pub fn field_bytes(c: &Coefficients) -> u64 {
    lens(c).map(Buffer::bytes_of).sum()
}

/// The steps of a shot.
struct Sweeps<'a> {
    c: &'a Coefficients,
    shot: &'a Shot,
    sponge_z: Vec<f32>,
    p: [Rows<'a>; 2],
    /// Those of a PML: `phi` of even and of odd steps, `chi`, for x, y and z.
    layers: Vec<Rows<'a>>,
    injector: Mutex<SourceInjector>,
    isa: Isa,
    /// The number of parts that threads have begun in this step.
    begun: AtomicUsize,
    /// Written by one thread while the others wait for it.
    activity: RwLock<Activity<'a>>,
    tuning: Mutex<Tuning>,
}

impl<'a> Sweeps<'a> {
    fn new(c: &'a Coefficients, partition: &'a Partition, shot: &'a Shot, fields: &'a mut [Buffer]) -> Self {
        let active = c.layout.active(2);
        let mut all = fields.iter_mut().map(Buffer::rows);
        let [p, other] = [(); 2].map(|()| all.next().expect("the pressures"));
        let mut sponge_z = vec![0.0; partition.ends.len];
        sponge_z[..active.len()].copy_from_slice(&c.sponge[2][active]);
        Sweeps {
            c,
            shot,
            sponge_z,
            p: [p, other],
            layers: all.collect(),
            injector: Mutex::new(SourceInjector::new(&c.layout, shot, &DIPOLE)),
            isa: Isa::best(),
            begun: AtomicUsize::new(0),
            activity: RwLock::new(Activity::new(partition, &c.layout, 0)),
            tuning: Mutex::new(Tuning::new(None, shot.nt)),
        }
    }

    /// Lets the shot find its tile size.
    fn tuned(self, tuner: &TileTuner) -> Self {
        let tuning = Tuning::new(Some(tuner), self.shot.nt);
        self.activity_mut().retile(tuning.first());
        Sweeps { tuning: Mutex::new(tuning), ..self }
    }

    fn activity(&self) -> RwLockReadGuard<'_, Activity<'a>> {
        self.activity.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn activity_mut(&self) -> RwLockWriteGuard<'_, Activity<'a>> {
        self.activity.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CpuSteps for Sweeps<'_> {
    type Own = ();

    fn own(&self) -> Result<()> {
        Ok(())
    }

    fn step(&self, member: &TeamMember<'_>, (): &mut (), step: usize) -> Result<()> {
        let _mode = FloatMode::flushing();
        let (p, other) = (self.p[step % 2], self.p[1 - step % 2]);
        if let Some(sample) = self.shot.wavelet.samples.get(step) {
            // After the last member has taken its samples of `p`.
            member.barrier_then(|| {
                let mut injector = self.injector.lock().unwrap_or_else(PoisonError::into_inner);
                let value = self.shot.amplitude * sample;
                if value != 0.0 {
                    self.activity_mut().mark(|tile| injector.extent(tile));
                }
                // SAFETY: the others wait.
                unsafe { injector.put([p].into_iter(), other, value) };
            })?;
        }
        let this =
            Step { c: self.c, sponge_z: &self.sponge_z, p, other, layers: &self.layers, odd: step % 2 };
        let activity = self.activity();
        while let Some(tile) = activity.active.get(self.begun.fetch_add(1, Relaxed)) {
            // SAFETY: each tile is swept once a step.
            unsafe {
                self.isa.run(&TileSweep(&this, tile));
                activity.swept(tile, other);
            }
        }
        drop(activity);
        member.barrier_then(|| {
            self.begun.store(0, Relaxed);
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
        self.p[1 - step % 2]
    }

    fn describe_cell(&self, cell: [usize; 3]) -> String {
        self.c.describe_cell(cell)
    }

    fn fields(&self) -> Vec<Rows<'_>> {
        self.p.iter().chain(&self.layers).copied().collect()
    }
}
