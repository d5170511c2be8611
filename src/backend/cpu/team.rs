//! A team of threads that live as long as their slot of the CPU device.
//!
//! The threads sleep between works. A work is one closure that every member runs once; the members
//! synchronise at [`TeamMember::barrier`]. A member that fails or panics leaves the work, which
//! opens the barrier for the others with an error. So no member waits for one that has left.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::barrier::Barrier;
use crate::backend::float_mode::FloatMode;
use crate::backend::thread;
use crate::error::{Error, Result};

/// Threads of one slot, including the worker's own.
pub struct Team {
    shared: Arc<TeamShared>,
    threads: Vec<JoinHandle<()>>,
    /// Held while a work runs: one at a time.
    turn: Mutex<()>,
}

/// A thread of a team, inside [`Team::run`].
pub struct TeamMember<'a> {
    pub index: usize,
    pub count: usize,
    barrier: &'a Barrier,
}

type TeamWork<'a> = dyn Fn(usize) + Sync + 'a;

struct TeamShared {
    barrier: Barrier,
    state: Mutex<TeamState>,
    begin: Condvar,
    end: Condvar,
}

#[derive(Default)]
struct TeamState {
    work: Option<PostedWork>,
    /// Number of works posted, so that each thread runs each work once.
    posted: u64,
    /// Threads that have not finished the posted work.
    busy: usize,
    /// Error of the member that failed first. It is stored before that member leaves the barrier,
    /// so errors that follow from it come later.
    failure: Option<Error>,
    stopping: bool,
}

#[derive(Clone, Copy)]
struct PostedWork(*const TeamWork<'static>);

// SAFETY: the work is `Sync`, and `TeamShared::perform` returns only when no thread uses it any
// more.
unsafe impl Send for PostedWork {}

impl Team {
    /// Starts a team of `threads`, at least one. The caller of [`Team::run`] is the first member.
    /// If the system provides fewer threads, the team is smaller and the log says so; results do
    /// not depend on the number.
    pub fn new(threads: usize) -> Result<Self> {
        let count = threads.max(1);
        let shared = Arc::new(TeamShared {
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
                        "work on the CPU uses {index} of {count} threads; the system provides no more: {why}"
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

    /// Runs `work` once on every thread of the team and returns when all are done. Returns the
    /// error of the first member that failed or panicked. The threads compute in the standard
    /// floating-point mode, whatever the caller's mode is.
    ///
    /// `own` is passed to the calling thread, member 0; the others get `None`.
    pub fn run<T: ?Sized>(
        &self,
        own: &T,
        work: impl Fn(&TeamMember<'_>, Option<&T>) -> Result<()> + Sync,
    ) -> Result<()> {
        let _turn = lock(&self.turn);
        let barrier = &self.shared.barrier;
        let count = self.threads();
        barrier.reset(count);
        let member = |index, own: Option<&T>| {
            let _mode = FloatMode::standard();
            let done = catch_unwind(AssertUnwindSafe(|| work(&TeamMember { index, count, barrier }, own)))
                .unwrap_or_else(|payload| Err(Error::panic(payload)));
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
        lock(&self.shared.state).stopping = true;
        self.shared.begin.notify_all();
        for thread in self.threads.drain(..) {
            // The thread has not panicked, because `run` catches panics of the work.
            let _ = thread.join();
        }
    }
}

impl TeamMember<'_> {
    /// Waits until every member has arrived. Returns an error if a member has left the work; the
    /// caller passes it on.
    pub fn barrier(&self) -> Result<()> {
        self.barrier_then(|| ())
    }

    /// Waits like [`barrier`](TeamMember::barrier). The member that arrives last runs `serial`
    /// before the others continue.
    pub fn barrier_then(&self, serial: impl FnOnce()) -> Result<()> {
        self.barrier
            .wait(serial)
            .map_err(|_| Error::Internal("a thread left the team's work before the others".into()))
    }

    /// Returns this member's even share of `0..len`.
    pub fn share(&self, len: usize) -> std::ops::Range<usize> {
        let cut = |k: usize| (len as u128 * k as u128 / self.count as u128) as usize;
        cut(self.index)..cut(self.index + 1)
    }
}

impl TeamShared {
    /// Runs a thread of the team until the team is dropped.
    fn serve(&self, index: usize) {
        let mut last = 0;
        let mut state = lock(&self.state);
        loop {
            if state.stopping {
                return;
            }
            let Some(work) = state.work.filter(|_| state.posted != last) else {
                state = self.begin.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            last = state.posted;
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

    /// Runs `work` on all threads and `mine` on the calling one. Neither panics, because what they
    /// run is caught. `work` is borrowed for the whole call, so it outlives its use by the threads.
    fn perform(&self, work: &TeamWork<'_>, threads: usize, mine: impl FnOnce()) -> Result<()> {
        let work: *const TeamWork<'_> = work;
        // SAFETY: only the lifetime changes; the use ends before the borrow does, see below.
        let work =
            PostedWork(unsafe { std::mem::transmute::<*const TeamWork<'_>, *const TeamWork<'static>>(work) });
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::*};

    use super::*;

    #[test]
    fn every_member_runs_once_and_reaches_the_barrier() {
        let team = Team::new(4).unwrap();
        for _ in 0..50 {
            let (came, serial) = (AtomicUsize::new(0), AtomicUsize::new(0));
            team.run(&(), |member, own| {
                assert_eq!(own.is_some(), member.index == 0);
                for round in 1..=20 {
                    came.fetch_add(1, SeqCst);
                    member.barrier_then(|| {
                        serial.fetch_add(1, SeqCst);
                    })?;
                    assert_eq!((came.load(SeqCst), serial.load(SeqCst)), (4 * round, round));
                    member.barrier()?;
                }
                Ok(())
            })
            .unwrap();
            assert_eq!(came.load(SeqCst), 80);
        }
    }

    #[test]
    fn member_that_panics_or_fails_ends_the_work_and_not_the_team() {
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
    fn panic_payload_that_panics_in_its_drop_ends_the_work_and_not_the_team() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                std::panic::resume_unwind(Box::new("in the drop"));
            }
        }
        let team = Team::new(2).unwrap();
        for culprit in 0..2 {
            let panicked = team.run(&(), |member, _| {
                if member.index == culprit {
                    std::panic::resume_unwind(Box::new(Bomb));
                }
                member.barrier()
            });
            assert!(matches!(panicked, Err(Error::Panic { .. })), "{panicked:?}");
            assert_eq!(team.run(&(), |member, _| member.barrier()), Ok(()));
        }
    }

    #[test]
    fn panic_in_a_barrier_releases_the_waiters() {
        let team = Team::new(3).unwrap();
        let ended = team.run(&(), |member, _| {
            member.barrier_then(|| std::panic::resume_unwind(Box::new(String::from("serial"))))
        });
        assert_eq!(ended, Err(Error::Panic { message: "serial".into() }));
        assert_eq!(team.run(&(), |member, _| member.barrier()), Ok(()));
    }

    #[test]
    fn member_that_leaves_early_breaks_the_barrier() {
        let team = Team::new(2).unwrap();
        let ended = team.run(&(), |member, _| if member.index == 1 { Ok(()) } else { member.barrier() });
        assert!(matches!(ended, Err(Error::Internal(_))), "{ended:?}");
    }

    #[test]
    fn shares_are_even_and_whole() {
        for (len, count) in [(0, 3), (2, 3), (10, 3), (7, 1)] {
            let barrier = Barrier::new(count);
            let shares = (0..count).map(|index| TeamMember { index, count, barrier: &barrier }.share(len));
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
