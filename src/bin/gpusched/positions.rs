//! Converts positions in metres to cells. The cell (0, 0, 0) is at 0 m on every axis.

use gpusched::Result;
use gpusched::fd::grid::{AXES, Grid};
use gpusched::fd::survey::Receivers;

use crate::digits::{decimal, tidy};
use crate::document::Document;
use crate::survey::{self, Exactly};

/// Largest distance of a position from a cell, in cells, for rounded decimals.
const TOLERANCE: f64 = 0.01;
pub const MOST_SHOTS: usize = 1_000_000;

pub fn metres(grid: &Grid, cell: [usize; 3]) -> [f64; 3] {
    std::array::from_fn(|axis| tidy(cell[axis] as f64 * decimal(grid.h[axis])))
}

fn cell(file: &Document, grid: &Grid, key: &str, at: [f64; 3]) -> Result<[usize; 3]> {
    let mut cell = [0; 3];
    for axis in 0..3 {
        cell[axis] = index(file, grid, key, axis, at[axis])?;
    }
    Ok(cell)
}

fn index(file: &Document, grid: &Grid, key: &str, axis: usize, metres: f64) -> Result<usize> {
    let (h, n, name) = (decimal(grid.h[axis]), grid.n[axis], AXES[axis]);
    let exact = metres / h;
    let last = (n - 1) as f64;
    if !(exact >= -TOLERANCE && exact <= last + TOLERANCE) {
        let accepted = format!("{name} from 0 to {} m, inside the grid", tidy(last * h));
        return Err(file.refuse(key, accepted));
    }
    let nearest = exact.round();
    if (exact - nearest).abs() > TOLERANCE {
        let accepted = format!("{name} on a cell; nearest to {metres} m is {} m", tidy(nearest * h));
        return Err(file.refuse(key, accepted));
    }
    Ok(nearest as usize)
}

/// Returns a receiver or source step in metres as a number of cells. `steps` of them follow each
/// other.
fn stride(file: &Document, grid: &Grid, axis: usize, metres: f64, steps: usize) -> Result<usize> {
    let h = decimal(grid.h[axis]);
    let cells = (metres / h).round();
    let is_multiple = metres.is_finite() && cells >= 1.0;
    let off = (metres / h - cells).abs();
    let drift = steps as f64 * off;
    if is_multiple && drift <= TOLERANCE {
        return Ok(cells as usize);
    }
    let mut accepted = format!("positive multiples of the spacing, which is {} m in {}", tidy(h), AXES[axis]);
    if is_multiple && off > TOLERANCE {
        accepted += &format!("; nearest to {metres} m is {} m", tidy(cells * h));
    } else if is_multiple {
        let metres_off = tidy(drift * h);
        accepted += &format!("; {steps} steps of {metres} m end {metres_off} m beside a cell");
    }
    Err(file.refuse("sources.step_m", accepted))
}

/// Returns the cells of the sources in the order of the shots: x is the fastest.
pub fn sources(file: &Document, grid: &Grid, from: &survey::Sources) -> Result<Vec<[usize; 3]>> {
    match (&from.positions_m, from.first_m) {
        (Some(list), None) => {
            if let Some((key, _)) = [("step_m", from.step_m.is_some()), ("count", from.count.is_some())]
                .iter()
                .find(|(_, is)| *is)
            {
                return Err(file.refuse(&format!("sources.{key}"), "no value: it belongs to `first_m`"));
            }
            if list.is_empty() || list.len() > MOST_SHOTS {
                return Err(file.refuse("sources.positions_m", format!("1 to {MOST_SHOTS} positions")));
            }
            let place = |(at, position): (usize, &Exactly<f64, 3>)| {
                cell(file, grid, &format!("sources.positions_m.{at}"), position.0)
            };
            list.iter().enumerate().map(place).collect()
        }
        (None, Some(first)) => {
            if from.count.is_none() && from.step_m.is_some() {
                return Err(file.refuse("sources.step_m", "no value: it belongs to `count`"));
            }
            let count = from.count.map_or([1, 1], |count| count.0);
            let shots = count[0].checked_mul(count[1]);
            if !shots.is_some_and(|shots| (1..=MOST_SHOTS).contains(&shots)) {
                return Err(file.refuse("sources.count", format!("1 to {MOST_SHOTS} shots in all")));
            }
            let first = cell(file, grid, "sources.first_m", first.0)?;
            let mut step = [0, 0];
            for axis in 0..2 {
                if count[axis] > 1 {
                    let Some(Exactly(metres)) = from.step_m else {
                        return Err(file.refuse("sources.step_m", "[x, y] in metres, for more than one shot"));
                    };
                    step[axis] = stride(file, grid, axis, metres[axis], count[axis] - 1)?;
                    let room = (grid.n[axis] - 1 - first[axis]) / step[axis] + 1;
                    if count[axis] > room {
                        let accepted =
                            format!("at most {room} in {} with this step, to stay in the grid", AXES[axis]);
                        return Err(file.refuse("sources.count", accepted));
                    }
                }
            }
            let along_x = |iy: usize| {
                (0..count[0]).map(move |ix| [first[0] + ix * step[0], first[1] + iy * step[1], first[2]])
            };
            Ok((0..count[1]).flat_map(along_x).collect())
        }
        (list, _) => {
            let keys = ["`first_m` with `step_m` and `count`", "`positions_m`"];
            Err(file.refuse_choice("sources", list.is_some(), keys))
        }
    }
}

pub fn receivers(file: &Document, grid: &Grid, from: &survey::Receivers) -> Result<Receivers> {
    let Some(list) = &from.positions_m else {
        let every = from.every.map_or([1, 1], |every| every.0);
        let iz = index(file, grid, "receivers.depth_m", 2, from.depth_m.unwrap_or(0.0))?;
        return Ok(Receivers::Plane { iz, every });
    };
    if from.depth_m.is_some() || from.every.is_some() {
        return Err(file.refuse_choice("receivers", true, ["`depth_m` and `every`", "`positions_m`"]));
    }
    if list.is_empty() {
        return Err(file.refuse("receivers.positions_m", "at least one position"));
    }
    let place = |(at, position): (usize, &Exactly<f64, 3>)| {
        cell(file, grid, &format!("receivers.positions_m.{at}"), position.0)
    };
    list.iter().enumerate().map(place).collect::<Result<_>>().map(Receivers::List)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metres_have_the_digits_of_the_spacing() {
        let grid = Grid { n: [99_999; 3], h: [33.3, 2.5e-6, 1e6] };
        assert_eq!(metres(&grid, [3, 1, 7]), [99.9, 2.5e-6, 7e6]);
        assert_eq!(metres(&grid, [99_998, 99_998, 0]), [3_329_933.4, 0.249_995, 0.0]);
    }
}
