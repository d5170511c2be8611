//! The C ABI: the only floor that knows C.
//!
//! `include/gpusched.h` is generated from these files by `tests/it/header.rs`; its rules, which hold
//! for every function, stand once at its top (`cbindgen.toml`). In short:
//!
//! - a function's body is one call of `guard`, which turns errors and panics into a status;
//! - what comes in goes through `input`, which believes nothing;
//! - what a caller holds is a token of `handle`, never an address of ours.

#![allow(non_camel_case_types, reason = "they are named as C names them")]
#![allow(clippy::missing_safety_doc, reason = "what a caller has to keep to stands at the top of the header")]
#![allow(clippy::too_many_arguments, reason = "the old entry point's list is as long as it is")]

mod device;
mod fd_model;
mod fd_shot;
mod fork;
mod handle;
mod input;
mod landing;
mod leased;
mod legacy;
pub mod logging;
mod range;
mod running;
mod scheduler;
mod seeing;
mod status;
mod task;
mod task_run;

pub use device::*;
pub use fd_model::*;
pub use fd_shot::*;
pub use leased::*;
pub use legacy::*;
pub use logging::*;
pub use range::*;
pub use scheduler::*;
pub use seeing::*;
pub use status::*;
pub use task::*;
pub use task_run::*;
