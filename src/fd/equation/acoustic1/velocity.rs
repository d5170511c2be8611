//! The first sweep of a step: all velocities of a tile from the pressure.

use super::coefficients::Coefficients;
use super::fields::Shared;
use super::layout::Tile;
use super::rows::{Arithmetic, Taps, velocity};
use crate::fd::stencil::REACH;

/// # Safety
/// The fields have the layout of the coefficients. Nobody else writes the pressure, nor uses the
/// velocities of this tile, meanwhile.
#[inline(always)]
pub unsafe fn sweep<A: Arithmetic>(c: &Coefficients, fields: Shared<'_>, tile: &Tile) {
    let layout = &c.layout;
    let z = layout.active(2);
    let len = z.len();
    let strides = [layout.stride(0), layout.stride(1), layout.stride(2)];
    let mut room = Vec::new();
    for iy in tile.y.clone() {
        for ix in tile.x.clone() {
            let cell = [ix, iy, z.start];
            let at = layout.at(cell);
            let b = c.b.row(layout, cell, len).values::<A>(&mut room);
            let [x, y] =
                [(&c.axes[0], ix), (&c.axes[1], iy)].map(|(axis, i)| (axis.keep[i], axis.velocity_rate[i]));
            let (keep, rate) = (&c.axes[2].keep[z.clone()], &c.axes[2].velocity_rate[z.clone()]);
            // SAFETY: active cells have `REACH` neighbours on each side, so the taps are within
            // the field; the rows written are this tile's, and all rows have `len` cells.
            unsafe {
                let own = |axis: usize| fields.velocity[axis].write(at, len);
                let taps = |axis: usize| {
                    let stride = strides[axis];
                    let values = fields.p.read(at - (REACH - 1) * stride, Taps::span(stride, len));
                    Taps { values, stride, c: c.stencil }
                };
                velocity::<A>(own(0), taps(0), b, x.0, x.1);
                velocity::<A>(own(1), taps(1), b, y.0, y.1);
                velocity::<A>(own(2), taps(2), b, keep, rate);
            }
        }
    }
}
