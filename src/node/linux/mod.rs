//! Leases by locks of open file descriptions, which only Linux has.
//!
//! | file | contents |
//! |---|---|
//! | `sys` | system calls; descriptors that a forked child must not keep |
//! | `layout` | the table, byte by byte; every number is checked before it is used |
//! | `folder` | choice and checks of the folder |
//! | `file_lock` | the locks: one per living member, one for the whole table |
//! | `listener` | sleeping until the table changes |
//! | `session` | a record of the table, held while the file exists |
//! | `own_record` | the member's record as it should be in the table |
//! | `member` | state of a member, shared by the threads of its process |
//! | `leases` | the interface to the scheduler |

mod file_lock;
mod folder;
mod layout;
mod leases;
mod listener;
mod member;
mod own_record;
mod session;
mod sys;

pub use leases::{LockedTable, Membership, SlotLease};
pub use sys::install_fork_handlers;
