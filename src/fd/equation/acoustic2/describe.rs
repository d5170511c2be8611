//! The words for a cell in the message of a shot that has become unstable.

use super::coefficients::Coefficients;
use crate::fd::equation::describe::{describe_cell, readable};

impl Coefficients {
    /// Returns the words for a padded cell: the user's cell and metres, velocity and CFL number there.
    pub fn describe_cell(&self, padded: [usize; 3]) -> String {
        describe_cell(&self.layout, self.spacing, padded, |inside| {
            let v = self.v.row(&self.layout, inside, 1).values(&mut Vec::new())[0];
            let vp = f64::from(v).sqrt();
            let others = self.weights.axes.iter().flatten().map(|weight| f64::from(weight.abs()));
            let sum = f64::from(self.weights.centre.abs()) + 2.0 * others.sum::<f64>();
            format!(
                "vp is {} m/s and the CFL number {:.3} (stable: up to 1)",
                readable(vp),
                0.5 * vp * sum.sqrt()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::fd::centred::dt_max;
    use crate::fd::equation::Absorber;
    use crate::fd::equation::acoustic2::coefficients::Medium;
    use crate::fd::grid::Grid;
    use crate::fd::model::Model;
    use crate::fd::stencil::Stencil;
    use crate::fd::storage::Storage;

    #[test]
    fn description_has_the_velocity_of_the_cell() {
        let grid = Grid { n: [3, 4, 5], h: [10.0, 12.5, 8.0] };
        let vp = (0..grid.cells()).map(|i| 1500.0 + i as f32).collect();
        let model = Model::new(grid, vp, None).unwrap();
        for stencil in Stencil::ALL {
            let c = Medium::new(&model, 8, Storage::Float32, Absorber::Sponge)
                .unwrap()
                .coefficients(1e-3, stencil);
            // Cell (1, 2, 3) is number (2 * 3 + 1) * 5 + 3 = 38; the fastest, 59, is 1559 m/s.
            let cfl = 1e-3 / dt_max(&model, stencil) * 1538.0 / 1559.0;
            let words = format!("where vp is 1538.0 m/s and the CFL number {cfl:.3} (stable: up to 1)");
            assert_eq!(c.describe_cell([9, 10, 11]), format!("cell [1, 2, 3] (10 m, 25 m, 24 m), {words}"));
        }
    }
}
