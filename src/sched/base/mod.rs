//! Plain data of tasks and the numbers that tune the scheduler.
//!
//! | file | contents |
//! |---|---|
//! | `sync.rs` | mutexes and atomics; those of loom under `cfg(loom)` |
//! | `fork.rs` | the process in which a scheduler was created |
//! | `policy.rs` | the tuning numbers |
//! | `reservation.rs` | a lease between processes, held for a task |
//! | `task.rs` | task, job, execution context, stop signal and outcome |
//! | `registry.rs` | generational table; packing of task ids |

pub mod fork;
pub mod policy;
pub mod registry;
pub mod reservation;
pub mod sync;
pub mod task;
