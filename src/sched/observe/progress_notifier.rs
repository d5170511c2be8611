//! Tells progress now and then, from a thread of its own that lives as long as somebody listens.
//!
//! Only that thread calls the listener, so never two calls run at once; it holds no lock while it
//! calls. Who changes the listener waits until a call of the earlier one has returned, unless the
//! change comes from inside that call.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::backend::thread::{is_this, spawn};
use crate::error::{Error, Result};

/// Called with whatever there is to tell.
pub type Listener = Arc<dyn Fn() + Send + Sync>;

thread_local! {
    /// Whose thread this is. It can be asked where the thread's other locals are gone, as its own name can't.
    static TELLING: Cell<*const ProgressNotifier> = const { Cell::new(std::ptr::null()) };
}

#[derive(Default)]
pub struct ProgressNotifier {
    state: Mutex<NotifierState>,
    /// Rung at every change of the state.
    changed: Condvar,
}

#[derive(Default)]
struct NotifierState {
    listener: Option<(Listener, Duration)>,
    /// How often the listener was changed.
    version: u64,
    /// The version that is being called.
    calling: Option<u64>,
    /// There is a thread that tells.
    there: bool,
    handle: Option<JoinHandle<()>>,
    /// It was stopped: nothing is told any more.
    over: bool,
}

impl ProgressNotifier {
    /// Calls `listener` every so often from now on, first after that time; `None` calls nobody. What was called before is not
    /// called again, and is not running any more unless this is called from inside it. Refused after [`ProgressNotifier::stop`].
    pub fn set(self: &Arc<Self>, listener: Option<(Listener, Duration)>) -> Result<()> {
        let mut state = self.lock();
        if listener.is_some() && state.over {
            return Err(Error::Shutdown { what: "setting a progress callback" });
        }
        if listener.is_some() && !state.there {
            let teller = self.clone();
            let thread = spawn("gpusched progress".into(), None, move || teller.work());
            let thread = thread
                .map_err(|error| Error::NoThread { purpose: "to tell progress", why: error.to_string() })?;
            state.there = true;
            state.handle = Some(thread);
        }
        let earlier = std::mem::replace(&mut state.listener, listener);
        state.version += 1;
        let version = state.version;
        self.changed.notify_all();
        if !self.is_inside() {
            while state.calling.is_some_and(|called| called < version) {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        drop(state);
        // The caller's, whose drop may do anything.
        drop(earlier);
        Ok(())
    }

    /// Whether the calling thread is the one that tells.
    pub fn is_inside(&self) -> bool {
        std::ptr::eq(TELLING.get(), self)
    }

    /// Calls nobody any more, and ends the thread.
    pub fn stop(self: &Arc<Self>) {
        self.lock().over = true;
        // Only to begin a thread can fail.
        let _ = self.set(None);
        if self.is_inside() {
            return;
        }
        let mut state = self.lock();
        let handle = state.handle.take();
        drop(state);
        if let Some(handle) = handle
            && !is_this(&handle)
        {
            let _ = handle.join();
        }
    }

    fn work(&self) {
        TELLING.set(self);
        let mut state = self.lock();
        // When the next call of which version is due.
        let mut next: Option<(u64, Option<Instant>)> = None;
        while let Some((listener, every)) = state.listener.clone() {
            let version = state.version;
            let due = match next {
                Some((same, due)) if same == version => due,
                _ => Instant::now().checked_add(every),
            };
            next = Some((version, due));
            let left = due.map(|due| due.saturating_duration_since(Instant::now()));
            match left {
                None => {
                    drop(listener);
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
                Some(left) if !left.is_zero() => {
                    drop(listener);
                    state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
                    continue;
                }
                Some(_) => {}
            }
            state.calling = Some(version);
            drop(state);
            let sound = catch_unwind(AssertUnwindSafe(|| listener())).is_ok();
            // It may be the last that holds it, and is the caller's like the call.
            let dropped = catch_unwind(AssertUnwindSafe(|| drop(listener))).is_ok();
            if !(sound && dropped) {
                log::error!("a progress callback panicked, and is not called again");
            }
            next = Some((version, Instant::now().checked_add(every)));
            state = self.lock();
            state.calling = None;
            if !(sound && dropped) && state.version == version {
                state.listener = None;
            }
            self.changed.notify_all();
        }
        state.there = false;
        self.changed.notify_all();
        TELLING.set(std::ptr::null());
    }

    fn lock(&self) -> MutexGuard<'_, NotifierState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    const SOON: Duration = Duration::from_millis(1);
    /// Longer than anything here takes on a busy machine.
    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn it_is_told_again_and_again_until_it_is_not() {
        let teller = Arc::new(ProgressNotifier::default());
        let count = Arc::new(AtomicU64::new(0));
        let (tell, told) = channel();
        let counted = count.clone();
        let listener: Listener = Arc::new(move || {
            counted.fetch_add(1, Ordering::SeqCst);
            let _ = tell.send(());
        });
        teller.set(Some((listener, SOON))).unwrap();
        for _ in 0..5 {
            told.recv_timeout(LONG).unwrap();
        }
        teller.set(None).unwrap();
        let after = count.load(Ordering::SeqCst);
        thread::sleep(20 * SOON);
        assert_eq!(count.load(Ordering::SeqCst), after);
        // A new one starts the thread again.
        let (tell, told) = channel();
        teller
            .set(Some((
                Arc::new(move || {
                    let _ = tell.send(());
                }),
                SOON,
            )))
            .unwrap();
        told.recv_timeout(LONG).unwrap();
        teller.stop();
        assert!(teller.lock().handle.is_none());
    }

    #[test]
    fn whoever_unsets_it_waits_for_the_call_that_runs() {
        let teller = Arc::new(ProgressNotifier::default());
        let returned = Arc::new(AtomicBool::new(false));
        let (tell, told) = channel();
        let flag = returned.clone();
        let listener: Listener = Arc::new(move || {
            flag.store(false, Ordering::SeqCst);
            let _ = tell.send(());
            thread::sleep(50 * SOON);
            flag.store(true, Ordering::SeqCst);
        });
        teller.set(Some((listener, SOON))).unwrap();
        told.recv_timeout(LONG).unwrap();
        teller.set(None).unwrap();
        assert!(returned.load(Ordering::SeqCst));
    }

    #[test]
    fn it_may_be_changed_and_unset_from_inside() {
        let teller = Arc::new(ProgressNotifier::default());
        let (tell, told) = channel();
        let inside = Arc::downgrade(&teller);
        let listener: Listener = Arc::new(move || {
            let teller = inside.upgrade().unwrap();
            assert!(teller.is_inside());
            let (tell, inside) = (tell.clone(), inside.clone());
            let second: Listener = Arc::new(move || {
                inside.upgrade().unwrap().set(None).unwrap();
                tell.send(()).unwrap();
            });
            teller.set(Some((second, SOON))).unwrap();
        });
        teller.set(Some((listener, SOON))).unwrap();
        told.recv_timeout(LONG).unwrap();
        assert!(told.recv_timeout(20 * SOON).is_err());
        teller.stop();
    }

    #[test]
    fn who_sets_it_while_it_is_stopped_does_not_keep_it() {
        for _ in 0..100 {
            let teller = Arc::new(ProgressNotifier::default());
            let other = teller.clone();
            let setter = thread::spawn(move || while other.set(Some((Arc::new(|| ()), LONG))).is_ok() {});
            thread::yield_now();
            let (tell, told) = channel();
            thread::spawn(move || {
                teller.stop();
                let _ = tell.send(());
            });
            told.recv_timeout(LONG).expect("it is stopped, though another sets it");
            setter.join().unwrap();
        }
    }

    #[test]
    fn one_that_panics_is_not_called_again() {
        let teller = Arc::new(ProgressNotifier::default());
        let count = Arc::new(AtomicU64::new(0));
        let counted = count.clone();
        let listener: Listener = Arc::new(move || {
            counted.fetch_add(1, Ordering::SeqCst);
            panic!("in a test");
        });
        teller.set(Some((listener, SOON))).unwrap();
        let handle = teller.lock().handle.take().unwrap();
        handle.join().unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }
}
