//! Fluxes along x and along y, and the terms that they complete, for a few neighbouring rows at a
//! time. The scratch keeps the fluxes that the next rows need.

use super::equation::OnePassEquation;
use super::prefetch::PREFETCH_DISTANCE;
use super::rows::{BlockFluxes, FLUX_PLANES, PREFETCHED, PmlVelocity, RowBlock, SplitPressure};
use super::scratch::PLACES;
use super::sweep::Sweep;
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::tiled::tiles::ROWS_PER_BLOCK;

/// Line of rows along an axis: places of its fluxes and terms, and its coefficients.
pub struct Line {
    pub axis: usize,
    /// Whether the tile stores PML velocities along the axis.
    pub pml: bool,
    /// Index along the other axis.
    pub other: usize,
    /// Fluxes, `[index % PLACES]`.
    pub fluxes: *mut f32,
    /// Target of the terms of the first of a few rows.
    pub to: *mut f32,
    /// Sums to which the first row's terms are added where velocities are eliminated, or null.
    pub onto: *const f32,
    /// Values from place to place of the fluxes, and from row to row of the terms and sums.
    pub apart: usize,
    /// Coefficients, along x only: those of the user's first row, and values from row to row.
    pub b: (*const f32, usize),
    pub kappa: (*const f32, usize),
}

impl<P: OnePassEquation> Sweep<'_, P> {
    /// Computes the fluxes that the first row's term reads before its last.
    pub unsafe fn begin_fluxes(&self, line: &Line) {
        let first = self.tile.sides[line.axis].fluxes().start;
        let active = self.c.layout.active(line.axis);
        let mut j = first;
        while j < first + FLUX_PLANES {
            let moves = active.contains(&j);
            let together = moves && j + ROWS_PER_BLOCK <= active.end.min(first + FLUX_PLANES);
            match (line.pml, moves, together) {
                (false, _, true) => self.row_block::<ROWS_PER_BLOCK, false, false, true, false>(line, j),
                (true, _, true) => self.row_block::<ROWS_PER_BLOCK, true, false, true, false>(line, j),
                (false, true, _) => self.row_block::<1, false, false, true, false>(line, j),
                (true, true, _) => self.row_block::<1, true, false, true, false>(line, j),
                (_, false, _) => self.row_block::<1, false, false, false, false>(line, j),
            }
            j += if together { ROWS_PER_BLOCK } else { 1 };
        }
    }

    /// Returns the number of rows from an index on that are computed together.
    pub fn rows_per_block(&self, line: &Line, at: usize) -> usize {
        let (cells, active) = (&self.tile.sides[line.axis].cells, self.c.layout.active(line.axis));
        let term = |at: usize| self.step.partition.zones[line.axis].term(at);
        let fits = at + ROWS_PER_BLOCK <= cells.end && at + HALF_WIDTH - 1 + ROWS_PER_BLOCK <= active.end;
        let alike = fits && (!line.pml || (1..ROWS_PER_BLOCK).all(|u| term(at + u) == term(at)));
        if alike { ROWS_PER_BLOCK } else { 1 }
    }

    /// Computes the terms of `together` rows from index `at` on.
    pub unsafe fn terms(&self, line: &Line, at: usize, together: usize) {
        let j = at + HALF_WIDTH - 1;
        let damped = line.pml && self.c.layout.in_layer(line.axis, at).is_some();
        let moves = j < self.c.layout.active(line.axis).end;
        match (together == ROWS_PER_BLOCK, line.pml, damped) {
            (true, false, _) => self.row_block::<ROWS_PER_BLOCK, false, false, true, true>(line, j),
            (false, false, _) => self.row_block::<1, false, false, true, true>(line, j),
            (true, true, false) => self.row_block::<ROWS_PER_BLOCK, true, false, true, true>(line, j),
            (false, true, false) => self.row_block::<1, true, false, true, true>(line, j),
            (true, true, true) => self.row_block::<ROWS_PER_BLOCK, true, true, true, true>(line, j),
            (false, true, true) if moves => self.row_block::<1, true, true, true, true>(line, j),
            (false, true, true) => self.row_block::<1, true, true, false, true>(line, j),
        }
    }

    /// Computes the fluxes from index `j` on and the `TERMS` that they complete. Without `MOVE` the
    /// fluxes are zero.
    unsafe fn row_block<
        const U: usize,
        const PML: bool,
        const DAMPED: bool,
        const MOVE: bool,
        const TERMS: bool,
    >(
        &self,
        line: &Line,
        j: usize,
    ) {
        let (layout, axis) = (&self.c.layout, line.axis);
        let (factors, zones) = (&self.c.axes[axis].factors, &self.step.partition.zones[axis]);
        let stride = layout.stride(axis);
        let position = |i: usize| if axis == 0 { [i, line.other] } else { [line.other, i] };
        // The index of the first term.
        let at = (j + 1).wrapping_sub(HALF_WIDTH);
        // Position in an array that stores some indices of the axis only.
        let nth =
            |place: usize, places: usize| self.nth(layout.row_in_zones(axis, place, places, line.other));
        let [x, y] = position(j);
        let mut rows = RowBlock::<U> {
            len: self.len,
            p: self.old[0].wrapping_add(self.at(x, y)).wrapping_sub((HALF_WIDTH - 1) * stride),
            stride,
            b: [std::ptr::null(); U],
            beside: [std::ptr::null(); U],
            fluxes: [line.fluxes; FLUX_PLANES],
            square: self.c.axes[axis].rate * self.c.axes[axis].rate,
            onto: line.onto,
            to: line.to,
            to_apart: line.apart,
            kappa: [std::ptr::null(); U],
            prefetched: [[std::ptr::null(); U]; PREFETCHED],
            count: 0,
        };
        // The first new flux replaces the oldest.
        let mut place = (j - self.tile.sides[axis].fluxes().start) % PLACES;
        for row in &mut rows.fluxes {
            *row = line.fluxes.wrapping_add(place * line.apart);
            place = if place + 1 == PLACES { 0 } else { place + 1 };
        }
        if MOVE {
            let mut b = [std::ptr::null(); ROWS_PER_BLOCK + 1];
            for (u, b) in b.iter_mut().enumerate().take(U + self.c.beside.unwrap_or(0)) {
                *b = if axis == 0 {
                    line.b.0.wrapping_add(layout.nearest(0, j + u) * line.b.1)
                } else {
                    self.row(&self.c.b, position(j + u), u)
                };
            }
            for u in 0..U {
                rows.b[u] = b[u];
                rows.beside[u] = match self.c.beside {
                    None => std::ptr::null(),
                    Some(0) => b[u],
                    Some(_) => b[u + 1],
                };
            }
        }
        for u in 0..U {
            if TERMS && PML {
                rows.kappa[u] = if axis == 0 {
                    line.kappa.0.wrapping_add(layout.nearest(0, at + u) * line.kappa.1)
                } else {
                    self.row(&self.c.kappa, position(at + u), ROWS_PER_BLOCK + 1 + u)
                };
            }
        }
        let (mut velocity, mut split) = (PmlVelocity::<U>::NONE, SplitPressure::<U>::NONE);
        let ahead = if axis == 0 { ROWS_PER_BLOCK } else { PREFETCH_DISTANCE } * layout.pitch;
        if PML && MOVE {
            let own = &self.tile.sides[axis].own;
            let first = nth(zones.slot(j).unwrap_or(0), zones.velocities());
            velocity = PmlVelocity {
                keep: std::array::from_fn(|u| factors.keep[j + u]),
                rate: std::array::from_fn(|u| factors.velocity_rate[j + u]),
                old: self.velocity_old[axis].wrapping_add(first),
                new: self.velocity_new[axis].wrapping_add(first),
                apart: stride,
                own: [own.start.saturating_sub(j), own.end.saturating_sub(j)],
                stream: self.step.stream && axis == 0,
                ahead,
            };
        }
        if PML && TERMS {
            let first = nth(layout.in_layer(axis, at).unwrap_or(0), 2 * layout.width());
            split = SplitPressure {
                loss: std::array::from_fn(|u| factors.loss[at + u]),
                rate: std::array::from_fn(|u| factors.pressure_rate[at + u]),
                pressure: self.split[axis].wrapping_add(first),
                apart: stride,
                ahead,
            };
        }
        // Rows that the updates of these planes read are prefetched while the fluxes along y
        // are computed.
        if axis == 1 && TERMS {
            for u in 0..U {
                let kinds = self.update_rows(position(at.wrapping_add(u)));
                rows.prefetched.iter_mut().zip(kinds).for_each(|(kind, row)| kind[u] = row);
            }
            rows.count = if P::PRESSURES == 1 { 2 } else { 4 + P::MIXING };
        }
        let stencil = &self.c.stencil;
        self.step.isa.run(&BlockFluxes::<U, PML, DAMPED, MOVE, TERMS> {
            stencil,
            rows: &rows,
            velocity: &velocity,
            split: &split,
        });
    }
}
