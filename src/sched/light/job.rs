//! The job of a light task.

use crate::error::Result;
use crate::sched::base::{Exec, Job};

/// The job of a light task: shared, or four words for which nothing is allocated. An allocation
/// that is freed on another thread costs as much as the rest of a submit.
pub enum LightJob {
    Shared(std::sync::Arc<dyn Job>),
    Inline(InlineJob),
}

/// A job of four words.
pub struct InlineJob {
    words: [usize; 4],
    kind: &'static InlineJobKind,
}

/// The functions of an [`InlineJob`]. `drop` is called once, after the last `run`; `None`: nothing
/// to drop.
pub struct InlineJobKind {
    pub run: fn([usize; 4], &Exec<'_>) -> Result<()>,
    pub drop: Option<fn([usize; 4])>,
}

impl InlineJob {
    pub fn new(words: [usize; 4], kind: &'static InlineJobKind) -> Self {
        InlineJob { words, kind }
    }
}

impl Drop for InlineJob {
    fn drop(&mut self) {
        if let Some(drop) = self.kind.drop {
            drop(self.words);
        }
    }
}

impl Job for LightJob {
    fn run(&self, exec: &Exec<'_>) -> Result<()> {
        match self {
            LightJob::Shared(job) => job.run(exec),
            LightJob::Inline(bare) => (bare.kind.run)(bare.words, exec),
        }
    }

    fn has_drop(&self) -> bool {
        match self {
            LightJob::Shared(job) => job.has_drop(),
            LightJob::Inline(bare) => bare.kind.drop.is_some(),
        }
    }
}
