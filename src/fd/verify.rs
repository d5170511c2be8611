//! What can be known before a shot runs: stability, sampling, and when the direct wave has passed.

use super::grid::Grid;
use super::model::{Model, Outline};
use super::stencil::Stencil;
use super::survey::Shot;

/// Largest stable time step in seconds: `1 / (c vmax sqrt(1/dx² + 1/dy² + 1/dz²))`, in double, with the stencil's
/// [`courant`](Stencil::courant) as `c`.
pub fn dt_max(model: &Outline, stencil: Stencil) -> f64 {
    let inverse: f64 = model.grid.h.iter().map(|&h| f64::from(h).powi(-2)).sum();
    1.0 / (stencil.courant() * f64::from(model.vp_range[1]) * inverse.sqrt())
}

/// A time step in seconds that is stable for certain, whatever the densities: [`dt_max`] where they don't jump from cell
/// to cell, else less. In between a shot may be stable or not.
///
/// Without damping, steps are stable if no eigenvalue of `-rho vp² D-(1/rho D+)` is above `4 / dt²`; all are real, and none
/// is above the largest sum of the magnitudes in a row (Gershgorin's circles). A row is that of a cell, and its
/// derivatives reach 1/rho at four indices to each side.
pub fn dt_sure(model: &Model, stencil: Stencil) -> f64 {
    let most = dt_max(model, stencil);
    let Some(rho) = &model.rho else { return most };
    let Grid { n: [nx, _, nz], h } = model.grid;
    let weights = stencil.coefficients().map(|c| f64::from(c.abs()));
    let factors = h.map(|h| 2.0 * stencil.courant() / f64::from(h).powi(2));
    let stride = [nz, nz * nx, 1];
    // 1/rho in a row, weighted as the derivatives weigh it.
    let row = |cell: [usize; 3], at: usize| -> f64 {
        let along = |axis: usize| {
            let of = |i: usize| 1.0 / f64::from(rho[at - cell[axis] * stride[axis] + i * stride[axis]]);
            let (i, last) = (cell[axis], model.grid.n[axis] - 1);
            let pair = |m: usize| of((i + m).min(last)) + of(i.saturating_sub(1 + m));
            factors[axis] * weights.iter().enumerate().map(|(m, weight)| weight * pair(m)).sum::<f64>()
        };
        (0..3).map(along).sum()
    };
    let lightest = rho.iter().copied().fold(f32::INFINITY, f32::min);
    let no_more = factors.iter().sum::<f64>() * 2.0 * weights.iter().sum::<f64>() / f64::from(lightest);
    let mut largest = 4.0 / most.powi(2);
    for (at, (&rho, &vp)) in rho.iter().zip(&model.vp).enumerate() {
        let kappa = f64::from(rho) * f64::from(vp).powi(2);
        // Few cells can be the worst.
        if kappa * no_more > largest {
            largest = largest.max(kappa * row([at / nz % nx, at / nz / nx, at % nz], at));
        }
    }
    2.0 / largest.sqrt()
}

/// Cells per shortest wavelength: `vmin / (fmax max(dx, dy, dz))` with `fmax` = 2.5 peak frequencies.
pub fn cells_per_wavelength(model: &Outline, peak_frequency_hz: f32) -> f64 {
    let widest = model.grid.h.iter().copied().fold(0.0, f32::max);
    f64::from(model.vp_range[0]) / (2.5 * f64::from(peak_frequency_hz) * f64::from(widest))
}

/// Steps to mute on each trace so that the direct wave is gone, as the old kernels count them:
/// its travel time at the velocity of cell (0, 0, 0), two periods, and 60 steps.
///
/// The old kernels count the source's cells from 1 and the receivers' from 0 and take the
/// difference as it is: a receiver's distance is one cell too far to one side in x and y, and
/// is never less than one cell in depth. Their records are muted so, hence ours.
pub fn direct_wave_mute(model: &Outline, shot: &Shot, dt: f32, frequency_hz: f32) -> Vec<usize> {
    let [dx, dy, dz] = model.grid.h;
    let [sx, sy, sz] = shot.source.map(|at| at + 1);
    let vp = model.vp_first;
    let tail = (2.0 / f64::from(dt * frequency_hz)) as usize;
    let tail = tail.saturating_add(60);
    let count = |[ix, iy, _]: [usize; 3]| {
        let apart = |h: f32, a: usize, b: usize| f64::from(h * a.abs_diff(b) as f32);
        let (mx, my, mz) = (apart(dx, ix, sx), apart(dy, iy, sy), f64::from(dz * sz as f32));
        let time = ((mx * mx + my * my + mz * mz) as f32).sqrt() / vp;
        ((time / dt) as usize).saturating_add(tail)
    };
    shot.receivers.cells(model.grid.n).map(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fd::survey::Receivers;
    use crate::fd::wavelet::Wavelet;

    #[test]
    fn a_step_is_surely_stable_by_the_densities_around_a_cell() {
        let grid = Grid { n: [3, 4, 20], h: [10.0, 12.0, 8.0] };
        let column = |top: f32, bottom: f32| {
            let of = move |z: usize| if z < 10 { top } else { bottom };
            (0..12).flat_map(|_| (0..20).map(of)).collect::<Vec<_>>()
        };
        let sure = |vp: Vec<f32>, rho: Option<Vec<f32>>| {
            let model = Model::new(grid, vp, rho).unwrap();
            Stencil::ALL.map(|stencil| dt_sure(&model, stencil) / dt_max(&model, stencil))
        };
        // No density, one density, one modulus' worth of contrast: the limit is that of the fastest velocity.
        for (vp, rho) in [
            (column(1500.0, 4000.0), None),
            (column(1500.0, 4000.0), Some(column(2000.0, 2000.0))),
            (column(1500.0, 4000.0), Some(column(2400.0, 2000.0))),
        ] {
            let [taylor, optimised] = sure(vp, rho);
            assert!((taylor - 1.0).abs() < 1e-5 && (optimised - 1.0).abs() < 1e-5, "{taylor} {optimised}");
        }
        // Below the contrast half of the derivative's weights along z meet a density a third as large.
        let inverse = grid.h.map(|h| f64::from(h).powi(-2));
        let expected = (inverse.iter().sum::<f64>() / (inverse[0] + inverse[1] + 2.0 * inverse[2])).sqrt();
        for found in sure(column(1500.0, 4000.0), Some(column(1000.0, 3000.0))) {
            assert!((found - expected).abs() < 1e-5, "{found}, should be {expected}");
        }
    }

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
    fn a_direct_wave_that_never_arrives_mutes_all() {
        let model = Model::new(Grid { n: [2, 1, 1], h: [1e30; 3] }, vec![1.0; 2], None).unwrap();
        let shot = Shot {
            source: [0, 0, 0],
            wavelet: Wavelet { samples: vec![1.0] },
            amplitude: 1.0,
            nt: 2,
            receivers: Receivers::Plane { iz: 0, every: [1, 1] },
            record_every: 1,
            snapshot_every: None,
            mute: None,
        };
        assert_eq!(direct_wave_mute(&model, &shot, 1e-3, 20.0), [usize::MAX; 2]);
        assert_eq!(direct_wave_mute(&model, &shot, 1e-30, 1e-30), [usize::MAX; 2]);
    }
}
