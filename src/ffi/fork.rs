//! A process that forks while other threads are inside the library. Its child must not inherit a lock
//! whose owner is gone, so fork waits for the locks that calls share. Each is held for moments, and
//! never while the caller's code runs.

use std::any::Any;
use std::cell::RefCell;
use std::sync::Once;

use super::{model_handle, run_control, scheduler_handle};
use crate::sched::lock_default;

thread_local! {
    /// The locks held while this thread forks.
    static HELD: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

/// Installs the handlers of fork, on the first call into the library.
pub(super) fn install_handlers() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        // Registered first, so fork takes its gate after these locks: a thread that holds one never
        // waits for the gate in vain.
        crate::node::install_fork_handlers();
        #[cfg(unix)]
        // SAFETY: the functions stay mapped: the library is never unloaded. They do not unwind. A refusal,
        // when memory is short, leaves fork without handlers.
        unsafe {
            libc::pthread_atfork(Some(lock), Some(unlock), Some(unlock));
        }
    });
}

extern "C" fn lock() {
    let held: Vec<Box<dyn Any>> = vec![
        Box::new(scheduler_handle::SCHEDULERS.live()),
        Box::new(model_handle::MODELS.live()),
        Box::new(run_control::lock_frames()),
        Box::new(lock_default()),
    ];
    // A thread whose locals are destroyed has no place for them; they are released at once.
    let _ = HELD.try_with(|place| place.try_borrow_mut().map(|mut place| *place = held));
}

extern "C" fn unlock() {
    let _ = HELD.try_with(|place| place.try_borrow_mut().map(|mut place| place.clear()));
}

#[cfg(all(test, unix))]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    #[test]
    fn child_inherits_no_locked_lock() {
        install_handlers();
        for round in 0..4 {
            let (tell, told) = channel();
            let other = std::thread::spawn(move || {
                let held: Box<dyn Any> = match round {
                    0 => Box::new(scheduler_handle::SCHEDULERS.live()),
                    1 => Box::new(model_handle::MODELS.live()),
                    2 => Box::new(lock_default()),
                    _ => Box::new(run_control::lock_frames()),
                };
                tell.send(()).unwrap();
                std::thread::sleep(Duration::from_millis(50));
                drop(held);
            });
            told.recv().unwrap();
            // SAFETY: the child takes four locks and ends; one that is not free ends it by its alarm.
            let status = unsafe {
                let child = libc::fork();
                if child == 0 {
                    libc::alarm(20);
                    drop((scheduler_handle::SCHEDULERS.live(), model_handle::MODELS.live()));
                    drop((run_control::lock_frames(), lock_default()));
                    libc::_exit(0);
                }
                let mut status = -1;
                libc::waitpid(child, &mut status, 0);
                status
            };
            assert_eq!(status, 0, "lock {round}");
            other.join().unwrap();
        }
    }
}
