//! Checks of a shot before it runs: spatial sampling, and the arrival of the direct wave.

use super::model::Outline;
use super::survey::Shot;
use crate::backend::cpu::reserve;
use crate::error::{Error, Result};

/// Returns the cells per shortest wavelength, `vmin / (fmax max(dx, dy, dz))` with `fmax` = 2.5
/// peak frequencies.
pub fn cells_per_wavelength(model: &Outline, peak_frequency_hz: f32) -> f64 {
    let widest = model.grid.h.iter().copied().fold(0.0, f32::max);
    f64::from(model.vp_range[0]) / (2.5 * f64::from(peak_frequency_hz) * f64::from(widest))
}

/// Returns the number of steps to mute on each trace so that the direct wave is gone. As in the old
/// kernels this is its travel time at the horizontal velocity of cell (0, 0, 0), the wavelet's
/// length in `periods`, and 60 steps.
///
/// The old kernels count the source's cells from 1 and the receivers' from 0, and subtract them as
/// they are. So a receiver's distance in x and y is one cell too large on one side. The distance in
/// depth is `dz (iz + 1)` with the source's depth index `iz`, whatever the receiver's depth. This
/// function does the same, so that both mute alike (oddity B17 of docs/legacy.md).
///
/// # Errors
/// [`Error::NoHostMemory`].
pub fn direct_wave_mute(
    model: &Outline,
    shot: &Shot,
    dt: f32,
    frequency_hz: f32,
    periods: f64,
) -> Result<Vec<u32>> {
    let [dx, dy, dz] = model.grid.h;
    let [sx, sy, sz] = [0, 1, 2].map(|axis| shot.source[axis] as i64 + shot.outside[axis] as i64 + 1);
    let vp = model.direct_velocity;
    let tail = (periods / f64::from(dt * frequency_hz)) as u32;
    let tail = tail.saturating_add(60);
    let count = |[ix, iy, _]: [usize; 3]| {
        let apart = |h: f32, a: usize, b: i64| f64::from(h * b.abs_diff(a as i64) as f32);
        let (mx, my, mz) = (apart(dx, ix, sx), apart(dy, iy, sy), f64::from(dz * sz as f32));
        let time = ((mx * mx + my * my + mz * mz) as f32).sqrt() / vp;
        ((time / dt) as u32).saturating_add(tail)
    };
    let traces = shot.receivers.count(model.grid.n);
    let mut steps = reserve(traces).ok_or_else(|| Error::NoHostMemory {
        what: format!("the mute of {traces} traces"),
        bytes: 4 * traces as u64,
    })?;
    steps.extend(shot.receivers.cells(model.grid.n).map(count));
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fd::grid::Grid;
    use crate::fd::model::Model;
    use crate::fd::survey::Receivers;

    /// Waves along the axis with the widest cells have the fewest cells per wavelength.
    #[test]
    fn widest_cells_count_for_the_sampling_of_the_shortest_wavelength() {
        for h in [[20.0, 5.0, 10.0], [5.0, 10.0, 20.0], [10.0, 20.0, 5.0]] {
            let model = Model::new(Grid { n: [2, 1, 1], h }, vec![2000.0, 1500.0], None).unwrap();
            // 1500 m/s at 2.5 * 10 Hz is 60 m: three cells of 20 m.
            let cells = cells_per_wavelength(&model, 10.0);
            assert!((cells - 3.0).abs() < 1e-9, "{cells} cells with a spacing of {h:?} m");
        }
    }

    #[test]
    fn mute_of_a_source_above_the_grid_counts_no_depth() {
        let model = Model::new(Grid { n: [3, 1, 1], h: [10.0; 3] }, vec![800.0; 3], None).unwrap();
        let receivers = Receivers::List(vec![[0, 0, 0], [1, 0, 0], [2, 0, 0]]);
        let shot = Shot { outside: [-1, -1, -1], receivers, ..Shot::default() };
        // 159 steps, and 12.5 for each cell.
        assert_eq!(direct_wave_mute(&model, &shot, 1e-3, 20.0, 2.0).unwrap(), [159, 171, 184]);
        let above = Shot { outside: [0, 0, -3], ..shot };
        assert_eq!(direct_wave_mute(&model, &above, 1e-3, 20.0, 2.0).unwrap(), [189, 186, 189]);
    }

    #[test]
    fn a_direct_wave_that_never_arrives_mutes_all() {
        let model = Model::new(Grid { n: [2, 1, 1], h: [1e30; 3] }, vec![1.0; 2], None).unwrap();
        let shot = Shot { receivers: Receivers::Plane { iz: 0, every: [1, 1] }, ..Shot::default() };
        assert_eq!(direct_wave_mute(&model, &shot, 1e-3, 20.0, 2.0).unwrap(), [u32::MAX; 2]);
        assert_eq!(direct_wave_mute(&model, &shot, 1e-30, 1e-30, 2.0).unwrap(), [u32::MAX; 2]);
    }

    #[test]
    fn mute_of_more_traces_than_the_memory_holds_is_refused() {
        let model = Model::new(Grid { n: [1; 3], h: [10.0; 3] }, vec![2000.0], None).unwrap();
        let outline = Outline { grid: Grid { n: [1 << 21, 1 << 21, 1], h: [10.0; 3] }, ..*model };
        let shot = Shot { receivers: Receivers::Plane { iz: 0, every: [1, 1] }, ..Shot::default() };
        let refused = direct_wave_mute(&outline, &shot, 1e-3, 20.0, 2.0);
        assert!(matches!(refused, Err(Error::NoHostMemory { .. })));
    }
}
