//! Who has leased how many bytes of which device.

mod ledger;

pub use ledger::{Lease, Ledger};
