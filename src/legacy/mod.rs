//! The old packages' entry points, with the oddities that their callers rely on.
//!
//! `docs/legacy.md` tells what is kept, what is mended and how an old package is switched.

mod acoustic1;
mod calls;
mod claims;
mod device;
mod files;

pub use acoustic1::{Args, acoustic1};
