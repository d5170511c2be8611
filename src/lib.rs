//! Runs many independent GPU jobs on whatever cards a machine has.
//!
//! The map, from the ground up. A module uses only what stands above it here;
//! `tests/it/layers.rs` keeps this.
//!
//! | layer | what it is |
//! |---|---|
//! | [`error`] | every failure, in words |
//! | [`fork`] | notices that the process was forked |
//! | [`descriptor`] | opens files on descriptors above the standard streams |
//! | [`device`] | identity, properties and selection of devices: plain data |
//! | [`memory`] | who has leased how many bytes of which device |
//! | [`node`] | what processes of one user share: leases of slots and memory |
//! | [`store`] | rates of devices, and findings of tasks, kept between runs |
//! | [`backend`] | the devices themselves, behind one trait |
//! | [`sched`] | tasks, and the workers that run them |
//! | [`fd`] | finite differences: grids, models, shots, propagators |
//! | [`io`] | files, whole or absent |
//! | [`legacy`] | the old packages' entry points |
//! | [`ffi`] | the C ABI |

pub mod error;

pub mod fork;

pub mod descriptor;

pub mod device;
pub mod memory;
pub mod node;
pub mod store;

pub mod backend;
pub mod sched;

pub mod fd;
pub mod io;
pub mod legacy;

pub mod ffi;

pub use error::{Error, Result};
