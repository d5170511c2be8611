//! The step on the CPU.

use super::TtiPropagator;
use super::sweep::{INCREMENTS, TtiQueue, TtiSweep};
use crate::fd::anisotropy::IsotropicBall;
use crate::fd::tiled::activity::ActiveTile;
use crate::fd::tiled::equation::{TileStep, TiledEquation};
use crate::fd::tiled::partition::Partition;
use crate::fd::tiled::tuning::SIZES;

impl TiledEquation for TtiPropagator {
    const UNIFORM: bool = true;
    const PRESSURES: usize = 2;
    const SOURCE: &'static [(usize, f32)] = &[(0, 1.0)];
    const PAIRS: &'static [usize] = &[0, 2];
    /// The queue of fluxes of a tile should fit a core's own cache.
    const ROWS: [usize; SIZES] = [16, 12, 24, 8];

    fn increment_field(_from: usize) -> usize {
        INCREMENTS
    }

    fn kind(&self) -> String {
        "tti".into()
    }

    fn around(&self, source: [usize; 3]) -> Self {
        self.around(source)
    }

    fn ball(&self) -> Option<&IsotropicBall> {
        self.ball.as_ref()
    }

    fn describe_cell(&self, padded: [usize; 3]) -> String {
        self.c.describe_cell(padded, |[x, y, z]| [x.hypot(y).atan2(z), (-y).atan2(x)])
    }

    /// Both pressures of even and of odd steps, and both increments.
    fn field_lens(&self) -> Vec<usize> {
        vec![self.c.layout.field_len(); INCREMENTS + 2]
    }

    fn scratch_len(&self, partition: &Partition) -> usize {
        TtiQueue::new(partition, std::ptr::null_mut()).1
    }

    unsafe fn sweep(step: &TileStep<'_, Self>, tile: &ActiveTile, scratch: *mut f32) {
        let queue = TtiQueue::new(step.partition, scratch).0;
        step.isa.run(&TtiSweep { step, tile, queue })
    }
}
