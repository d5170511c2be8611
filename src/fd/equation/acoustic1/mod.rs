//! The acoustic equation of first order, pressure `p` and particle velocity `(u, v, w)`:
//!
//! ```text
//! du/dt = -1/rho dp/dx    dv/dt = -1/rho dp/dy    dw/dt = -1/rho dp/dz
//! dp/dt = -rho vp² (du/dx + dv/dy + dw/dz)
//! ```
//!
//! `p[i]` is at cell `i`, `u[i]` half a cell after it in x, `v[i]` in y, `w[i]` in z. A step is one pass over the grid,
//! which eliminates the velocities outside the absorbing layers: `cpu/pass.rs` has the order of operations. The pressure is
//! whole everywhere; a layer also stores the split pressure that it damps along its axis.

mod coefficients;
pub mod cpu;
pub mod cuda;
mod describe;
#[cfg(test)]
mod tests;

pub use coefficients::{Coefficients, Moduli};

use crate::backend::cpu::Team;
use crate::error::Result;
use crate::fd::control::Control;
use crate::fd::survey::{Effort, Gather, Shot};
use crate::fd::time_loop;

/// Runs a shot that fits the coefficients' grid on the CPU.
pub fn run(c: &Coefficients, shot: &Shot, team: &Team, control: &dyn Control) -> Result<(Gather, Effort)> {
    let layout = &c.layout;
    let own = cpu::Fields::bytes(layout).saturating_add(cpu::threads_bytes(c, team.threads()));
    time_loop::cpu::check_memory(layout, shot, own)?;
    let geometry = cpu::Geometry::new(c, team.threads());
    let mut fields = cpu::Fields::new(layout, &geometry)?;
    let tuner = cpu::TileTuner::new(c, &geometry, team.threads(), control);
    let steps = cpu::OnePass::new(c, &geometry, shot, &mut fields).tuned(&tuner);
    let done = time_loop::cpu::run(layout, shot, &steps, team, control);
    tuner.report(control);
    done
}
