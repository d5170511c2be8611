//! A step on the CPU: in each tile the fluxes of a plane, then the divergence of those around it.

mod divergence;
mod flux;
mod sweep;

use self::sweep::OldTtiQueue;
use super::OldTtiPropagator;
use crate::fd::anisotropy::IsotropicBall;
use crate::fd::tiled::activity::ActiveTile;
use crate::fd::tiled::equation::{TileStep, TiledEquation};
use crate::fd::tiled::partition::Partition;
use crate::fd::tiled::tuning::SIZES;

impl TiledEquation for OldTtiPropagator {
    const PRESSURES: usize = 2;
    const SOURCE: &'static [(usize, f32)] = &[(0, 1.0)];
    /// The pressures, and the damped fluxes of z, x and y.
    const PAIRS: &'static [usize] = &[0, 2, 4, 7, 9];
    /// The queue of fluxes of a tile should fit a core's own cache.
    const ROWS: [usize; SIZES] = [16, 24, 32, 12];

    fn increment_field(_from: usize) -> usize {
        sweep::INCREMENTS
    }

    fn kind(&self) -> String {
        "tti two-stage".into()
    }

    fn around(&self, source: [usize; 3]) -> Self {
        self.around(source)
    }

    fn ball(&self) -> Option<&IsotropicBall> {
        self.ball.as_ref()
    }

    fn describe_cell(&self, padded: [usize; 3]) -> String {
        self.c.describe_cell(padded, |[ct, st, cp, sp]| [st.atan2(ct), sp.atan2(cp)])
    }

    fn field_lens(&self) -> Vec<usize> {
        sweep::lens(&self.c.layout)
    }

    fn scratch_len(&self, partition: &Partition) -> usize {
        OldTtiQueue::new(partition, std::ptr::null_mut()).1
    }

    unsafe fn sweep(step: &TileStep<'_, Self>, tile: &ActiveTile, scratch: *mut f32) {
        sweep::sweep(step, tile, scratch)
    }
}
