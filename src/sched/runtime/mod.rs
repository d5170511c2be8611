//! Threads: the workers, the timer, and what they do around the planner lock.
//!
//! | file | contents |
//! |---|---|
//! | `shared.rs` | state that all threads of a scheduler share |
//! | `apply_effects.rs` | applies what the planner returns, and publishes its state to the light tier |
//! | `light_ends.rs` | ends of light tasks |
//! | `peers.rs`, `peer_leases.rs` | leases between the processes of a node |
//! | `observability.rs`, `reporting.rs` | trace, rate store and progress of a scheduler |
//! | `worker_pool.rs` | starts, wakes and ends workers |
//! | `worker_local.rs` | state of one worker; runs jobs and catches panics |
//! | `worker.rs` | the loop of a worker |
//! | `run_planned.rs`, `run_light.rs` | run one task |
//! | `promotion.rs` | light tasks that continue in the planner |
//! | `timer.rs` | the thread that waits for the planner's next deadline, and that of callbacks |
//! | `waiting.rs` | waits inside tasks run other tasks meanwhile |

mod apply_effects;
mod light_ends;
pub mod observability;
mod peer_leases;
pub mod peers;
mod promotion;
mod reporting;
mod run_light;
mod run_planned;
pub mod shared;
mod timer;
pub mod waiting;
pub mod worker;
pub mod worker_local;
pub mod worker_pool;
