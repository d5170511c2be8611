//! The words for a cell in the message of a shot that has become unstable.

use crate::fd::equation::describe::{describe_cell, readable};
use crate::fd::one_pass::coefficients::Coefficients;

impl Coefficients {
    /// Returns the words for a padded cell: the user's cell and metres, velocity, density and CFL number there.
    /// `stretch`: the fastest velocity over that along z; `more`: words for further properties.
    pub fn describe_cell(&self, padded: [usize; 3], stretch: f64, more: &str) -> String {
        let Coefficients { layout, b, beside, kappa, .. } = self;
        describe_cell(layout, self.spacing, padded, |inside| {
            let mut room = Vec::new();
            let [b, kappa] =
                [b, kappa].map(|field| f64::from(field.row(layout, inside, 1).values(&mut room)[0]));
            let rho = if beside.is_some() { 2.0 * b } else { 1.0 / b };
            let vp = (kappa / rho).sqrt();
            let weights: f64 = self.stencil.iter().map(|weight| f64::from(weight.abs())).sum();
            let rates: f64 = self.axes.iter().map(|axis| f64::from(axis.rate).powi(2)).sum();
            let cfl = stretch * vp * weights * rates.sqrt();
            let (vp, rho) = (readable(vp), readable(rho));
            format!("vp is {vp} m/s, rho {rho} kg/m³{more} and the CFL number {cfl:.3} (stable: up to 1)")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fd::grid::Grid;
    use crate::fd::model::Model;

    #[test]
    fn description_has_the_medium_of_the_cell() {
        let grid = Grid { n: [3, 4, 5], h: [10.0, 12.5, 8.0] };
        let vp = (0..grid.cells()).map(|i| 1500.0 + i as f32).collect();
        let rho = (0..grid.cells()).map(|i| 1000.0 + 7.0 * i as f32).collect();
        let c = Coefficients::new(&Model::new(grid, vp, Some(rho)).unwrap(), 1e-3, 8).unwrap();
        // Cell (1, 2, 3) is number (2 * 3 + 1) * 5 + 3 = 38.
        let cfl = 1538.0 * 1e-3 * 1.28631 * (0.1_f64.powi(2) + 0.08_f64.powi(2) + 0.125_f64.powi(2)).sqrt();
        let medium = "vp is 1538.0 m/s, rho 1266.0 kg/m³";
        let expected = format!(
            "cell [1, 2, 3] (10 m, 25 m, 24 m), where {medium} and the CFL number {cfl:.3} (stable: up to 1)"
        );
        assert_eq!(c.describe_cell([9, 10, 11], 1.0, ""), expected);
        let beside = "the absorbing layer beside cell [0, 2, 4] (0 m, 25 m, 32 m)";
        assert!(c.describe_cell([2, 10, 14], 1.0, "").starts_with(beside));
    }
}
