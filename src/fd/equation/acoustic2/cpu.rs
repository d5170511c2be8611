//! The step on the CPU.

use super::Acoustic2Propagator;
use super::layer;
use super::sweep::Acoustic2Sweep;
use crate::fd::grid::layout::Layout;
use crate::fd::inject::DIPOLE;
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::storage::Storage;
use crate::fd::tiled::activity::ActiveTile;
use crate::fd::tiled::describe::describe_cell;
use crate::fd::tiled::equation::{TileStep, TiledEquation};
use crate::fd::tiled::partition::Partition;
use crate::fd::tiled::tuning::SIZES;

impl<const PML: bool> TiledEquation for Acoustic2Propagator<PML> {
    const UNIFORM: bool = true;
    const PRESSURES: usize = 1;
    const SOURCE: &'static [(usize, f32)] = &DIPOLE;
    /// The `phi` of x, y and z.
    const PAIRS: &'static [usize] = if PML { &[2, 5, 8] } else { &[] };
    /// Nine planes of a tile fit into the second-level cache.
    const ROWS: [usize; SIZES] = [32, 24, 16, 48];

    /// The pressure of the step before.
    fn increment_field(from: usize) -> usize {
        1 - from
    }

    fn kind(&self) -> String {
        if PML { "acoustic2-pml" } else { "acoustic2" }.into()
    }

    fn storage(&self) -> Storage {
        self.0.storage
    }

    fn around(&self, _source: [usize; 3]) -> Self {
        self.clone()
    }

    fn describe_cell(&self, padded: [usize; 3]) -> String {
        let c = &self.0;
        describe_cell(&c.layout, c.spacing, padded, |inside| {
            let vp = c.v.value(&c.layout, inside).sqrt();
            let others = c.weights.axes.iter().flatten().map(|weight| f64::from(weight.abs()));
            let sum = f64::from(c.weights.centre.abs()) + 2.0 * others.sum::<f64>();
            (vp, String::new(), 0.5 * vp * sum.sqrt())
        })
    }

    /// The pressure, and the fields of a PML.
    fn field_lens(&self) -> Vec<usize> {
        lens::<PML>(&self.0.layout, Layout::clone)
    }

    fn scratch_len(&self, _partition: &Partition) -> usize {
        0
    }

    unsafe fn sweep(step: &TileStep<'_, Self>, tile: &ActiveTile, _scratch: *mut f32) {
        let (p, layers) = step.fields.split_at(2);
        let (c, odd) = (&*step.equation.0, step.from);
        let (p, previous, sponge_z) = (p[odd], p[1 - odd], &c.sponge[2][HALF_WIDTH..]);
        // SAFETY: by the caller's promise.
        unsafe { step.isa.run(&Acoustic2Sweep { tile, c, sponge_z, p, previous, layers, odd }) }
    }
}

/// Returns the lengths of the fields: the pressure of even and of odd steps, then those of a PML. `placed`: makes the
/// layout of the device.
pub fn lens<const PML: bool>(layout: &Layout, placed: impl Fn(&Layout) -> Layout) -> Vec<usize> {
    let field = placed(layout).field_len();
    let layers = PML.then(|| layer::lens(layout, placed)).into_iter().flatten();
    [field; 2].into_iter().chain(layers).collect()
}
