//! Schedules of other policies in simulated worlds, compared with ours.

pub mod compare;
pub mod greedy;
pub mod worlds;
