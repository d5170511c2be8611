//! The absorbing layer: the waves of all directions are damped alike.
//!
//! A layer that damps derivatives along its own axis only lets waves grow where the medium is tilted (Bécache, Fauqueux and
//! Joly 2003). This one damps all by `d`, which the layers of the three axes add up to: `(d/dt + d)²` takes the place of
//! `d²/dt²`, so a wave decays as `exp(-d t)` at its own speed, whatever its frequency. It reflects as `d` rises from cell to
//! cell, the less the more cells per wavelength the layer has.

use crate::fd::grid::layout::Layout;

/// The amplitude of a wave that returns from behind the last updated cell, at normal incidence.
const REFLECTED_AMPLITUDE: f64 = 3e-3;

/// Returns half the damping times `dt` of each padded index of an axis. `velocity`: of the fastest wave, in cells per second.
pub fn damping(layout: &Layout, axis: usize, dt: f32, velocity: f32) -> Vec<f32> {
    let end = layout.pml + layout.inner[axis] - 1;
    let rise = |depth: usize| (depth as f64).powi(2);
    // The wave turns behind the last updated cell.
    let crossed: f64 = (1..=layout.width()).map(rise).sum();
    let first = -REFLECTED_AMPLITUDE.ln() / 2.0 * f64::from(velocity) / crossed;
    let depth = |i: usize| layout.pml.saturating_sub(i).max(i.saturating_sub(end));
    (0..layout.padded[axis]).map(|i| (0.5 * f64::from(dt) * first * rise(depth(i))) as f32).collect()
}
