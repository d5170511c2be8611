//! The acoustic equation of first order, pressure `p` and particle velocity `(u, v, w)`:
//!
//! ```text
//! du/dt = -1/rho dp/dx    dv/dt = -1/rho dp/dy    dw/dt = -1/rho dp/dz
//! dp/dt = -rho vp² (du/dx + dv/dy + dw/dz)
//! ```
//!
//! `p[i]` is at cell `i`, `u[i]` half a cell after it in x, `v[i]` in y, `w[i]` in z. A step is one pass over the grid with most
//! velocities eliminated, `one_pass`; or, if the plan says so, two sweeps: all velocities from the pressure, then the
//! pressure from them. The pressure is whole everywhere; a part of it that an absorbing layer damps along an axis is kept
//! beside it, in that layer only.
//!
//! **Order of operations** of two sweeps, the same on every device, `fma(x, y, z) = x y + z` rounded once; that of one pass
//! is told there:
//!
//! ```text
//! slope    s = c0 (f[1]-f[0]);  s = fma(c_m, f[1+m]-f[-m], s) for m = 1, 2, 3
//! velocity u = fma(-(rate b), s, keep u)
//! pressure along x, then y, then z:
//!   undamped  p = fma(-(kappa rate), s, p)
//!   damped    d = fma(loss, part, -((kappa rate) s));  part = part + d;  p = p + d
//! ```
//!
//! with `b = 1/rho`, `kappa = (rho vp) vp`, `rate = a dt/h`, `keep = b` and `loss = b - 1` of the
//! axis's profile. A processor without fused multiply-add rounds twice instead, and its records
//! differ in the last bits.

mod autotuner;
mod blown;
mod coefficients;
pub mod cuda;
mod fields;
mod form;
mod isa;
pub mod kernel;
mod layout;
pub mod one_pass;
mod pressure;
mod record;
mod rows;
mod run;
mod source;
mod steps;
mod two_sweeps;
mod velocity;

pub use coefficients::{Coefficients, Moduli};
pub use form::Form;
pub use layout::Layout;
pub use record::Record;
pub use run::run;
