//! Threads: the workers, the timer, and what they do around the planner lock.

mod apply_effects;
mod peer_leases;
pub mod peers;
mod run_light;
pub mod shared;
pub mod waiting;
pub mod worker;
pub mod worker_local;
pub mod worker_pool;

pub use peer_leases::LightLease;
pub use peers::{FoundDevice, Peers};
pub use run_light::{may_run_light, run_light, take_light};
pub use shared::{PlannerGuarded, Runtime, log_all};
pub use waiting::block_outside;
pub use worker::run_worker;
pub(crate) use worker_local::leave_thread;
pub use worker_local::{WorkerLocal, catch_panic, current_task_worker, with_device_fault};
pub use worker_pool::{DEFAULT_STACK, STACKS, WorkerPool};
