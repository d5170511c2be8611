//! What the processes of one user on one node share: slots of devices and memory on them, leased so that
//! no two begin on one slot, first come, first served within a priority.
//!
//! There is no daemon. A scheduler that joins, a *member*, opens one small file in a folder of the user and
//! locks one byte of it for as long as it lives; its record in the file says what it holds and what it waits
//! for. The kernel drops the lock with the process, however that ends, and a record without its lock is
//! nobody's: so all that a process has leased vanishes with it. Who reads or changes the file goes through a
//! *door*, a lock that is held for microseconds. Who waits sleeps until the file changes (inotify).
//!
//! The folder is the first of: what the caller names, `GPUSCHED_LEASE_DIR` (`none`: no leases),
//! `$XDG_RUNTIME_DIR/gpusched`, `<temp dir>/gpusched-<uid>`. It has to be a folder, no link, of the user's own that nobody
//! else may write to, on no network file system. One that was named is an error if it is not; of the others the next is taken.
//!
//! Nothing here starts or stops tasks. Members look (`Inside::outlook`) and keep to what they see; who holds
//! more than it may takes it from others, so the folder is of one user.
//!
//! | file | what it is |
//! |---|---|
//! | `line` | who is before whom, and what that leaves: pure functions |
//! | `linux` | the file, its locks, and those who share it |
//! | `elsewhere` | where there are no such locks: nothing is shared |

#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
mod line;

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;

#[cfg(not(target_os = "linux"))]
pub use elsewhere::{Hold, Inside, Node, watch_forks};
pub use line::Outlook;
#[cfg(target_os = "linux")]
pub use linux::{Hold, Inside, Node, watch_forks};

/// A device that is shared with others, as the scheduler that joins sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device<'a> {
    /// What it is called on this node, by everybody: 1 to 95 printable ASCII characters.
    pub uuid: &'a str,
    /// How many tasks may run on it at a time, those of all members together, as this member will have it. At most 65535.
    pub slots: u32,
}

/// What a member waits for: to begin one task, on one of these devices.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Want {
    /// Higher ones are first.
    pub priority: i32,
    /// By the scheduler's device index: what the task costs there, in a unit that is common to all
    /// processes (work over the device's bandwidth). `None`, or beyond the end: not there.
    pub costs: Vec<Option<f64>>,
    /// By device index: bytes that it would reserve there.
    pub bytes: Vec<u64>,
}

/// Why a wait has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// Another member has changed something or is gone, or it is time to look again.
    Changed,
    /// The time was up.
    Timeout,
    /// Somebody has called `wake`.
    Woken,
}
