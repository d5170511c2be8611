//! The pseudo-acoustic equation of a tilted transversely isotropic medium, pressures `P` and `Q`, of first order:
//!
//! ```text
//! du/dt = -R_x P    dv/dt = -R_y P    dw/dt = -R_z Q
//! dP/dt = -vp² (E (R_x u + R_y v) + S R_z w)
//! dQ/dt = -vp² (S (R_x u + R_y v) + R_z w)
//! R_x = cos theta cos phi d/dx - cos theta sin phi d/dy - sin theta d/dz
//! R_y =           sin phi d/dx +           cos phi d/dy
//! R_z = sin theta cos phi d/dx - sin theta sin phi d/dy + cos theta d/dz
//! ```
//!
//! with `E = 1 + 2 epsilon` and `S = sqrt(1 + 2 delta)`. `R_z` is along the symmetry axis. Density does not enter. Derivatives of
//! the pressures are half a cell after their cell, each along its own axis; those of the fluxes half a cell before. The three
//! are added up as if they were at one place, which in tilted media is an error of first order in the spacing (oddity B15
//! of docs/legacy.md).
//!
//! `P = E h + S g` and `Q = S h + g` for all time, `h` the split pressures of `u` and `v`, `g` that of `w`. A step so computes the
//! fluxes of a cell and one increment each of `h` and `g`: `cpu/sweep.rs` has the order of operations. It eliminates `u` and
//! `v` outside the absorbing layers of their axes. It stores `w` everywhere, which takes the bandwidth of an increment of `g`
//! and needs no second form of `w` where the layers of z begin.

mod coefficients;
mod cpu;
mod cuda;

use self::coefficients::OldOperators;
use super::propagator::TiltedPropagator;

/// The equation with the old operators, with a time step.
pub type OldTtiPropagator = TiltedPropagator<4, OldOperators>;
