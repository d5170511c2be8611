//! Message about an unstable shot: the step, the cell with the largest pressure, and the medium
//! there.

use crate::error::{Error, Result};
use crate::fd::grid::layout::Layout;
use crate::fd::survey::Shot;

/// Steps between two instability checks.
pub const PROBE: usize = 64;

/// Factor on the source that no pressure reaches while steps are stable: beside the poles the
/// pressure is about as large as the source, and less elsewhere. An unstable pressure passes this
/// on its way to infinity, and a shot may end in between.
const FAR_TOO_LARGE: f32 = 1e6;

/// Returns a magnitude that only the pressure of an unstable shot reaches.
pub fn limit(shot: &Shot) -> f32 {
    let samples = shot.wavelet.samples.iter().take(shot.nt);
    let loudest = samples.fold(0.0, |most: f32, sample| most.max((shot.amplitude * sample).abs()));
    (FAR_TOO_LARGE * loudest).max(f32::MIN_POSITIVE)
}

/// Returns the error of a shot whose largest pressure after `step` has the bits `largest`, and was
/// finite and small enough at the check before.
pub fn error(largest: u32, step: usize) -> Error {
    let value = match f32::from_bits(largest) {
        finite if finite.is_finite() => format!("{finite:e}, more than {FAR_TOO_LARGE:e} times the source"),
        _ => "not a finite number".into(),
    };
    let before = match step / PROBE * PROBE {
        0 => "zero at the start".into(),
        sound => format!("sound after step {sound}"),
    };
    let what = format!("the pressure after step {} ({before})", step + 1);
    Error::Unstable { what, value, why: "the shot has blown up".into(), suspect: false }
}

/// Adds the place of the largest pressure to an [`error`]. `describe` returns the words for a
/// padded cell. `plane` passes the rows of a plane along x and z, in `layout`, after `done` steps;
/// `None` means the error's step.
pub fn placed(
    error: Error,
    describe: &dyn Fn([usize; 3]) -> String,
    layout: &Layout,
    done: Option<usize>,
    mut plane: impl FnMut(usize, &mut dyn FnMut(&[f32])) -> Result<()>,
) -> Error {
    let Error::Unstable { what, value, why, suspect } = error else { return error };
    let mut worst = Worst { largest: -1.0, at: [0; 3], bad: 0, low: [usize::MAX; 3], high: [0; 3] };
    let searched = (0..layout.padded[1]).try_for_each(|y| {
        plane(y, &mut |rows| {
            for (x, row) in rows.chunks(layout.pitch).take(layout.padded[0]).enumerate() {
                worst.look([x, y], &row[..layout.padded[2]]);
            }
        })
    });
    // If a GPU does not respond any more, the message has no place.
    let why = match searched {
        Ok(()) => format!("{why}, {}", worst.place(describe, done)),
        Err(_) => why,
    };
    Error::Unstable { what, value, why, suspect }
}

/// Search for the largest finite pressure, and for values that are not finite.
struct Worst {
    largest: f32,
    at: [usize; 3],
    /// Number of cells whose value is not finite, and the box around them.
    bad: usize,
    low: [usize; 3],
    high: [usize; 3],
}

impl Worst {
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

    /// Returns the place in words. Values that are not finite spread equally to all sides, so the
    /// middle of their box is where they began.
    fn place(&self, describe: &dyn Fn([usize; 3]) -> String, done: Option<usize>) -> String {
        let (seen, at) = match self.bad {
            0 => ("worst at".into(), self.at),
            1 => ("in 1 cell:".into(), self.low),
            bad => (
                format!("in {bad} cells around"),
                std::array::from_fn(|axis| (self.low[axis] + self.high[axis]) / 2),
            ),
        };
        let later = done.map_or_else(String::new, |done| format!("after step {done} "));
        format!("{later}{seen} {}", describe(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        Layout::new([3, 4, 5], 8)
    }

    fn described(cell: [usize; 3]) -> String {
        format!("cell {cell:?}")
    }

    /// Returns the message for a field whose cells hold these values, and all others a tenth.
    fn message(cells: &[([usize; 3], f32)], done: Option<usize>) -> String {
        let layout = layout();
        let mut field = vec![0.1; layout.field_len()];
        cells.iter().for_each(|(cell, value)| field[layout.at(*cell)] = *value);
        let error = error(f32::NAN.to_bits(), 99);
        let plane = |y: usize, look: &mut dyn FnMut(&[f32])| {
            look(&field[layout.row(y * layout.padded[0])..][..layout.padded[0] * layout.pitch]);
            Ok(())
        };
        placed(error, &described, &layout, done, plane).to_string()
    }

    #[track_caller]
    fn assert_holds(text: &str, part: &str) {
        assert!(text.contains(part), "'{part}' is not in: {text}");
    }

    #[test]
    fn message_names_the_worst_cell() {
        let text = message(&[([9, 10, 11], -3e9), ([8, 8, 8], 2e9)], None);
        assert_holds(&text, "after step 100 (sound after step 64)");
        assert_holds(&text, "blown up, worst at cell [9, 10, 11]");
        let text = message(&[([2, 10, 14], 3e9)], Some(116));
        assert_holds(&text, "after step 116 worst at cell [2, 10, 14]");
    }

    #[test]
    fn message_names_the_middle_of_cells_that_hold_no_number() {
        let cross = |(dx, dy): (usize, usize)| ([8 + dx, 9 + dy, 11], f32::NAN);
        let cells: Vec<_> = [(0, 1), (2, 1), (1, 0), (1, 2), (1, 1)].into_iter().map(cross).collect();
        let text = message(&cells, None);
        assert_holds(&text, "not a finite number");
        assert_holds(&text, "in 5 cells around cell [9, 10, 11]");
        assert_holds(&message(&[([9, 10, 11], f32::INFINITY)], None), "in 1 cell: cell [9, 10, 11]");
    }

    #[test]
    fn message_omits_a_place_that_cannot_be_read() {
        let gone = |_: usize, _: &mut dyn FnMut(&[f32])| Err(Error::Cancelled);
        let text = placed(error(7e8_f32.to_bits(), 19), &described, &layout(), None, gone).to_string();
        assert!(text.ends_with("the shot has blown up"), "{text}");
        assert_holds(&text, "after step 20 (zero at the start) is 7e8, more than 1e6 times the source");
        assert_eq!(placed(Error::Cancelled, &described, &layout(), None, gone), Error::Cancelled);
    }
}
