//! Reduces epsilon and delta around the source, as the old kernels do.
//!
//! In an anisotropic medium a source also radiates a slow wave. It belongs to the pseudo-acoustic
//! equation, not to real media; in an isotropic medium it is absent. So both parameters are 0
//! within 4 cells of the source, and rise to the model's at 15 cells by half a period of a cosine.
//! Distances are in cells, whatever the spacing.

use std::ops::Range;

use crate::fd::edge_field::EdgeField;
use crate::fd::grid::layout::Layout;
use crate::fd::one_pass::cuda::params::MixingCube;

/// Distances from the source in cells: within the first the medium is isotropic, from the second on
/// it is that of the model.
const ISOTROPIC: f32 = 4.0;
const RADIUS: usize = 15;
/// Pi to the digits of the old kernels.
#[expect(clippy::approx_constant)]
const PI: f64 = 3.141592653;

/// E and S in the cube of cells around a source: `E = 1 + 2 epsilon`, `S = sqrt(1 + 2 delta)`.
pub struct IsotropicBall {
    /// Padded indices along x, y and z.
    cells: [Range<usize>; 3],
    /// E and S, `[iy][ix][iz]`.
    values: [Vec<f32>; 2],
}

/// Row of the cube along z.
pub struct BallRow<'a> {
    begin: usize,
    values: &'a [f32],
}

/// Returns the factor on epsilon and delta at a squared distance in cells.
fn factor(squared: usize) -> f64 {
    let distance = (squared as f32).sqrt();
    if distance <= ISOTROPIC {
        0.0
    } else if squared <= RADIUS * RADIUS {
        0.5 * (1.0 - (PI * f64::from((distance - ISOTROPIC) * 4.0 / 44.0)).cos())
    } else {
        1.0
    }
}

/// Returns `s`, reduced by one rounding if its square exceeds `e`: waves grow without limit where
/// S² is larger than E.
pub fn at_most_root(s: f32, e: f32) -> f32 {
    if f64::from(s) * f64::from(s) > f64::from(e) { s.next_down() } else { s }
}

impl IsotropicBall {
    /// Bytes of E and S in the largest cube.
    pub const BYTES: u64 = 2 * 4 * (2 * RADIUS as u64 + 1).pow(3);

    /// `source`: the user's cell.
    pub fn new(layout: &Layout, e: &EdgeField, s: &EdgeField, source: [usize; 3]) -> IsotropicBall {
        let source = source.map(|index| index + layout.pml);
        let cells = [0, 1, 2].map(|axis| {
            let active = layout.active(axis);
            active.start.max(source[axis].saturating_sub(RADIUS))..active.end.min(source[axis] + RADIUS + 1)
        });
        let [x, y, z] = cells.clone();
        let squared =
            |cell: [usize; 3]| (0..3).map(|axis| cell[axis].abs_diff(source[axis]).pow(2)).sum::<usize>();
        let values = |field: &EdgeField, reduced: &dyn Fn(f32, f64) -> f32| {
            let mut all = Vec::with_capacity(x.len() * y.len() * z.len());
            let mut buffer = Vec::new();
            for (iy, ix) in y.clone().flat_map(|iy| x.clone().map(move |ix| (iy, ix))) {
                let row = field.row(layout, [ix, iy, z.start], z.len()).values(&mut buffer);
                let reduced = |(&value, iz)| reduced(value, factor(squared([ix, iy, iz])));
                all.extend(row.iter().zip(z.clone()).map(reduced));
            }
            all
        };
        // The reduced parameter; `excess`, E - 1 or S² - 1, is twice the parameter.
        let parameter = |excess: f32, factor: f64| (factor * f64::from(0.5 * excess)) as f32;
        let e = values(e, &|e, factor| 1.0 + 2.0 * parameter(e - 1.0, factor));
        let mut s = values(s, &|s, factor| {
            if factor == 1.0 { s } else { (1.0 + 2.0 * parameter(s * s - 1.0, factor)).sqrt() }
        });
        s.iter_mut().zip(&e).for_each(|(s, &e)| *s = at_most_root(*s, e));
        IsotropicBall { cells, values: [e, s] }
    }

    /// Returns E and S of all cells.
    #[cfg(test)]
    pub fn cells_of_both(&self) -> impl Iterator<Item = (f64, f64)> {
        let [e, s] = &self.values;
        e.iter().zip(s).map(|(&e, &s)| (e.into(), s.into()))
    }

    /// Returns all values, for a GPU.
    pub fn cube(&self) -> MixingCube<'_> {
        MixingCube { cells: self.cells.clone(), values: self.values.each_ref().map(Vec::as_slice) }
    }

    /// Returns a row of E (0) or S (1), if the cube has cells in it.
    #[inline(always)]
    pub fn row(&self, number: usize, [x, y]: [usize; 2]) -> Option<BallRow<'_>> {
        let [columns, planes, z] = &self.cells;
        if !columns.contains(&x) || !planes.contains(&y) {
            return None;
        }
        let nth = (y - planes.start) * columns.len() + x - columns.start;
        Some(BallRow { begin: z.start, values: &self.values[number][nth * z.len()..][..z.len()] })
    }
}

impl BallRow<'_> {
    /// Copies the values to their places in a row that begins at padded index `first`.
    pub fn put(&self, first: usize, row: &mut [f32]) {
        let begin = self.begin - first;
        if let Some(to) = row.get_mut(begin..) {
            let len = to.len().min(self.values.len());
            to[..len].copy_from_slice(&self.values[..len]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_rise_from_4_to_15_cells() {
        assert_eq!([0, 16, 225, 226].map(factor).map(|f| (f * 1e6).round()), [0.0, 0.0, 1e6, 1e6]);
        // The factor is 0.5 at 9.5 cells.
        assert!(factor(90) < 0.5 && factor(91) > 0.5);
    }
}
