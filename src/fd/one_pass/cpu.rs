//! The step on the CPU of all equations with a split PML.

use super::equation::{OnePassEquation, OnePassPropagator};
use super::fields;
use super::scratch::ScratchPointers;
use super::sweep::Sweep;
use crate::fd::anisotropy::IsotropicBall;
use crate::fd::grid::layout::Layout;
use crate::fd::inject::SourceMedium;
use crate::fd::storage::Storage;
use crate::fd::tiled::activity::ActiveTile;
use crate::fd::tiled::describe::{describe_cell, readable};
use crate::fd::tiled::equation::{TileStep, TiledEquation};
use crate::fd::tiled::partition::Partition;
use crate::fd::tiled::tuning::SIZES;

impl<E: OnePassEquation> SourceMedium for OnePassPropagator<E> {
    fn layout(&self) -> &Layout {
        &self.c.layout
    }

    fn modulus(&self, cell: [usize; 3]) -> f64 {
        let c = &self.c;
        c.kappa.value(&c.layout, cell)
    }

    fn buoyancy(&self, cell: [usize; 3], axis: usize) -> f64 {
        self.c.buoyancy(cell, axis)
    }
}

impl<E: OnePassEquation> TiledEquation for OnePassPropagator<E> {
    const PRESSURES: usize = E::PRESSURES;
    const SOURCE: &'static [(usize, f32)] = E::SOURCE;
    /// The pressures and the PML velocities of x.
    const PAIRS: &'static [usize] = if E::PRESSURES == 1 { &[0, 3] } else { &[0, 2, 6] };
    /// Tiles of fewer rows fit better into a core's own cache, but compute more rows beside the
    /// tile.
    const ROWS: [usize; SIZES] = [32, 48, 24, 96];

    fn increment_field(_from: usize) -> usize {
        2 * E::PRESSURES
    }

    fn kind(&self) -> String {
        let density = if self.c.beside.is_none() { ", no density" } else { "" };
        format!("{}{density}", E::NAME)
    }

    fn storage(&self) -> Storage {
        self.c.storage
    }

    fn around(&self, source: [usize; 3]) -> Self {
        self.around(source)
    }

    fn ball(&self) -> Option<&IsotropicBall> {
        self.ball.as_ref()
    }

    fn describe_cell(&self, padded: [usize; 3]) -> String {
        let c = &self.c;
        describe_cell(&c.layout, c.spacing, padded, |inside| {
            let [b, kappa] = [&c.b, &c.kappa].map(|field| field.value(&c.layout, inside));
            let rho = if c.beside.is_some() { 2.0 * b } else { 1.0 / b };
            let vp = (kappa / rho).sqrt();
            let weights: f64 = c.stencil.iter().map(|weight| f64::from(weight.abs())).sum();
            let rates: f64 = c.axes.iter().map(|axis| f64::from(axis.rate).powi(2)).sum();
            // The largest velocity over that along z.
            let (stretch, others) = c.anisotropy.as_ref().map_or((1.0, String::new()), |anisotropy| {
                let [epsilon, delta] = anisotropy.parameters(&c.layout, inside);
                let others = format!(", epsilon {epsilon:.3}, delta {delta:.3}");
                ((1.0 + 2.0 * epsilon).max(1.0).sqrt(), others)
            });
            let rho = readable(rho);
            (vp, format!(", rho {rho} kg/m³{others}"), stretch * vp * weights * rates.sqrt())
        })
    }

    fn field_lens(&self) -> Vec<usize> {
        fields::lens(&self.c.layout, E::PRESSURES)
    }

    fn scratch_len(&self, partition: &Partition) -> usize {
        ScratchPointers::new::<E>(partition, self.c.storage, std::ptr::null_mut()).1
    }

    unsafe fn sweep(step: &TileStep<'_, Self>, active: &ActiveTile, scratch: *mut f32) {
        Sweep::new(step, active, scratch).run()
    }
}
