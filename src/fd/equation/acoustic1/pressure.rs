//! The second sweep of a step: the pressure of a tile from the velocities.

use super::coefficients::Coefficients;
use super::fields::Shared;
use super::layout::Tile;
use super::rows::{Arithmetic, Taps, damped, pressure};
use crate::fd::stencil::REACH;

/// # Safety
/// The fields have the layout of the coefficients. Nobody else writes the velocities, nor uses the
/// pressure of this tile or its parts, meanwhile.
#[inline(always)]
pub unsafe fn sweep<A: Arithmetic>(c: &Coefficients, fields: Shared<'_>, tile: &Tile) {
    let layout = &c.layout;
    let [x, y, z] = &c.axes;
    let active = layout.active(2);
    let (width, inner) = (layout.width(), layout.inner[2]);
    let strides = [layout.stride(0), layout.stride(1), layout.stride(2)];
    // Along z a row crosses the first layer, the user's grid, and the second layer.
    let layers = [(active.start, 0), (layout.pml + inner, width)];
    let mut room = Vec::new();
    for iy in tile.y.clone() {
        let y_layer = layout.in_layer(1, iy);
        for ix in tile.x.clone() {
            let x_layer = layout.in_layer(0, ix);
            let cell = [ix, iy, active.start];
            let (at, len) = (layout.at(cell), active.len());
            let kappa = c.kappa.row(layout, cell, len).values::<A>(&mut room);
            // SAFETY: active cells have `REACH` neighbours on each side, so the taps are within
            // the fields; the rows written are this tile's, each slice of them is gone before
            // the next is made, and all rows of a call are equally long.
            unsafe {
                let taps = |axis: usize, at: usize, len: usize| {
                    let stride = strides[axis];
                    let values = fields.velocity[axis].read(at - REACH * stride, Taps::span(stride, len));
                    Taps { values, stride, c: c.stencil }
                };
                let p = fields.p.write(at, len);
                match x_layer {
                    None => pressure::<A>(p, taps(0, at, len), kappa, x.rate),
                    Some(layer) => {
                        let row = layout.row(iy * 2 * width + layer) + active.start;
                        let part = fields.part[0].write(row, len);
                        damped::<A>(p, part, taps(0, at, len), kappa, x.loss[ix], x.pressure_rate[ix]);
                    }
                }
                match y_layer {
                    None => pressure::<A>(p, taps(1, at, len), kappa, y.rate),
                    Some(layer) => {
                        let row = layout.row(layer * layout.padded[0] + ix) + active.start;
                        let part = fields.part[1].write(row, len);
                        damped::<A>(p, part, taps(1, at, len), kappa, y.loss[iy], y.pressure_rate[iy]);
                    }
                }
                let user = width..width + inner;
                let middle = taps(2, at + width, inner);
                pressure::<A>(&mut p[user.clone()], middle, &kappa[user], z.rate);
                for (from, layer) in layers {
                    let row = from - active.start;
                    let cells = row..row + width;
                    let part = (iy * layout.padded[0] + ix) * 2 * width + layer;
                    damped::<A>(
                        &mut p[cells.clone()],
                        fields.part[2].write(part, width),
                        taps(2, at + row, width),
                        &kappa[cells],
                        &z.loss[from..from + width],
                        &z.pressure_rate[from..from + width],
                    );
                }
            }
        }
    }
}
