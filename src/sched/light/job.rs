//! A light task's code: boxed, or so small that nothing has to be allocated for it. To allocate and to
//! free, on another thread, costs as much as the rest of a submit.

use crate::error::Result;
use crate::sched::base::task::{Exec, Job};

pub enum Code {
    Boxed(Box<dyn Job>),
    Bare(Bare),
}

/// Four words, and what is to be done with them.
pub struct Bare {
    words: [usize; 4],
    kind: &'static Kind,
}

/// What the words of a [`Bare`] mean. `drop` is called once, after the last `run`.
pub struct Kind {
    pub run: fn([usize; 4], &Exec<'_>) -> Result<()>,
    pub drop: fn([usize; 4]),
}

impl Bare {
    pub fn new(words: [usize; 4], kind: &'static Kind) -> Self {
        Bare { words, kind }
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        (self.kind.drop)(self.words)
    }
}

impl Job for Code {
    fn run(&self, exec: &Exec<'_>) -> Result<()> {
        match self {
            Code::Boxed(job) => job.run(exec),
            Code::Bare(bare) => (bare.kind.run)(bare.words, exec),
        }
    }
}
