//! The progress notifier: calls a listener at intervals, on a thread that exists while there is
//! one.
//!
//! Only that thread calls the listener, so two calls never run at once; it holds no lock meanwhile.
//! A thread that replaces the listener waits until a call of the previous one has returned, unless
//! it replaces it inside that call.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::backend::thread::{join, spawn};
use crate::error::{Error, Result};
use crate::sched::base::lock;

/// A function that the notifier calls.
pub type ProgressListener = Arc<dyn Fn() + Send + Sync>;

thread_local! {
    /// The notifier whose thread this is. It is readable even after the thread's other locals are
    /// dropped, unlike the thread's name.
    static CURRENT: Cell<*const ProgressNotifier> = const { Cell::new(std::ptr::null()) };
}

#[derive(Default)]
pub struct ProgressNotifier {
    state: Mutex<NotifierState>,
    /// Notified at every change of the state.
    changed: Condvar,
}

#[derive(Default)]
struct NotifierState {
    listener: Option<(ProgressListener, Duration)>,
    /// Counts the changes of the listener.
    version: u64,
    /// The version of the listener that is being called.
    calling: Option<u64>,
    /// The thread runs.
    running: bool,
    handle: Option<JoinHandle<()>>,
    /// No listener is accepted or called again.
    stopped: bool,
}

impl ProgressNotifier {
    /// Sets a listener and its interval, after which it is called first; `None` removes it. When
    /// this returns, the previous listener is not running (unless it is the caller) and is not
    /// called again. Returns the version of the change. Fails after [`ProgressNotifier::stop`].
    pub fn set(self: &Arc<Self>, listener: Option<(ProgressListener, Duration)>) -> Result<u64> {
        self.set_locked(listener, lock(&self.state))
    }

    /// Removes the listener of a version, as [`ProgressNotifier::set`] does; does nothing if it has
    /// been replaced.
    pub fn remove(self: &Arc<Self>, version: u64) {
        let state = lock(&self.state);
        if state.version == version {
            // Only starting a thread can fail.
            let _ = self.set_locked(None, state);
        }
    }

    // The last argument is dropped first: a listener that is refused, without the lock.
    fn set_locked(
        self: &Arc<Self>,
        listener: Option<(ProgressListener, Duration)>,
        mut state: MutexGuard<'_, NotifierState>,
    ) -> Result<u64> {
        if listener.is_some() && state.stopped {
            return Err(Error::Shutdown { what: "setting a progress callback" });
        }
        if listener.is_some() && !state.running {
            let notifier = self.clone();
            let thread = spawn("gpusched progress".into(), None, move || notifier.run());
            let thread = thread
                .map_err(|error| Error::NoThread { purpose: "to report progress", why: error.to_string() })?;
            state.running = true;
            state.handle = Some(thread);
        }
        let previous = std::mem::replace(&mut state.listener, listener);
        state.version += 1;
        let version = state.version;
        self.changed.notify_all();
        if !self.is_inside() {
            while state.calling.is_some_and(|called| called < version) {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        drop(state);
        // Without the lock: dropping it is the caller's code.
        drop(previous);
        Ok(version)
    }

    /// Returns true on the thread of the notifier.
    pub fn is_inside(&self) -> bool {
        std::ptr::eq(CURRENT.get(), self)
    }

    /// Removes the listener for good and ends the thread.
    pub fn stop(self: &Arc<Self>) {
        lock(&self.state).stopped = true;
        // Only starting a thread can fail.
        let _ = self.set(None);
        if self.is_inside() {
            return;
        }
        let handle = lock(&self.state).handle.take();
        if let Some(handle) = handle {
            join(handle);
        }
    }

    fn run(&self) {
        CURRENT.set(self);
        let mut state = lock(&self.state);
        while let Some((_, every)) = state.listener {
            let version = state.version;
            let waited = self.changed.wait_timeout_while(state, every, |state| state.version == version);
            let (held, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            state = held;
            let Some((listener, _)) = state.listener.clone().filter(|_| waited.timed_out()) else { continue };
            state.calling = Some(version);
            drop(state);
            let returned = catch_unwind(AssertUnwindSafe(|| listener())).is_ok();
            // This may be the last reference, and dropping it is the caller's code like the call.
            let dropped = catch_unwind(AssertUnwindSafe(|| drop(listener))).is_ok();
            if !(returned && dropped) {
                log::error!("a progress callback panicked and is not called again");
                let mut state = lock(&self.state);
                let failed = (state.version == version).then(|| state.listener.take());
                drop(state);
                let _ = catch_unwind(AssertUnwindSafe(|| drop(failed)));
            }
            state = lock(&self.state);
            state.calling = None;
            self.changed.notify_all();
        }
        state.running = false;
        self.changed.notify_all();
        CURRENT.set(std::ptr::null());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    const SOON: Duration = Duration::from_millis(1);
    /// Longer than any step of a test takes on a busy machine.
    const LONG: Duration = Duration::from_secs(20);

    fn set(notifier: &Arc<ProgressNotifier>, listener: impl Fn() + Send + Sync + 'static) {
        notifier.set(Some((Arc::new(listener), SOON))).unwrap();
    }

    #[test]
    fn removing_a_listener_waits_for_its_running_call() {
        let notifier = Arc::new(ProgressNotifier::default());
        let returned = Arc::new(AtomicBool::new(false));
        let (sender, receiver) = channel();
        let flag = returned.clone();
        set(&notifier, move || {
            flag.store(false, Ordering::SeqCst);
            let _ = sender.send(());
            thread::sleep(50 * SOON);
            flag.store(true, Ordering::SeqCst);
        });
        receiver.recv_timeout(LONG).unwrap();
        notifier.set(None).unwrap();
        assert!(returned.load(Ordering::SeqCst));
    }

    #[test]
    fn listener_may_be_replaced_and_removed_from_inside() {
        let notifier = Arc::new(ProgressNotifier::default());
        let (sender, receiver) = channel();
        let inside = Arc::downgrade(&notifier);
        set(&notifier, move || {
            let notifier = inside.upgrade().unwrap();
            assert!(notifier.is_inside());
            let (sender, inside) = (sender.clone(), inside.clone());
            set(&notifier, move || {
                inside.upgrade().unwrap().set(None).unwrap();
                sender.send(()).unwrap();
            });
        });
        receiver.recv_timeout(LONG).unwrap();
        assert!(receiver.recv_timeout(20 * SOON).is_err());
        notifier.stop();
    }

    #[test]
    fn setting_a_listener_does_not_delay_a_stop() {
        for _ in 0..100 {
            let notifier = Arc::new(ProgressNotifier::default());
            let other = notifier.clone();
            let setter = thread::spawn(move || while other.set(Some((Arc::new(|| ()), LONG))).is_ok() {});
            thread::yield_now();
            let (sender, receiver) = channel();
            thread::spawn(move || {
                notifier.stop();
                let _ = sender.send(());
            });
            receiver.recv_timeout(LONG).expect("the notifier stops while another thread sets listeners");
            setter.join().unwrap();
        }
    }
}
