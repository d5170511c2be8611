//! Runs many independent jobs on the GPUs of a machine, or on its CPU.
//!
//! The layers, lowest first. A module imports only from modules above its own in this table;
//! `tests/it/layers.rs` checks that.
//!
//! | layer | contents |
//! |---|---|
//! | [`error`] | errors and their messages |
//! | [`fork`] | fork detection |
//! | [`descriptor`] | opens files on descriptors above the standard streams |
//! | `write_signals` | writes that raise no signal |
//! | [`device`] | identity, properties and selection of devices |
//! | [`memory`] | leases of device memory between tasks |
//! | [`node`] | leases of slots and memory between processes |
//! | [`store`] | measured rates and tuning results, kept between runs |
//! | [`backend`] | devices behind one trait |
//! | [`sched`] | scheduler: tasks, planner and workers |
//! | [`fd`] | finite differences: grids, models, shots, propagators |
//! | [`io`] | files that exist as a whole or not at all |
//! | [`legacy`] | entry points of the old packages |
//! | [`ffi`] | the C ABI |

#[cfg(not(target_os = "linux"))]
compile_error!("gpusched runs on Linux");

pub mod error;

pub mod fork;

pub mod descriptor;

mod write_signals;

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
