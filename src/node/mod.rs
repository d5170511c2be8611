//! Leases of GPU slots and memory between the processes of one user on one node. No two processes
//! begin on one slot; waiters are served first come, first served within a priority.
//!
//! No daemon is needed. Each scheduler joins as a *member*: it opens one small file, the *shared
//! table*, in a folder of the user and locks one byte of it for its lifetime. Its record in the
//! table lists the slots that it holds and the task that it waits to begin. The kernel drops the
//! lock when the process ends, however it ends, and a record without its lock counts as absent. So
//! the leases of a process vanish with it. A member locks the whole table for microseconds to read
//! or change it. A waiting member sleeps until inotify reports a write to the table.
//!
//! The folder is the first of: the caller's, `GPUSCHED_LEASE_DIR` (`none`: no leases),
//! `$XDG_RUNTIME_DIR/gpusched`, `$TMPDIR/gpusched-<uid>`, `/tmp/gpusched-<uid>`. It must be a folder
//! of the user, not a link, not writable by others and not on a network file system. A named folder
//! that fails this check is an error; of the default folders the next one is tried. A folder whose
//! table can't be joined is not left for the next one, unless its disk or quota is full: members may
//! use it.
//!
//! This module starts and stops no task. Members read the queue ([`LockedTable::availability`]) and
//! keep to it voluntarily; a member that takes more takes it from others, so the folder belongs to
//! one user.
//!
//! | file | contents |
//! |---|---|
//! | `request` | a scheduler's arguments: shared devices, requests for a slot, time limits |
//! | `queue` | order of the waiters and the resulting availability: pure functions |
//! | `linux` | the table, its locks, and the members |

mod linux;
mod queue;
mod request;

pub use linux::{LockedTable, Membership, SlotLease, install_fork_handlers};
pub use queue::DeviceAvailability;
pub use request::{NodePolicy, RequestedTask, SharedDevice, SlotRequest, WaitEnd};
