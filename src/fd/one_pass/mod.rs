//! The step of equations with a split PML, in one pass over the grid. An equation adds a [`Policy`].
//!
//! The velocities are eliminated where nothing is damped; `pass.rs` has the order of operations. A file imports from
//! its own row and from rows above it:
//!
//! | row | contents |
//! | --- | --- |
//! | `coefficients` | rho, rho vp² and the profiles of the layers |
//! | `rows` | operations on rows of cells, a vector at a time |
//! | `tiles`, `partition` | tiles of several sizes |
//! | `geometry` | zones, tiles and tables of a plan |
//! | `fields` | the state of a running shot |
//! | `scratch` | buffers of a thread |
//! | `activity` | cells that the wave has reached |
//! | `tuning` | the fastest tile size |
//! | `source` | the source of a shot |
//! | `policy` | what an equation adds |
//! | `sweep` | pointers of a sweep through a tile |
//! | `prefetch` | rows that a sweep requests ahead |
//! | `flux_xy`, `flux_z` | fluxes and their terms along an axis |
//! | `update` | the pressures after a step |
//! | `pass` | a sweep through a tile |
//! | `steps` | the steps of a shot |
//! | `cuda` | the step on a GPU |

pub mod activity;
pub mod coefficients;
pub mod cuda;
pub mod fields;
mod flux_xy;
pub(crate) mod flux_z;
pub mod geometry;
pub mod partition;
mod pass;
pub mod policy;
mod prefetch;
pub(crate) mod rows;
mod scratch;
pub(crate) mod source;
pub mod steps;
mod sweep;
pub mod tiles;
pub mod tuning;
mod update;

use self::coefficients::Coefficients;
use self::fields::Fields;
use self::geometry::Geometry;
use self::policy::Policy;
use self::scratch::Scratch;
use self::steps::OnePass;
use self::tuning::TileTuner;
use crate::backend::cpu::Team;
use crate::error::Result;
use crate::fd::control::Control;
use crate::fd::survey::{Effort, Gather, Shot};
use crate::fd::time_loop;

/// Returns the bytes of the scratch of so many threads.
pub fn thread_bytes<P: Policy>(c: &Coefficients, threads: usize) -> u64 {
    // Tiles for more threads are shorter, and as wide.
    Scratch::<P>::bytes(&Geometry::new(c, 1), c.storage).saturating_mul(threads as u64)
}

/// Returns the bytes of the fields of a shot.
pub fn field_bytes<P: Policy>(c: &Coefficients) -> u64 {
    Fields::bytes(&c.layout, P::PRESSURES)
}

/// Runs a shot that fits the policy's grid.
pub fn run<P: Policy>(
    policy: &P,
    shot: &Shot,
    team: &Team,
    control: &dyn Control,
) -> Result<(Gather, Effort)> {
    let c = policy.coefficients();
    let layout = &c.layout;
    let own = field_bytes::<P>(c).saturating_add(thread_bytes::<P>(c, team.threads()));
    time_loop::cpu::check_memory(layout, shot, own)?;
    let geometry = Geometry::new(c, team.threads());
    let mut fields = Fields::new(layout, &geometry, P::PRESSURES)?;
    let density = if c.beside.is_none() { ", no density" } else { "" };
    let kind = format!("{}{density}", P::NAME);
    let tuner = TileTuner::new(&kind, layout, c.storage, &geometry.partition, team.threads(), control);
    let steps = OnePass::new(policy, &geometry, shot, &mut fields).tuned(&tuner);
    let done = time_loop::cpu::run(layout, shot, &steps, team, control);
    tuner.report(control);
    done
}
