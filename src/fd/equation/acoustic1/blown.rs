//! What is told of a shot that has blown up: since when, where it is worst, and how the medium is there.

use super::coefficients::Coefficients;
use super::layout::Layout;
use crate::error::{Error, Result};

/// So many times the source no pressure is while steps are stable: beside the poles it is about as large as the source, and
/// less elsewhere. What blows up passes this on its way to infinity, and a shot may end in between.
const FAR_TOO_LARGE: f32 = 1e6;

/// A magnitude that only the pressure of a shot that has blown up reaches, whose source is at most so loud.
pub fn limit(loudest: f32) -> f32 {
    (FAR_TOO_LARGE * loudest).max(f32::MIN_POSITIVE)
}

/// The error of a shot whose largest pressure after a step has these bits, and was in order after `sound` steps.
pub fn error(largest: u32, step: usize, sound: usize) -> Error {
    let value = match f32::from_bits(largest) {
        finite if finite.is_finite() => format!("{finite:e}, more than {FAR_TOO_LARGE:e} times the source"),
        _ => "not a finite number".into(),
    };
    let before = match sound {
        0 => "zero at the start".into(),
        sound => format!("sound after step {sound}"),
    };
    let what = format!("the pressure after step {} ({before})", step + 1);
    Error::Unstable { what, value, why: "the shot has blown up".into(), suspect: false }
}

/// Adds the place to what [`error`] has told. After `done` steps, no fewer than it tells of, `plane` has the rows of a
/// plane along x and z, as they lie in `layout`.
pub fn placed(
    error: Error,
    c: &Coefficients,
    layout: &Layout,
    done: Option<usize>,
    mut plane: impl FnMut(usize, &mut dyn FnMut(&[f32])) -> Result<()>,
) -> Error {
    let Error::Unstable { what, value, why, suspect } = error else { return error };
    let mut worst = Worst::new();
    let searched = (0..layout.padded[1]).try_for_each(|y| {
        plane(y, &mut |rows| {
            for (x, row) in rows.chunks(layout.pitch).take(layout.padded[0]).enumerate() {
                worst.look([x, y], &row[..layout.padded[2]]);
            }
        })
    });
    // A GPU that does not answer any more: then without the place.
    let why = match searched {
        Ok(()) => format!("{why}, {}", worst.told(c, done)),
        Err(_) => why,
    };
    Error::Unstable { what, value, why, suspect }
}

/// Where a pressure is largest, and where it is no number at all.
struct Worst {
    largest: f32,
    at: [usize; 3],
    /// Cells that hold no finite number, and the box around them.
    bad: usize,
    low: [usize; 3],
    high: [usize; 3],
}

impl Worst {
    fn new() -> Self {
        Worst { largest: -1.0, at: [0; 3], bad: 0, low: [usize::MAX; 3], high: [0; 3] }
    }

    fn look(&mut self, [x, y]: [usize; 2], row: &[f32]) {
        for (z, value) in row.iter().enumerate() {
            let at = [x, y, z];
            if !value.is_finite() {
                self.bad += 1;
                self.low = std::array::from_fn(|axis| self.low[axis].min(at[axis]));
                self.high = std::array::from_fn(|axis| self.high[axis].max(at[axis]));
            } else if value.abs() > self.largest {
                (self.largest, self.at) = (value.abs(), at);
            }
        }
    }

    /// What is no number spreads by as much to all sides: it has begun in the middle.
    fn told(&self, c: &Coefficients, done: Option<usize>) -> String {
        let (seen, at) = match self.bad {
            0 => ("worst at".into(), self.at),
            1 => ("in 1 cell:".into(), self.low),
            bad => (
                format!("in {bad} cells around"),
                std::array::from_fn(|axis| (self.low[axis] + self.high[axis]) / 2),
            ),
        };
        let later = done.map_or_else(String::new, |done| format!("after step {done} "));
        format!("{later}{seen} {}", place(c, at))
    }
}

/// A padded cell in words: the user's cell and metres, velocity, density and CFL number there.
fn place(c: &Coefficients, padded: [usize; 3]) -> String {
    let pml = c.layout.pml;
    let cell: [usize; 3] = std::array::from_fn(|axis| c.layout.nearest(axis, padded[axis]));
    let beside = (0..3).any(|axis| cell[axis] + pml != padded[axis]);
    let there = cell.map(|index| index + pml);
    let mut room = Vec::new();
    let [b, kappa] =
        [&c.b, &c.kappa].map(|columns| f64::from(columns.row(&c.layout, there, 1).values(&mut room)[0]));
    let vp = (b * kappa).sqrt();
    let weights: f64 = c.stencil.iter().map(|weight| f64::from(weight.abs())).sum();
    let rates: f64 = c.axes.iter().map(|axis| f64::from(axis.rate).powi(2)).sum();
    let [x, y, z] = std::array::from_fn(|axis| cell[axis] as f64 * f64::from(c.spacing[axis]));
    format!(
        "{}cell {cell:?} ({x} m, {y} m, {z} m), where vp is {} m/s, rho {} kg/m³ and the CFL number {:.3} \
         (stable: up to 1)",
        if beside { "the absorbing layer beside " } else { "" },
        readable(vp),
        readable(1.0 / b),
        vp * weights * rates.sqrt(),
    )
}

/// To a tenth, or as a power of ten where that would be next to nothing, or a row of digits.
fn readable(value: f64) -> String {
    if (1.0..1e7).contains(&value) { format!("{value:.1}") } else { format!("{value:.3e}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fd::grid::Grid;
    use crate::fd::model::Model;

    fn coefficients() -> Coefficients {
        let grid = Grid { n: [3, 4, 5], h: [10.0, 12.5, 8.0] };
        let vp = (0..grid.cells()).map(|i| 1500.0 + i as f32).collect();
        let rho = (0..grid.cells()).map(|i| 1000.0 + 7.0 * i as f32).collect();
        Coefficients::new(&Model::new(grid, vp, Some(rho)).unwrap(), 1e-3, 8).unwrap()
    }

    /// The words where some cells have these values and all others hold a tenth.
    fn told(cells: &[([usize; 3], f32)], done: Option<usize>) -> String {
        let c = coefficients();
        let layout = c.layout;
        let mut field = vec![0.1; layout.field_len()];
        cells.iter().for_each(|(cell, value)| field[layout.at(*cell)] = *value);
        let error = error(f32::NAN.to_bits(), 99, 64);
        let plane = |y: usize, look: &mut dyn FnMut(&[f32])| {
            look(&field[layout.row(y * layout.padded[0])..][..layout.padded[0] * layout.pitch]);
            Ok(())
        };
        placed(error, &c, &layout, done, plane).to_string()
    }

    fn holds(words: &str, all: &[&str]) {
        all.iter().for_each(|part| assert!(words.contains(part), "'{part}' is not in: {words}"));
    }

    #[test]
    fn the_worst_cell_is_told_with_its_medium() {
        // Cell (1, 2, 3) is number (2 * 3 + 1) * 5 + 3 = 38.
        let words = told(&[([9, 10, 11], -3e9), ([8, 8, 8], 2e9)], None);
        let cfl = 1538.0 * 1e-3 * 1.28631 * (0.1_f64.powi(2) + 0.08_f64.powi(2) + 0.125_f64.powi(2)).sqrt();
        holds(
            &words,
            &["after step 100 (sound after step 64)", "blown up, worst at cell [1, 2, 3] (10 m, 25 m, 24 m)"],
        );
        holds(&words, &["vp is 1538.0 m/s, rho 1266.0 kg/m³", &format!("CFL number {cfl:.3}")]);
        let words = told(&[([2, 10, 14], 3e9)], Some(116));
        holds(
            &words,
            &["after step 116 worst at the absorbing layer beside cell [0, 2, 4] (0 m, 25 m, 32 m)"],
        );
    }

    #[test]
    fn what_is_no_number_has_begun_in_the_middle() {
        let cross = |(dx, dy): (usize, usize)| ([8 + dx, 9 + dy, 11], f32::NAN);
        let cells: Vec<_> = [(0, 1), (2, 1), (1, 0), (1, 2), (1, 1)].into_iter().map(cross).collect();
        holds(&told(&cells, None), &["not a finite number", "in 5 cells around cell [1, 2, 3]"]);
        holds(&told(&[([9, 10, 11], f32::INFINITY)], None), &["in 1 cell: cell [1, 2, 3]"]);
    }

    #[test]
    fn what_is_next_to_nothing_is_told_all_the_same() {
        let values = [1000.0, 0.1, 1e-38, 9.99e6, 1e30];
        let told = ["1000.0", "1.000e-1", "1.000e-38", "9990000.0", "1.000e30"];
        assert_eq!(values.map(readable), told);
    }

    #[test]
    fn a_place_that_can_not_be_read_is_left_out() {
        let c = coefficients();
        let gone = |_: usize, _: &mut dyn FnMut(&[f32])| Err(Error::Cancelled);
        let words = placed(error(7e8_f32.to_bits(), 19, 0), &c, &c.layout, None, gone).to_string();
        assert!(words.ends_with("the shot has blown up"), "{words}");
        holds(&words, &["after step 20 (zero at the start) is 7e8, more than 1e6 times the source"]);
        assert_eq!(placed(Error::Cancelled, &c, &c.layout, None, gone), Error::Cancelled);
    }
}
