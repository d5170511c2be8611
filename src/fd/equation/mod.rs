//! The equations. An equation is a folder here and one entry of [`EQUATIONS`]; all else reaches it through these traits.

use crate::error::{Error, Result};

pub mod acoustic1;
pub mod acoustic2;
#[cfg(test)]
mod advection_tests;
#[cfg(test)]
mod bytes_tests;
#[cfg(test)]
mod describe_tests;
mod propagator;
#[cfg(test)]
mod sweep_tests;
mod traits;
pub mod tti;
pub mod vti;

pub use traits::{
    Absorber, Equation, LAYER_CELLS, Material, Propagator, PropagatorFactory, Properties, Scheme,
};

/// All equations. The first is the default.
pub static EQUATIONS: [&dyn Equation; 4] =
    [&acoustic1::Acoustic1, &acoustic2::Acoustic2(Absorber::Sponge), &vti::Vti, &tti::Tti(Absorber::Sponge)];

/// Equations with another absorbing layer than that of [`EQUATIONS`].
pub static WITH_OTHER_LAYER: [&dyn Equation; 2] =
    [&acoustic2::Acoustic2(Absorber::Pml), &tti::Tti(Absorber::Pml)];

/// Returns the equation of a name.
pub fn by_name(name: &str) -> Option<&'static dyn Equation> {
    EQUATIONS.into_iter().find(|equation| equation.name() == name)
}

/// Returns an equation with an absorbing layer of a kind.
///
/// # Errors
/// A kind that the equation does not have.
pub fn with_absorber(equation: &'static dyn Equation, absorber: Absorber) -> Result<&'static dyn Equation> {
    let same =
        || EQUATIONS.into_iter().chain(WITH_OTHER_LAYER).filter(|other| other.name() == equation.name());
    same().find(|other| other.absorber() == absorber).ok_or_else(|| {
        let accepted: Vec<_> = same().map(|other| other.absorber().name()).collect();
        let accepted = format!("{} for {}", accepted.join(", "), equation.name());
        Error::argument("absorbing_layer", absorber.name(), accepted)
    })
}
