//! Coefficients, and their bytes with those of fields.

use super::cpu::fields;
use crate::backend::cpu::Buffer;
use crate::fd::equation::traits::Scheme;
use crate::fd::equation::tti::TtiMaterial;
use crate::fd::grid::Grid;
use crate::fd::grid::layout::Layout;
use crate::fd::model::{Model, Property};
use crate::fd::storage::Storage;

/// The rotated operators of the old kernel are those of waves only if all spacings are equal.
#[test]
fn schemes_are_equal_where_all_spacings_are() {
    let coefficients = |h, old_rules| {
        let model = Model::of(Grid { n: [3, 4, 5], h }, [(Property::Vp, 2000.0.into())]).unwrap();
        let material = TtiMaterial::old(&model, 8, Storage::Float32).unwrap();
        let c = material.old_coefficients(8e-4, Scheme { old_rules, ..Scheme::default() });
        // Factors of the derivative along each axis in the flux of each axis.
        [0, 1, 2].map(|flux| {
            c.operators.stencils.map(|stencil| (stencil[0] * c.operators.axes[flux].rate).to_bits())
        })
    };
    assert_eq!(coefficients([10.0; 3], false), coefficients([10.0; 3], true));
    let found = coefficients([10.0, 20.0, 5.0], false);
    let first = f32::from_bits(found[0][0]);
    assert_eq!(found, [[first, 0.5 * first, 2.0 * first].map(f32::to_bits); 3]);
    assert_ne!(found, coefficients([10.0, 20.0, 5.0], true));
}

/// A grid of 300 cells a side with the default layers.
#[test]
fn a_cell_takes_at_most_56_bytes() {
    let layout = Layout::new(&Grid { n: [300; 3], h: [10.0; 3] }, 40);
    let fields: u64 = fields::lens(&layout).into_iter().map(Buffer::bytes_of).sum();
    let cell = (fields + 7 * 4 * 300 * 300 * layout.pitch as u64) as f64 / layout.cells() as f64;
    assert!(cell < 56.0, "{cell} bytes a cell");
}
