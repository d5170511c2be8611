//! Plain data of tasks and the numbers that tune the scheduler.
//!
//! | file | contents |
//! |---|---|
//! | `sync.rs` | mutexes and atomics; those of loom under `cfg(loom)` |
//! | `policy.rs` | the tuning numbers |
//! | `clock.rs` | time of a scheduler |
//! | `rank.rs` | order of ready tasks |
//! | `reservation.rs` | a lease between processes, held for a task |
//! | `task_id.rs` | identity of a task |
//! | `device_mask.rs` | set of devices |
//! | `outcome.rs` | status, figures and outcome of a task |
//! | `signal.rs` | stop requests, commit and progress of a task |
//! | `exec.rs` | job, and the context in which it is called |
//! | `task.rs` | task as callers describe it |
//! | `registry.rs` | generational table; packing of task ids |

pub mod clock;
pub mod device_mask;
pub mod exec;
pub mod outcome;
pub mod policy;
pub mod rank;
pub mod registry;
pub mod reservation;
pub mod signal;
pub mod sync;
pub mod task;
pub mod task_id;
