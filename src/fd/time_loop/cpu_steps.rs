//! The steps of a shot as its time loop on a team of threads calls them.

use crate::backend::cpu::{Rows, TeamMember};
use crate::error::Result;

/// A way to compute steps, which the members of a team share.
pub trait CpuSteps: Sync {
    /// The state that each member has for itself.
    type Own;

    fn own(&self) -> Result<Self::Own>;

    /// Computes a member's share of a step, with denormal numbers flushed. Begins and ends with all
    /// members. A member that has returned from it may read the pressure until it calls it again.
    fn step(&self, member: &TeamMember<'_>, own: &mut Self::Own, step: usize) -> Result<()>;

    /// Returns the pressure after a step.
    fn pressure(&self, step: usize) -> Rows<'_>;

    /// Tells that the fields are no longer at rest, before the first step.
    fn resumed(&self) {}

    /// Returns the share of the cells that the steps until now have computed.
    fn computed(&self) -> f64 {
        1.0
    }

    /// Returns the words for a padded cell in a message.
    fn describe_cell(&self, cell: [usize; 3]) -> String;

    /// Returns all fields that a step leaves to the next.
    fn fields(&self) -> Vec<Rows<'_>>;
}
