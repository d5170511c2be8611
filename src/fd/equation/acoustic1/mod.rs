//! The acoustic equation of first order, pressure `p` and particle velocity `(u, v, w)`:
//!
//! ```text
//! du/dt = -1/rho dp/dx    dv/dt = -1/rho dp/dy    dw/dt = -1/rho dp/dz
//! dp/dt = -rho vp² (du/dx + dv/dy + dw/dz)
//! ```
//!
//! `p[i]` is at cell `i`, `u[i]` half a cell after it in x, `v[i]` in y, `w[i]` in z. A step is one pass over the grid,
//! which eliminates the velocities outside the absorbing layers: `one_pass` has the order of operations. The pressure is
//! whole everywhere; a layer also stores the split pressure that it damps along its axis.

mod autotuner;
mod blown;
mod coefficients;
pub mod cuda;
pub mod field_kernels;
mod isa;
pub mod kernel;
mod layout;
pub mod one_pass;
mod record;
mod run;
mod steps;

pub use coefficients::{Coefficients, Moduli};
pub use layout::Layout;
pub use record::Record;
pub use run::run;
