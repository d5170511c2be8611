//! What the calls of one process share. A child that was forked begins anew: of what it has inherited nothing is
//! touched, since threads of its parent may have held the locks and are not here to open them.

use std::sync::{Mutex, OnceLock};

use super::claims::Names;
use crate::backend::cuda;
use crate::error::{Error, Result};
use crate::fork::forks;
use crate::sched::Scheduler;

/// The calls of one process.
pub struct Calls {
    pub names: Mutex<Names>,
    /// Where the process's own is that of a parent.
    scheduler: OnceLock<Scheduler>,
}

impl Calls {
    const fn new() -> Calls {
        Calls { names: Mutex::new(Names::new()), scheduler: OnceLock::new() }
    }
}

/// A process, its child, the child's child and so on.
static GENERATIONS: [Calls; 8] = [const { Calls::new() }; 8];

/// Those of this process.
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

/// Returns the scheduler for calls of a function: the process's, and in a child of a process that has one, one of the
/// child's own.
pub fn scheduler(function: &str) -> Result<&'static Scheduler> {
    if cuda::parent_found_gpus()
        && std::env::var_os("GPUSCHED_DEVICES").is_none_or(|devices| devices != "cpu")
    {
        return Err(Error::NoDevice {
            what: format!("a call of {function} in a forked process"),
            why: "its parent had used GPUs when it was forked, and NVIDIA's driver does not survive that; create the \
                  pool before the first call, start its processes by spawn, or set GPUSCHED_DEVICES=cpu"
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
        // Of two that come at once, one is dropped.
        None => Scheduler::builder().build().map(|made| own.get_or_init(|| made)),
    }
}
