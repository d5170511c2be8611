//! Notices that the process was forked: threads do not live on in a child.

use crate::error::{Error, Result};

/// The process in which it was made.
#[derive(Debug, Clone, Copy)]
pub struct Birthplace(u32);

impl Birthplace {
    pub fn here() -> Self {
        Birthplace(std::process::id())
    }

    pub fn is_here(self) -> bool {
        self.0 == std::process::id()
    }

    pub fn check(self) -> Result<()> {
        if self.is_here() { Ok(()) } else { Err(Error::Forked) }
    }
}
