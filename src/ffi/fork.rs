//! Handlers of fork for a process with other threads inside the library. The child must not inherit
//! a lock whose owner does not exist there. So fork waits for the locks that calls share. Each is
//! held for moments, and never while the caller's code runs.

use std::any::Any;
use std::cell::RefCell;

use super::{logging, model_handle, run_control, scheduler_handle};
use crate::fork::ForkOnce;
use crate::sched::lock_default;

static INSTALL: ForkOnce = ForkOnce::new();

thread_local! {
    /// The locks held while this thread forks.
    static HELD: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

/// Installs the handlers of fork, on the first call into the library.
pub(super) fn install_handlers() {
    INSTALL.call_once(|| {
        // Registered first, so that fork takes its gate after these locks: a thread that holds one
        // of them never waits in vain for the gate.
        crate::node::install_fork_handlers();
        // SAFETY: the functions stay mapped, because the library is never unloaded, and they do not
        // unwind. If the system has no memory to register them, fork runs without handlers.
        unsafe {
            libc::pthread_atfork(Some(lock), Some(unlock), Some(unlock));
        }
    });
}

extern "C" fn lock() {
    INSTALL.set_done();
    let held: Vec<Box<dyn Any>> = vec![
        Box::new(logging::lock_start()),
        Box::new(scheduler_handle::SCHEDULERS.live()),
        Box::new(model_handle::MODELS.live()),
        Box::new(run_control::lock_frames()),
        Box::new(lock_default()),
    ];
    // A thread whose locals are destroyed has no place for the locks. They are released at once.
    let _ = HELD.try_with(|place| place.try_borrow_mut().map(|mut place| *place = held));
}

extern "C" fn unlock() {
    let _ = HELD.try_with(|place| place.try_borrow_mut().map(|mut place| place.clear()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fork::tests::fork_during;

    #[test]
    fn child_inherits_no_locked_lock() {
        install_handlers();
        for round in 0..5 {
            let hold = |pause: &dyn Fn()| {
                let held: Box<dyn Any> = match round {
                    0 => Box::new(scheduler_handle::SCHEDULERS.live()),
                    1 => Box::new(model_handle::MODELS.live()),
                    2 => Box::new(lock_default()),
                    3 => Box::new(logging::lock_start()),
                    _ => Box::new(run_control::lock_frames()),
                };
                pause();
                drop(held);
            };
            let status = fork_during(hold, || {
                drop((scheduler_handle::SCHEDULERS.live(), model_handle::MODELS.live()));
                drop((run_control::lock_frames(), lock_default(), logging::lock_start()));
            });
            assert_eq!(status, 0, "lock {round}");
        }
    }
}
