//! The words for a cell in the message of a shot that has become unstable.

use super::material::TiltedMedium;
use crate::fd::edge_field::EdgeField;
use crate::fd::equation::describe::{describe_cell, readable};
use crate::fd::grid::layout::Layout;

impl<const N: usize> TiltedMedium<N> {
    /// Returns the words for a padded cell: the user's cell and metres, its medium, and the CFL number there. `cfl`: of a
    /// velocity of 1 m/s. `angles`: returns theta and phi.
    pub fn describe_cell(
        &self,
        layout: &Layout,
        spacing: [f32; 3],
        padded: [usize; 3],
        cfl: f64,
        angles: impl Fn([f64; N]) -> [f64; 2],
    ) -> String {
        describe_cell(layout, spacing, padded, |inside| {
            let at = |columns: &EdgeField| columns.value(layout, inside);
            let [vp, e, s] = [at(&self.modulus).sqrt(), at(&self.e), at(&self.s)];
            let [theta, phi] = angles(self.rotation.each_ref().map(at));
            format!(
                "vp is {} m/s, epsilon {:.3}, delta {:.3}, theta_rad {theta:.3}, phi_rad {phi:.3} and the CFL number \
                 {:.3} (stable: up to 1)",
                readable(vp),
                0.5 * (e - 1.0),
                0.5 * (s * s - 1.0),
                cfl * vp * e.max(1.0).sqrt(),
            )
        })
    }
}
