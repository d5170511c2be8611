//! The host as a device: the fallback where there is no card, and the reference.

mod team;

pub use team::{Member, Team};
