//! The planner: all state of planned tasks and of devices. It is told the time, and knows no thread, clock or file.
//!
//! | file | contents |
//! |---|---|
//! | `record.rs` | records of tasks, attempts and devices |
//! | `ready_queue.rs` | ready tasks in the order of their rank |
//! | `observed.rs` | counters and the trace that the planner writes |
//! | `planner.rs` | submission, cancellation, ends, retirement of devices |
//! | `schedule.rs` | lays ready tasks out on the devices |
//! | `placement.rs` | assigns a task to a free slot |
//! | `speculation.rs` | second copies of slow tasks |
//! | `completion.rs` | what follows the end of an attempt |
//! | `device_health.rs` | fault counts of devices and tasks |
//! | `timers.rs` | deadlines, pauses and time-outs |
//! | `peer_load.rs` | load that other processes put on a device |
//! | `stats.rs`, `progress.rs`, `report.rs` | what callers may read |

pub mod completion;
pub mod device_health;
mod observed;
pub mod peer_load;
pub mod placement;
pub mod planner;
pub mod progress;
mod ready_queue;
pub mod record;
mod report;
mod schedule;
mod speculation;
pub mod stats;
#[cfg(test)]
mod tests;
mod timers;
