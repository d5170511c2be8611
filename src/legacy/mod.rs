//! The old packages' entry points, with the oddities that their callers rely on.
//!
//! `docs/legacy.md` tells what is kept, what is mended and how an old package is switched.

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
