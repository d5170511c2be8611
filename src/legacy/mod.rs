//! The old packages' entry points, with the oddities that their callers rely on.

mod acoustic1;

pub use acoustic1::{Args, acoustic1};
