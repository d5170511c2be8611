//! Leases by open-file-description locks, which are Linux's.
//!
//! | file | what it is |
//! |---|---|
//! | `layout` | the file, byte by byte; whatever is in it is believed only where it is sound |
//! | `folder` | which folder, and whether it will do |
//! | `door` | the locks: who lives, and who is inside |
//! | `book` | what a member is to have written down |
//! | `sitting` | a record of the file, and the lock that says that its member lives |
//! | `member` | what a member knows, and which of its threads may read and write |
//! | `leases` | what the scheduler calls |
//! | `ear` | sleeping until something has changed |
//! | `sys` | system calls; what a forked child must not keep open |

mod book;
mod door;
mod ear;
mod folder;
mod layout;
mod leases;
mod member;
mod sitting;
mod sys;

pub use leases::{Hold, Inside, Node};
pub use sys::watch_forks;
