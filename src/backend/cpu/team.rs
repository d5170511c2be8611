//! A team of threads that live as long as a slot of the CPU device.
//!
//! Between two works the threads sleep. A work is one closure, run once on every member;
//! inside it, members meet at [`Member::barrier`]. A member that fails or panics leaves,
//! which opens the barrier for the others with an error: no work hangs for lack of one.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::barrier::Barrier;
use super::float_mode::FloatMode;
use crate::backend::thread;
use crate::error::{Error, Result};

/// Threads of one slot, the worker's own included.
pub struct Team {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// One work at a time, whoever asks.
    turn: Mutex<()>,
}

/// One thread of a team, inside [`Team::run`].
pub struct Member<'a> {
    pub index: usize,
    pub count: usize,
    barrier: &'a Barrier,
}

type Work<'a> = dyn Fn(usize) + Sync + 'a;

struct Shared {
    barrier: Barrier,
    state: Mutex<State>,
    begin: Condvar,
    end: Condvar,
}

#[derive(Default)]
struct State {
    work: Option<Posted>,
    /// Counts the works posted, so that each thread takes each work once.
    posted: u64,
    /// Threads that have not finished the posted work.
    busy: usize,
    /// Of the member that failed first. Noted before that member leaves the barrier, so the
    /// failures of others in consequence come later.
    failure: Option<Error>,
    over: bool,
}

#[derive(Clone, Copy)]
struct Posted(*const Work<'static>);

// SAFETY: the work is `Sync`, and `Shared::perform` returns only when no thread uses it any more.
unsafe impl Send for Posted {}

impl Team {
    /// A team of `threads`, at least one: the caller of [`Team::run`] is the first, the others are started here.
    /// If the system gives fewer threads, the team is smaller, and the log says so: what it computes does not depend on that.
    pub fn new(threads: usize) -> Result<Self> {
        let count = threads.max(1);
        let shared = Arc::new(Shared {
            barrier: Barrier::new(count),
            state: Mutex::default(),
            begin: Condvar::new(),
            end: Condvar::new(),
        });
        let mut team = Team { shared, threads: Vec::new(), turn: Mutex::new(()) };
        for index in 1..count {
            let shared = Arc::clone(&team.shared);
            let name = format!("gpusched-cpu-{index}");
            match thread::spawn(name, None, move || shared.serve(index)) {
                Ok(thread) => team.threads.push(thread),
                Err(why) => {
                    log::warn!(
                        "cpu:0 works with {index} of {count} threads, as the system gives no more: {why}"
                    );
                    break;
                }
            }
        }
        Ok(team)
    }

    pub fn threads(&self) -> usize {
        self.threads.len() + 1
    }

    /// Runs `work` once on every thread of the team and returns when all are done: with
    /// the error of a member that failed or panicked, if one did. Threads compute in the standard
    /// floating-point mode meanwhile, whatever the caller's is.
    ///
    /// `own` is for the calling thread alone, which is member 0; the others get `None`.
    pub fn run<T: ?Sized>(
        &self,
        own: &T,
        work: impl Fn(&Member<'_>, Option<&T>) -> Result<()> + Sync,
    ) -> Result<()> {
        let _turn = lock(&self.turn);
        let barrier = &self.shared.barrier;
        let count = self.threads();
        barrier.reset(count);
        let member = |index, own: Option<&T>| {
            let _mode = FloatMode::standard();
            let done = catch_unwind(AssertUnwindSafe(|| work(&Member { index, count, barrier }, own)))
                .unwrap_or_else(|payload| Err(Error::Panic { message: words(&*payload) }));
            if let Err(error) = done {
                lock(&self.shared.state).failure.get_or_insert(error);
            }
            barrier.leave();
        };
        self.shared.perform(&|index| member(index, None), count - 1, || member(0, Some(own)))
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        lock(&self.shared.state).over = true;
        self.shared.begin.notify_all();
        for thread in self.threads.drain(..) {
            // A thread can't have panicked: all that it runs is caught.
            let _ = thread.join();
        }
    }
}

impl Member<'_> {
    /// Waits until every member has come here. An error if one never will, because it
    /// has left the work; pass it on.
    pub fn barrier(&self) -> Result<()> {
        self.barrier_then(|| ())
    }

    /// A barrier at which one member, whichever comes last, runs `alone` before all go on.
    pub fn barrier_then(&self, alone: impl FnOnce()) -> Result<()> {
        self.barrier
            .wait(alone)
            .map_err(|_| Error::Internal("a thread left the team's work before the others".into()))
    }

    /// This member's even share of `0..len`.
    pub fn share(&self, len: usize) -> std::ops::Range<usize> {
        let cut = |k: usize| (len as u128 * k as u128 / self.count as u128) as usize;
        cut(self.index)..cut(self.index + 1)
    }
}

impl Shared {
    /// What a thread does all its life.
    fn serve(&self, index: usize) {
        let mut seen = 0;
        let mut state = lock(&self.state);
        loop {
            if state.over {
                return;
            }
            let Some(work) = state.work.filter(|_| state.posted != seen) else {
                state = self.begin.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            seen = state.posted;
            drop(state);
            // SAFETY: `perform` keeps the work alive until `busy` is 0 again.
            unsafe { (*work.0)(index) };
            state = lock(&self.state);
            state.busy -= 1;
            if state.busy == 0 {
                self.end.notify_one();
            }
        }
    }

    /// Runs `work` on all threads and `mine` here. Neither panics: what they run is caught. `work` is
    /// borrowed for the whole of this call, so it is there for as long as a thread uses it.
    fn perform(&self, work: &Work<'_>, threads: usize, mine: impl FnOnce()) -> Result<()> {
        let work: *const Work<'_> = work;
        // SAFETY: only the lifetime changes; below, the use ends before the borrow does.
        let work = Posted(unsafe { std::mem::transmute::<*const Work<'_>, *const Work<'static>>(work) });
        let mut state = lock(&self.state);
        state.work = Some(work);
        state.posted += 1;
        state.busy = threads;
        state.failure = None;
        drop(state);
        self.begin.notify_all();
        mine();
        let mut state = lock(&self.state);
        while state.busy > 0 {
            state = self.end.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.work = None;
        state.failure.take().map_or(Ok(()), Err)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The words of a panic.
fn words(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("without words").into()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::*};

    use super::*;

    #[test]
    fn every_member_works_once_and_meets_the_others() {
        let team = Team::new(4).unwrap();
        for _ in 0..50 {
            let (came, alone) = (AtomicUsize::new(0), AtomicUsize::new(0));
            team.run(&(), |member, own| {
                assert_eq!(own.is_some(), member.index == 0);
                for round in 1..=20 {
                    came.fetch_add(1, SeqCst);
                    member.barrier_then(|| {
                        alone.fetch_add(1, SeqCst);
                    })?;
                    assert_eq!((came.load(SeqCst), alone.load(SeqCst)), (4 * round, round));
                    member.barrier()?;
                }
                Ok(())
            })
            .unwrap();
            assert_eq!(came.load(SeqCst), 80);
        }
    }

    #[test]
    fn a_member_that_panics_or_fails_ends_the_work_and_not_the_team() {
        let team = Team::new(3).unwrap();
        for culprit in 0..3 {
            let panicked = team.run(&(), |member, _| {
                if member.index == culprit {
                    std::panic::resume_unwind(Box::new("on purpose"));
                }
                member.barrier()
            });
            assert_eq!(panicked, Err(Error::Panic { message: "on purpose".into() }));
            let failed = team.run(&(), |member, _| {
                member.barrier()?;
                if member.index == culprit {
                    return Err(Error::Cancelled);
                }
                member.barrier()
            });
            assert_eq!(failed, Err(Error::Cancelled));
        }
        assert_eq!(team.run(&(), |member, _| member.barrier()), Ok(()));
    }

    #[test]
    fn a_panic_while_the_others_wait_does_not_leave_them_there() {
        let team = Team::new(3).unwrap();
        let ended = team.run(&(), |member, _| {
            member.barrier_then(|| std::panic::resume_unwind(Box::new(String::from("alone"))))
        });
        assert_eq!(ended, Err(Error::Panic { message: "alone".into() }));
        assert_eq!(team.run(&(), |member, _| member.barrier()), Ok(()));
    }

    #[test]
    fn who_leaves_early_is_told_of() {
        let team = Team::new(2).unwrap();
        let ended = team.run(&(), |member, _| if member.index == 1 { Ok(()) } else { member.barrier() });
        assert!(matches!(ended, Err(Error::Internal(_))), "{ended:?}");
    }

    #[test]
    fn shares_are_even_and_whole() {
        for (len, count) in [(0, 3), (2, 3), (10, 3), (7, 1)] {
            let barrier = Barrier::new(count);
            let shares = (0..count).map(|index| Member { index, count, barrier: &barrier }.share(len));
            let all: Vec<usize> =
                shares.inspect(|s| assert!(s.len() <= len.div_ceil(count))).flatten().collect();
            assert_eq!(all, (0..len).collect::<Vec<_>>());
        }
    }

    #[test]
    fn several_callers_take_turns() {
        let team = Team::new(2).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        team.run(&(), |member, _| member.barrier()).unwrap();
                    }
                });
            }
        });
    }

    #[test]
    fn dropping_a_team_ends_its_threads() {
        let team = Team::new(3).unwrap();
        let shared = Arc::downgrade(&team.shared);
        team.run(&(), |_, _| Ok(())).unwrap();
        drop(team);
        assert!(shared.upgrade().is_none());
    }
}
