//! A light task's code: boxed, or so small that nothing has to be allocated for it. To allocate and to
//! free, on another thread, costs as much as the rest of a submit.

use crate::error::Result;
use crate::sched::base::exec::{Exec, Job};

pub enum LightJob {
    Boxed(Box<dyn Job>),
    Inline(InlineJob),
}

/// Four words, and what is to be done with them.
pub struct InlineJob {
    words: [usize; 4],
    kind: &'static InlineJobKind,
}

/// What the words of a [`InlineJob`] mean. `drop` is called once, after the last `run`.
pub struct InlineJobKind {
    pub run: fn([usize; 4], &Exec<'_>) -> Result<()>,
    pub drop: fn([usize; 4]),
}

impl InlineJob {
    pub fn new(words: [usize; 4], kind: &'static InlineJobKind) -> Self {
        InlineJob { words, kind }
    }
}

impl Drop for InlineJob {
    fn drop(&mut self) {
        (self.kind.drop)(self.words)
    }
}

impl Job for LightJob {
    fn run(&self, exec: &Exec<'_>) -> Result<()> {
        match self {
            LightJob::Boxed(job) => job.run(exec),
            LightJob::Inline(bare) => (bare.kind.run)(bare.words, exec),
        }
    }
}
