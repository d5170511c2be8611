//! E and S of a medium, by Thomsen's parameters, and around a source.
//!
//! In an anisotropic medium a source also radiates a slow wave. It belongs to the pseudo-acoustic
//! equation, not to real media; in an isotropic medium it is absent. So both parameters are 0
//! within 4 cells of the source, and rise to the model's at 15 cells by half a period of a cosine, as
//! in the old kernels. Distances are in cells, whatever the spacing.

use std::ops::Range;

use super::edge_field::EdgeField;
use super::grid::layout::Layout;
use super::model::{Model, Property, Values};
use super::storage::Storage;
use crate::error::Result;

/// Distances from the source in cells: within the first the medium is isotropic, from the second on
/// it is that of the model (oddity B22 of docs/legacy.md).
const ISOTROPIC: f32 = 4.0;
const RADIUS: usize = 15;
/// Pi to the digits of the old kernels.
#[expect(clippy::approx_constant)]
const PI: f64 = 3.141592653;

/// E and S of a medium.
pub struct Anisotropy {
    /// `1 + 2 epsilon`.
    pub e: EdgeField,
    /// `sqrt(1 + 2 delta)`, at most `sqrt(E)`.
    pub s: EdgeField,
}

/// E and S in the cube of cells around a source.
#[derive(Clone)]
pub struct IsotropicBall {
    /// Padded indices along x, y and z.
    pub cells: [Range<usize>; 3],
    /// E and S, `[iy][ix][iz]`.
    values: [Vec<f32>; 2],
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

/// Returns true if the parameters are reduced in more than half of the cells of a model.
pub fn is_mostly_reduced(n: [usize; 3], source: [usize; 3]) -> bool {
    let [x, y, z] = [0, 1, 2].map(|axis| {
        let near = source[axis].saturating_sub(RADIUS)..n[axis].min(source[axis] + RADIUS + 1);
        near.map(move |index| index.abs_diff(source[axis]).pow(2))
    });
    let cells = n.into_iter().fold(1, usize::saturating_mul);
    // Most models are larger, and need no count.
    if cells > 2 * x.len() * y.len() * z.len() {
        return false;
    }
    let columns = y.flat_map(|y| x.clone().map(move |x| x + y));
    let reduced = columns.flat_map(|near| z.clone().filter(move |z| near + z < RADIUS * RADIUS)).count();
    2 * reduced > cells
}

/// Returns true if the parameters are reduced in all cells of a model.
pub fn is_reduced_everywhere(n: [usize; 3], source: [usize; 3]) -> bool {
    // The cell farthest from the source is a corner.
    let farthest = [0, 1, 2].map(|axis| source[axis].max(n[axis].saturating_sub(source[axis] + 1)));
    farthest.into_iter().fold(0, |sum: usize, cells| sum.saturating_add(cells.saturating_pow(2)))
        < RADIUS * RADIUS
}

/// Returns `s`, reduced by one rounding if its square exceeds `e`: waves grow without limit where
/// S² is larger than E.
pub fn at_most_root(s: f32, e: f32) -> f32 {
    if f64::from(s) * f64::from(s) > f64::from(e) { s.next_down() } else { s }
}

impl Anisotropy {
    /// A property that the model lacks is 0.
    pub fn new(model: &Model, layout: &Layout, storage: Storage) -> Result<Anisotropy> {
        let [epsilon, delta] = [Property::Epsilon, Property::Delta].map(|property| model.or_zero(property));
        let stretch = |value: f32| 1.0 + 2.0 * value;
        // Numbers of 16 bits are rounded away from each other, so that S² stays at most E.
        let half_step = |values: &Values, of: &dyn Fn(f32) -> f32| {
            let [low, high] = values.range().map(of);
            if storage == Storage::Bits16 { 0.5 * (high - low) / f32::from(u16::MAX) } else { 0.0 }
        };
        let root = |value: f32| stretch(value).sqrt();
        let (up, down) = (half_step(epsilon, &stretch), half_step(delta, &root));
        let e = |cell: usize| stretch(epsilon.at(cell)) + up;
        let s = |cell: usize| at_most_root(root(delta.at(cell)), stretch(epsilon.at(cell))) - down;
        let [of_e, of_s] = ["1 + 2 epsilon of the model", "sqrt(1 + 2 delta) of the model"];
        Ok(Anisotropy {
            e: EdgeField::from_properties(layout, storage, of_e, &[epsilon], e)?,
            s: EdgeField::from_properties(layout, storage, of_s, &[epsilon, delta], s)?,
        })
    }

    /// Returns epsilon and delta of a padded cell.
    pub fn parameters(&self, layout: &Layout, cell: [usize; 3]) -> [f64; 2] {
        let [e, s] = [&self.e, &self.s].map(|field| field.value(layout, cell));
        [e, s * s].map(|value| 0.5 * (value - 1.0))
    }

    /// Returns E and S around the padded cell of a source.
    pub fn ball(&self, layout: &Layout, source: [usize; 3]) -> IsotropicBall {
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
        let e = values(&self.e, &|e, factor| 1.0 + 2.0 * parameter(e - 1.0, factor));
        let mut s = values(&self.s, &|s, factor| {
            if factor == 1.0 { s } else { (1.0 + 2.0 * parameter(s * s - 1.0, factor)).sqrt() }
        });
        s.iter_mut().zip(&e).for_each(|(s, &e)| *s = at_most_root(*s, e));
        IsotropicBall { cells, values: [e, s] }
    }
}

impl IsotropicBall {
    /// Bytes of the largest one.
    pub const BYTES: u64 = 2 * 4 * (2 * RADIUS as u64 + 1).pow(3);

    /// Returns E and S of all cells.
    #[cfg(test)]
    pub fn cells_of_both(&self) -> impl Iterator<Item = (f64, f64)> {
        let [e, s] = &self.values;
        e.iter().zip(s).map(|(&e, &s)| (e.into(), s.into()))
    }

    /// Returns the values of E, then of S.
    pub fn values(&self) -> Vec<f32> {
        self.values.concat()
    }

    /// Returns true if the cube has cells of a row. `row`: its indices along x and y.
    #[inline(always)]
    pub fn is_in(&self, [x, y]: [usize; 2]) -> bool {
        self.cells[0].contains(&x) && self.cells[1].contains(&y)
    }

    /// Puts the cube's values of E (0) or S (1) into a row that it has cells of. `first`: the index along z of the row's
    /// first value.
    pub fn put(&self, number: usize, [x, y]: [usize; 2], first: usize, row: &mut [f32]) {
        let [columns, planes, z] = &self.cells;
        let nth = (y - planes.start) * columns.len() + x - columns.start;
        if let Some(to) = row.get_mut(z.start - first..) {
            let len = to.len().min(z.len());
            to[..len].copy_from_slice(&self.values[number][nth * z.len()..][..len]);
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

    /// A ball of 15 cells has 14 100 cells, a disc 700, a line 29.
    #[test]
    fn more_than_half_of_a_small_model_is_reduced() {
        for (n, source, expected) in [
            ([30; 3], [15; 3], true),
            ([31; 3], [15; 3], false),
            ([30; 3], [0; 3], false),
            ([101, 11, 101], [50, 5, 50], false),
            ([37, 1, 37], [18, 0, 18], true),
            ([38, 1, 38], [18, 0, 18], false),
            ([57, 1, 1], [28, 0, 0], true),
            ([58, 1, 1], [28, 0, 0], false),
            ([usize::MAX; 3], [0; 3], false),
        ] {
            assert_eq!(is_mostly_reduced(n, source), expected, "{n:?} from {source:?}");
        }
    }

    /// The farthest cell keeps its values from a distance of 15 cells on.
    #[test]
    fn all_of_a_tiny_model_is_reduced() {
        for (n, source, expected) in [
            ([15, 1, 1], [0; 3], true),
            ([16, 1, 1], [0; 3], false),
            ([1, 30, 1], [0, 15, 0], false),
            ([1, 1, 30], [0, 0, 14], false),
            ([1, 1, 29], [0, 0, 14], true),
            ([10, 13, 1], [0; 3], false),
            ([10, 12, 1], [0; 3], true),
            ([17; 3], [8; 3], true),
            ([18; 3], [8; 3], false),
            ([usize::MAX; 3], [0; 3], false),
        ] {
            assert_eq!(is_reduced_everywhere(n, source), expected, "{n:?} from {source:?}");
        }
    }
}
