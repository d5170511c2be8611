//! A step as two sweeps over the grid: all velocities from the pressure, then the pressure from them. The plain form, to
//! which others are held.

use std::sync::atomic::{AtomicUsize, Ordering::*};

use super::coefficients::Coefficients;
pub use super::fields::Fields;
use super::fields::Shared;
use super::isa::Isa;
use super::layout::Tile;
use super::rows::Fused;
use super::source::Source;
use super::steps::Steps;
use super::{pressure, velocity};
use crate::backend::cpu::{Rows, TeamMember};
use crate::backend::float_mode::FloatMode;
use crate::error::Result;
use crate::fd::survey::Shot;

pub struct TwoSweeps<'a> {
    c: &'a Coefficients,
    shot: &'a Shot,
    fields: Shared<'a>,
    source: Source,
    tiles: Vec<Tile>,
    isa: Isa,
    /// Tiles that were taken, of each sweep.
    taken: [AtomicUsize; 2],
}

impl<'a> TwoSweeps<'a> {
    pub fn new(c: &'a Coefficients, shot: &'a Shot, fields: &'a mut Fields) -> Self {
        let source = Source::new(c, shot.source);
        let taken = [AtomicUsize::new(0), AtomicUsize::new(0)];
        let tiles = c.layout.tiles(c.tiles[0]);
        TwoSweeps { c, shot, fields: fields.shared(), source, tiles, isa: Isa::best(), taken }
    }

    fn next(&self, sweep: usize) -> Option<&Tile> {
        self.tiles.get(self.taken[sweep].fetch_add(1, Relaxed))
    }
}

/// A barrier after each sweep: the pressure is only read after the second, until the next step's first.
impl Steps for TwoSweeps<'_> {
    type Own = ();

    fn own(&self) -> Result<()> {
        Ok(())
    }

    fn step(&self, member: &TeamMember<'_>, (): &mut (), step: usize) -> Result<()> {
        let _mode = FloatMode::flushing();
        let TwoSweeps { c, shot, fields, source, isa, taken, .. } = self;
        while let Some(tile) = self.next(0) {
            // SAFETY: each tile is taken once a sweep, and the pressure is only read.
            unsafe { isa.velocity(c, *fields, tile) };
        }
        member.barrier_then(|| {
            taken[0].store(0, Relaxed);
            if let Some(value) = shot.wavelet.samples.get(step) {
                // SAFETY: the others wait.
                unsafe { source.fire(*fields, shot.amplitude * value) };
            }
        })?;
        while let Some(tile) = self.next(1) {
            // SAFETY: each tile is taken once a sweep, and the velocities are only read.
            unsafe { isa.pressure(c, *fields, tile) };
        }
        member.barrier_then(|| taken[1].store(0, Relaxed))
    }

    fn pressure(&self, _: usize) -> Rows<'_> {
        self.fields.p
    }

    fn fields(&self) -> Vec<Rows<'_>> {
        let super::fields::Shared { p, velocity, part } = self.fields;
        [p].into_iter().chain(velocity).chain(part).collect()
    }
}

/// Fused multiply-add is in the baseline of 64-bit Arm.
#[cfg(target_arch = "aarch64")]
type Baseline = Fused;
#[cfg(not(target_arch = "aarch64"))]
type Baseline = super::rows::Separate;

/// One method a sweep, that runs it as compiled for the instructions.
macro_rules! dispatch {
    ($($sweep:ident),*) => {
        impl Isa {
            $(
                /// # Safety
                /// As for the sweep; and the processor has the instructions.
                unsafe fn $sweep(self, c: &Coefficients, fields: Shared<'_>, tile: &Tile) {
                    #[cfg(target_arch = "x86_64")]
                    #[target_feature(enable = "avx2,fma")]
                    unsafe fn avx2(c: &Coefficients, fields: Shared<'_>, tile: &Tile) {
                        // SAFETY: by the caller's promise.
                        unsafe { $sweep::sweep::<Fused>(c, fields, tile) }
                    }
                    #[cfg(target_arch = "x86_64")]
                    #[target_feature(enable = "avx512f,avx512vl,fma")]
                    unsafe fn avx512(c: &Coefficients, fields: Shared<'_>, tile: &Tile) {
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
    use crate::backend::cpu::Team;
    use crate::fd::grid::Grid;
    use crate::fd::model::Model;
    use crate::fd::survey::Receivers;
    use crate::fd::wavelet::Wavelet;

    fn coefficients(n: [usize; 3]) -> Coefficients {
        let grid = Grid { n, h: [10.0, 11.0, 9.0] };
        let vp = (0..grid.cells()).map(|i| 1500.0 + (i * 37 % 1000) as f32).collect();
        let rho = (0..grid.cells()).map(|i| 1000.0 + (i * 53 % 800) as f32).collect();
        Coefficients::new(&Model::new(grid, vp, Some(rho)).unwrap(), 1e-3, 9).unwrap()
    }

    /// The velocities of a source of 1e-36 are denormal.
    #[test]
    fn denormal_numbers_are_flushed_with_all_instructions() {
        let n = [9, 4, 33];
        let c = coefficients(n);
        for isa in Isa::all() {
            for (amplitude, silent) in [(1e-36, true), (1.0, false)] {
                let shot = Shot {
                    source: [4, 2, 16],
                    wavelet: Wavelet { samples: vec![1.0; 5] },
                    amplitude,
                    nt: 10,
                    receivers: Receivers::List(Vec::new()),
                    record_every: 1,
                    snapshot_every: None,
                    mute: None,
                };
                let mut fields = Fields::new(&c.layout).unwrap();
                let steps = TwoSweeps { isa, ..TwoSweeps::new(&c, &shot, &mut fields) };
                let run = |member: &TeamMember<'_>, _: Option<&()>| {
                    (0..shot.nt).try_for_each(|step| steps.step(member, &mut (), step))
                };
                Team::new(2).unwrap().run(&(), run).unwrap();
                // SAFETY: nobody writes any more.
                let zeros =
                    steps.fields().into_iter().all(|field| unsafe { field.all() }.iter().all(|v| *v == 0.0));
                assert_eq!(zeros, silent, "{isa:?}, amplitude {amplitude}");
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
        let tiles = c.layout.tiles(c.tiles[0]);
        for (fields, isa) in fields.iter_mut().zip(isas) {
            let shared = fields.shared();
            for step in 0..40 {
                // SAFETY: one thread, one set of fields.
                unsafe {
                    tiles.iter().for_each(|tile| isa.velocity(&c, shared, tile));
                    source.fire(shared, (step as f32 / 5.0).sin());
                    tiles.iter().for_each(|tile| isa.pressure(&c, shared, tile));
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
}
