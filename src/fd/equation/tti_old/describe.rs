//! The words for a cell in the message of a shot that has become unstable.

use super::coefficients::OldTtiCoefficients;
use crate::fd::edge_field::EdgeField;
use crate::fd::equation::describe::{describe_cell, readable};

impl OldTtiCoefficients {
    /// Returns the words for a padded cell: the user's cell and metres, its medium, and the CFL number there.
    pub fn describe_cell(&self, padded: [usize; 3]) -> String {
        describe_cell(&self.layout, self.spacing, padded, |inside| {
            let at = |columns: &EdgeField| {
                f64::from(columns.row(&self.layout, inside, 1).values(&mut Vec::new())[0])
            };
            let columns = &self.columns;
            let ([vp, e, s], [ct, st, cp, sp]) = (
                [at(&columns.modulus).sqrt(), at(&columns.e), at(&columns.s)],
                columns.angles.each_ref().map(at),
            );
            let weights: f64 = self.stencil.iter().map(|weight| f64::from(weight.abs())).sum();
            let inverse: f64 = self.spacing.iter().map(|h| f64::from(*h).powi(-2)).sum();
            let cfl = f64::from(self.dt) * vp * e.max(1.0).sqrt() * weights * inverse.sqrt();
            format!(
                "vp is {} m/s, epsilon {:.3}, delta {:.3}, theta_rad {:.3}, phi_rad {:.3} and the CFL number {cfl:.3} \
                 (stable: up to 1)",
                readable(vp),
                0.5 * (e - 1.0),
                0.5 * (s * s - 1.0),
                st.atan2(ct),
                sp.atan2(cp),
            )
        })
    }
}
