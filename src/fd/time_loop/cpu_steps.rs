//! Interface of a shot's steps to the time loop on a team of threads.

use crate::backend::cpu::{Rows, TeamMember};
use crate::error::Result;

/// Steps of a shot, shared by the members of a team.
pub trait CpuSteps: Sync {
    /// State of one member.
    type Own;

    fn own(&self) -> Result<Self::Own>;

    /// Computes a member's share of a step, with denormals flushed. All members call it for every
    /// step, and it ends with a barrier. A member that has returned may read the pressure until it
    /// calls it again.
    fn step(&self, member: &TeamMember<'_>, own: &mut Self::Own, step: usize) -> Result<()>;

    /// Returns the pressure after a step.
    fn pressure(&self, step: usize) -> Rows<'_>;

    /// Marks the fields as not at rest. Called before the first step of a resumed shot.
    fn resumed(&self) {}

    /// Returns the share of the cells that the steps so far have computed.
    fn computed(&self) -> f64 {
        1.0
    }

    /// Returns the words for a padded cell in a message.
    fn describe_cell(&self, cell: [usize; 3]) -> String;

    /// Returns all fields that a step passes to the next.
    fn fields(&self) -> Vec<Rows<'_>>;
}
