//! Threads: the workers, the timer, and what they do around the planner lock.

mod apply_effects;
pub mod observability;
mod peer_leases;
pub mod peers;
mod promotion;
mod run_light;
mod run_planned;
pub mod shared;
mod timer;
pub mod waiting;
pub mod worker;
pub mod worker_local;
pub mod worker_pool;
