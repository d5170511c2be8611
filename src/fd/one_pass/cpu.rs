//! The step on the CPU of all equations with a split PML.

use super::equation::OnePassEquation;
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

impl<P: OnePassEquation> SourceMedium for P {
    fn layout(&self) -> &Layout {
        &self.coefficients().layout
    }

    fn modulus(&self, cell: [usize; 3]) -> f64 {
        let c = self.coefficients();
        c.kappa.value(&c.layout, cell)
    }

    fn buoyancy(&self, cell: [usize; 3], axis: usize) -> f64 {
        self.coefficients().buoyancy(cell, axis)
    }
}

impl<P: OnePassEquation> TiledEquation for P {
    const PRESSURES: usize = P::PRESSURES;
    const SOURCE: &'static [(usize, f32)] = P::SOURCE;
    /// Tiles of fewer rows fit better into a core's own cache, but compute more rows beside the
    /// tile.
    const ROWS: [usize; SIZES] = [32, 48, 24, 96];

    fn increment_field(_from: usize) -> usize {
        2 * P::PRESSURES
    }

    fn kind(&self) -> String {
        let density = if self.coefficients().beside.is_none() { ", no density" } else { "" };
        format!("{}{density}", P::NAME)
    }

    fn storage(&self) -> Storage {
        self.coefficients().storage
    }

    fn around(&self, source: [usize; 3]) -> P {
        OnePassEquation::around(self, source)
    }

    fn ball(&self) -> Option<&IsotropicBall> {
        OnePassEquation::ball(self)
    }

    fn describe_cell(&self, padded: [usize; 3]) -> String {
        let c = self.coefficients();
        describe_cell(&c.layout, c.spacing, padded, |inside| {
            let [b, kappa] = [&c.b, &c.kappa].map(|field| field.value(&c.layout, inside));
            let rho = if c.beside.is_some() { 2.0 * b } else { 1.0 / b };
            let vp = (kappa / rho).sqrt();
            let weights: f64 = c.stencil.iter().map(|weight| f64::from(weight.abs())).sum();
            let rates: f64 = c.axes.iter().map(|axis| f64::from(axis.rate).powi(2)).sum();
            let (stretch, others) = self.stretch(inside);
            let rho = readable(rho);
            (vp, format!(", rho {rho} kg/m³{others}"), stretch * vp * weights * rates.sqrt())
        })
    }

    fn field_lens(&self) -> Vec<usize> {
        fields::lens(&self.coefficients().layout, P::PRESSURES)
    }

    fn scratch_len(&self, partition: &Partition) -> usize {
        ScratchPointers::new::<P>(partition, self.coefficients().storage, std::ptr::null_mut()).1
    }

    unsafe fn sweep(step: &TileStep<'_, P>, active: &ActiveTile, scratch: *mut f32) {
        Sweep::new(step, active, scratch).run()
    }
}
