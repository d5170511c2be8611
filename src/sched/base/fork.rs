//! Notices that the process was forked: threads do not live on in a child.

use crate::backend::cpu::forks;
use crate::error::{Error, Result};

/// The process in which it was made.
#[derive(Debug, Clone, Copy)]
pub struct ProcessMark(u64);

impl ProcessMark {
    pub fn here() -> Self {
        ProcessMark(forks())
    }

    pub fn is_here(self) -> bool {
        self.0 == forks()
    }

    pub fn check(self) -> Result<()> {
        if self.is_here() { Ok(()) } else { Err(Error::Forked) }
    }
}
