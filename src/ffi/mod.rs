//! The C ABI: the only layer that knows C.
//!
//! `tests/it/header.rs` generates `include/gpusched.h` from these files. The rules that hold for
//! every function are at the top of the header (`cbindgen.toml`). In short:
//!
//! - a function's body is one call of `guard`, which turns errors and panics into a status;
//! - `input` checks every argument;
//! - a caller holds tokens of `handle`, never addresses of the library.

#![allow(non_camel_case_types, reason = "they are named as C names them")]
#![allow(clippy::missing_safety_doc, reason = "the top of the header has the rules for callers")]
#![allow(clippy::too_many_arguments, reason = "the old entry point's list is as long as it is")]

mod device;
mod device_memory;
mod fd_model;
mod fd_shot;
mod fd_submit;
mod fork;
mod guard;
mod handle;
mod input;
mod legacy;
mod log_callback;
pub mod logging;
mod model_handle;
mod observability;
mod range;
mod run_control;
mod scheduler;
mod scheduler_handle;
mod status;
mod submit;
mod task;
mod task_run;
mod trampoline;

pub use device::*;
pub use device_memory::*;
pub use fd_model::*;
pub use fd_shot::*;
pub use fd_submit::*;
pub use legacy::*;
pub use log_callback::*;
pub use model_handle::*;
pub use observability::*;
pub use range::*;
pub use run_control::*;
pub use scheduler::*;
pub use scheduler_handle::*;
pub use status::*;
pub use submit::*;
pub use task::*;
pub use task_run::*;
