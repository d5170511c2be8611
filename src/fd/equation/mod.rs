//! The equations. An equation is a folder here and one entry of [`EQUATIONS`]; all else reaches it through these traits.

pub mod acoustic1;
pub mod acoustic2;
#[cfg(test)]
mod advection_tests;
mod describe;
#[cfg(test)]
mod sweep_tests;
mod traits;
pub mod tti;
pub mod vti;

pub use traits::{AbsorbingLayer, Equation, Material, Propagator, Properties, Scheme, needs_cpu};

/// All equations. The first is the default.
pub static EQUATIONS: [&dyn Equation; 4] =
    [&acoustic1::Acoustic1, &acoustic2::Acoustic2, &vti::Vti, &tti::Tti];

/// Returns the equation of a name.
pub fn by_name(name: &str) -> Option<&'static dyn Equation> {
    EQUATIONS.into_iter().find(|equation| equation.name() == name)
}
