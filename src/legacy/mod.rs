//! Entry points of the old packages, with the peculiarities that their callers rely on.
//!
//! `docs/legacy.md` lists the differences from the old functions, and describes how to switch an
//! old package to this library.

mod acoustic1;
mod acoustic2;
mod args;
mod call;
mod calls;
mod claims;
mod device;
mod files;
mod function;
mod messages;
mod run;
mod step_source;
mod tti;
mod vti;

pub use acoustic1::ACOUSTIC1;
pub use acoustic2::ACOUSTIC2;
pub use args::Args;
pub use function::Function;
pub use tti::TTI;
pub use vti::VTI;
