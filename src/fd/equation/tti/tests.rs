//! Coefficients.

use std::f64::consts::PI;

use super::TtiMaterial;
use super::coefficients::{first, towards_zero};
use super::sponge::damping;
use crate::fd::anisotropy::Anisotropy;
use crate::fd::centred;
use crate::fd::grid::Grid;
use crate::fd::grid::layout::Layout;
use crate::fd::model::{Model, Property};
use crate::fd::plan::Options;
use crate::fd::stencil::Stencil;
use crate::fd::storage::Storage;

/// Else a mode of the cell grows.
#[test]
fn s_squared_is_at_most_e_in_elliptical_media() {
    for hundredths in 1..60 {
        let value = hundredths as f32 / 100.0;
        let properties = [(Property::Vp, 2000.0), (Property::Epsilon, value), (Property::Delta, value)];
        let properties = properties.map(|(property, value)| (property, value.into()));
        let model = Model::of(Grid { n: [40, 1, 1], h: [10.0; 3] }, properties).unwrap();
        let layout = Layout::new(model.grid.n, 8);
        let anisotropy = Anisotropy::new(&model, &layout, Storage::Float32).unwrap();
        let ball = anisotropy.ball(&layout, [28, 8, 8]);
        let [of_e, of_s] = [&anisotropy.e, &anisotropy.s].map(|field| field.value(&layout, [10; 3]));
        let cells = ball.cells_of_both().chain([(of_e, of_s)]);
        assert!(cells.into_iter().all(|(e, s)| s * s <= e), "epsilon and delta {value}");
    }
}

/// Else the operator of P has the wrong sign for some waves, which grow.
#[test]
fn derivatives_along_the_axis_are_at_most_the_laplacian() {
    for stencil in Stencil::ALL {
        let [_, c @ ..] = centred::coefficients(stencil);
        let k = first(stencil);
        for part in 1..=1000 {
            let wave = PI * f64::from(part) / 1000.0;
            let sum =
                |of: &dyn Fn(f64, usize) -> f64| (0..4).map(|m| of((m + 1) as f64 * wave, m)).sum::<f64>();
            let derivative = sum(&|phase, m| 2.0 * k[m] * phase.sin());
            let second = sum(&|phase, m| 2.0 * c[m] * (1.0 - phase.cos()));
            assert!(
                derivative.powi(2) <= second * (1.0 + 1e-7),
                "{stencil:?}, {wave}: {}",
                derivative.powi(2) / second
            );
        }
    }
    for part in 0..2000 {
        let (theta, phi) = (0.003 * f64::from(part), 0.007 * f64::from(part));
        let axis = [theta.sin() * phi.cos(), theta.sin() * phi.sin(), theta.cos()].map(towards_zero);
        let square: f64 = axis.iter().map(|n| f64::from(*n).powi(2)).sum();
        assert!((1.0 - 4e-7..=1.0).contains(&square), "{theta}, {phi}: {square}");
    }
}

/// The rotated operators of the old kernel are those of waves only if all spacings are equal.
#[test]
fn schemes_are_equal_where_all_spacings_are() {
    let coefficients = |h, old_rules| {
        let model = Model::of(Grid { n: [3, 4, 5], h }, [(Property::Vp, 2000.0.into())]).unwrap();
        let material = TtiMaterial::old(&model, 8, Storage::Float32).unwrap();
        let shot = material.old_coefficients(8e-4, Options { old_rules, ..Options::default() }.scheme());
        // Factors of the derivative along each axis in the flux of each axis.
        [0, 1, 2].map(|flux| {
            shot.c.operators.stencils.map(|stencil| (stencil[0] * shot.c.operators.axes[flux].rate).to_bits())
        })
    };
    assert_eq!(coefficients([10.0; 3], false), coefficients([10.0; 3], true));
    let found = coefficients([10.0, 20.0, 5.0], false);
    let first = f32::from_bits(found[0][0]);
    assert_eq!(found, [[first, 0.5 * first, 2.0 * first].map(f32::to_bits); 3]);
    assert_ne!(found, coefficients([10.0, 20.0, 5.0], true));
}

/// A wave with ten steps per cell crosses the updated cells of the sponge, turns, and crosses them again.
#[test]
fn wave_returns_with_the_stated_amplitude() {
    for pml in [8, 20, 40, 100] {
        let layout = Layout::new([5, 6, 7], pml);
        let half = damping(&layout, 0, 0.05, 2.0).into_iter().map(f64::from);
        let returned: f64 = half.take(pml).skip(4).map(|r| ((1.0 - r) / (1.0 + r)).powi(20)).product();
        assert!((returned / 3e-3 - 1.0).abs() < 0.1, "{pml} cells: {returned:e}");
    }
}
