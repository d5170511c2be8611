//! The source: a vertical dipole that the velocities see and the pressure never holds.

use super::coefficients::Coefficients;
use super::fields::Shared;
use super::layout::Layout;
use super::rows::Fused;

/// Cells from the negative pole down to the positive one.
const APART: usize = 2;
/// How deep under the source's cell each pole is, and its sign.
pub const POLES: [(usize, f64); 2] = [(0, -1.0), (APART, 1.0)];

/// What a pole of unit pressure adds to the velocities around it.
pub struct Source {
    /// Axis, position in that axis's velocity, factor; the negative pole first.
    terms: Vec<(usize, usize, f32)>,
}

impl Source {
    /// `at` is the user's cell of the negative pole.
    ///
    /// A pressure at cell `j` is tap `f[1+m]` of the slope at `j-1-m` and tap `f[-m]` of the one at
    /// `j+m`. With a layer of eight cells and a source in the last plane, the deepest of these lies beyond
    /// what is updated; it stays at rest.
    pub fn new(c: &Coefficients, at: [usize; 3]) -> Self {
        Source::laid_out(c, &c.layout, at)
    }

    /// The same with positions in another layout of the same grid.
    pub fn laid_out(c: &Coefficients, fields: &Layout, at: [usize; 3]) -> Self {
        let layout = &c.layout;
        let (mut terms, mut room) = (Vec::new(), Vec::new());
        for (depth, sign) in POLES.map(|(depth, sign)| (depth, sign as f32)) {
            let pole = [at[0], at[1], at[2] + depth].map(|i| i + layout.pml);
            for axis in 0..3 {
                for (m, coefficient) in c.stencil.iter().enumerate() {
                    for (to, sign) in [(pole[axis] - 1 - m, sign), (pole[axis] + m, -sign)] {
                        if !layout.active(axis).contains(&to) {
                            continue;
                        }
                        let mut cell = pole;
                        cell[axis] = to;
                        let b = c.b.row(layout, cell, 1).values::<Fused>(&mut room)[0];
                        let factor = -(c.axes[axis].velocity_rate[to] * b) * (sign * coefficient);
                        terms.push((axis, fields.at(cell), factor));
                    }
                }
            }
        }
        Source { terms }
    }

    /// Axis, position in that axis's velocity, factor; in the order in which they are added.
    pub fn terms(&self) -> &[(usize, usize, f32)] {
        &self.terms
    }

    /// Adds a step's source to the velocities.
    ///
    /// # Safety
    /// The fields have the layout that the source was made for, and nobody else uses the velocities meanwhile.
    pub unsafe fn fire(&self, fields: Shared<'_>, value: f32) {
        for &(axis, at, factor) in &self.terms {
            // SAFETY: within the field, by its making; alone, by the caller's promise.
            let cell = unsafe { &mut fields.velocity[axis].write(at, 1)[0] };
            *cell += factor * value;
        }
    }
}
