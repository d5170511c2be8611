//! State that the calls of one process share. A forked child gets its own: threads of the parent
//! may have held the locks of the inherited state, and do not exist in the child.

use std::sync::{Mutex, OnceLock};

use super::claims::Names;
use crate::backend::cuda;
use crate::error::{Error, Result};
use crate::fork::forks;
use crate::sched::Scheduler;

/// The calls of one process.
pub struct Calls {
    pub names: Mutex<Names>,
    /// Scheduler of a forked child whose parent has created the process's default scheduler.
    scheduler: OnceLock<Scheduler>,
}

impl Calls {
    const fn new() -> Calls {
        Calls { names: Mutex::new(Names::new()), scheduler: OnceLock::new() }
    }
}

/// State by generation: a process, its child, the child's child and so on.
static GENERATIONS: [Calls; 8] = [const { Calls::new() }; 8];

/// Returns the state of this process. Returns an error after more than seven forks.
pub fn here() -> Result<&'static Calls> {
    let generation = usize::try_from(forks()).unwrap_or(usize::MAX);
    GENERATIONS.get(generation).ok_or_else(|| {
        let accepted = format!(
            "at most {}: create the pool before the first call, or start its processes by spawn",
            GENERATIONS.len() - 1
        );
        Error::argument("the number of forks since the first call", generation, accepted)
    })
}

/// Returns the scheduler for the calls of a function: the process's default one. A forked child of
/// a process that has created it gets a scheduler of its own.
///
/// Returns an error in a forked child whose parent had found GPUs, or was searching for them, unless
/// `GPUSCHED_DEVICES` is `cpu`.
pub fn scheduler(function: &str) -> Result<&'static Scheduler> {
    if cuda::parent_uses_gpus() && std::env::var_os("GPUSCHED_DEVICES").is_none_or(|devices| devices != "cpu")
    {
        return Err(Error::NoDevice {
            what: format!("a call of {function} in a forked process"),
            why: "its parent had used or searched for GPUs when it was forked, and NVIDIA's driver does not survive that; \
                  create the pool before the first call, start its processes by spawn, or set GPUSCHED_DEVICES=cpu"
                .into(),
        });
    }
    match Scheduler::process_default() {
        Err(Error::Forked) => {}
        known => return known,
    }
    let own = &here()?.scheduler;
    match own.get() {
        Some(own) => Ok(own),
        // If two threads build one at the same time, one of the two is dropped.
        None => Scheduler::builder().build().map(|made| own.get_or_init(|| made)),
    }
}
