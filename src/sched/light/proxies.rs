//! Proxies: planned tasks that stand for light ones.
//!
//! A planned task that is submitted to run after a light one has a proxy as its predecessor: a
//! planned task that is never ready and ends with the light task. A light task whose attempt failed
//! in a way that concerns its device is *promoted*: its proxy becomes the planned task that runs in
//! its stead, and the light task ends with that. So followers stay with the proxy.
//!
//! The planner counts each proxy as submitted and as ended, so the light tier does not count the end
//! of a task that has one.
//!
//! Lock order: planner, light task, proxies. All methods but the first three are called with the
//! planner locked.

use std::collections::HashMap;

use super::task::LightTask;
use crate::error::{Error, Result};
use crate::sched::base::outcome::WaitResult;
use crate::sched::base::registry::unpack;
use crate::sched::base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sched::base::sync::{Mutex, locked};
use crate::sched::base::task_id::TaskId;

pub struct Proxies {
    /// The light task of each proxy that has not ended.
    owners: Mutex<HashMap<TaskId, TaskId>>,
    /// Promoted tasks that have not ended.
    promoted: AtomicUsize,
    made: AtomicU64,
}

/// The planner, as far as proxies use it.
pub trait ProxyPlanner {
    fn admit_proxy(&mut self) -> Result<TaskId>;
    /// Returns false if the proxy's end was published.
    fn is_known(&self, proxy: TaskId) -> bool;
    /// Ends a proxy. The caller of the protocol publishes the end later.
    fn end(&mut self, proxy: TaskId, outcome: Result<()>);
    fn cancel(&mut self, promoted: TaskId);
}

impl Proxies {
    pub fn new() -> Self {
        Proxies { owners: Mutex::new(HashMap::new()), promoted: AtomicUsize::new(0), made: AtomicU64::new(0) }
    }

    /// Returns how many proxies were ever made.
    pub fn made(&self) -> u64 {
        self.made.load(Ordering::SeqCst)
    }

    /// Returns the id by which callers know a planned task.
    pub fn owner(&self, planned: TaskId) -> TaskId {
        if self.made.load(Ordering::Acquire) == 0 {
            return planned;
        }
        locked(&self.owners).get(&planned).copied().unwrap_or(planned)
    }

    pub fn any_promoted(&self) -> bool {
        self.promoted.load(Ordering::Acquire) > 0
    }

    /// Returns the planned task that ends with a light one, for tasks that come after it. If the
    /// light task has ended, the planner counts its end from now on: `uncount` takes it back.
    pub fn attach(
        &self,
        planner: &mut impl ProxyPlanner,
        task: &LightTask,
        id: TaskId,
        uncount: impl FnOnce(&Result<()>),
    ) -> Result<TaskId> {
        let (proxy, ended) = task.attach_proxy(unpack(id).1, id, |before| match before {
            Some(before) if planner.is_known(before) => Ok(before),
            _ => self.add(planner, id),
        })?;
        if let Some(ended) = ended {
            let outcome = match ended {
                Ok(WaitResult::Cancelled) => Err(Error::Cancelled),
                ended => ended.map(|_| ()),
            };
            uncount(&outcome);
            self.end(planner, proxy, outcome);
        }
        Ok(proxy)
    }

    /// Makes a light task's proxy the planned task that runs in its stead, by `adopt`. Returns the job
    /// if the planner has no room.
    pub fn promote<P: ProxyPlanner, J>(
        &self,
        planner: &mut P,
        task: &LightTask,
        id: TaskId,
        job: J,
        adopt: impl FnOnce(&mut P, TaskId, J) -> std::result::Result<TaskId, J>,
    ) -> std::result::Result<TaskId, J> {
        let generation = unpack(id).1;
        let proxy = match task.proxy(generation).map_or_else(|| self.add(planner, id), Ok) {
            Ok(proxy) => adopt(planner, proxy, job)?,
            Err(_) => return Err(job),
        };
        self.promoted.fetch_add(1, Ordering::SeqCst);
        task.promote(generation, proxy);
        // A thread that cancels the task from now on finds the proxy.
        if task.signal.is_cancelled() {
            planner.cancel(proxy);
        }
        Ok(proxy)
    }

    /// Ends the proxy of a light task that has ended.
    pub fn end(&self, planner: &mut impl ProxyPlanner, proxy: TaskId, outcome: Result<()>) {
        locked(&self.owners).remove(&proxy);
        planner.end(proxy, outcome);
    }

    /// Returns the light task that was promoted to a planned one which has ended.
    pub fn take_promoted(&self, planned: TaskId) -> Option<TaskId> {
        // `end` has removed the proxies of other tasks.
        let id = locked(&self.owners).remove(&planned)?;
        self.promoted.fetch_sub(1, Ordering::SeqCst);
        Some(id)
    }

    fn add(&self, planner: &mut impl ProxyPlanner, id: TaskId) -> Result<TaskId> {
        let proxy = planner.admit_proxy()?;
        self.made.fetch_add(1, Ordering::SeqCst);
        locked(&self.owners).insert(proxy, id);
        Ok(proxy)
    }
}

#[cfg(all(test, loom))]
mod models {
    //! A light task that ends or is promoted, while other threads submit planned tasks after it or
    //! cancel it: all of those end, and the end of the light task is counted once.

    use loom::thread;

    use super::*;
    use crate::sched::base::registry::{LIGHT_BIT, pack};
    use crate::sched::base::sync::Arc;

    #[derive(Default)]
    struct Planner {
        admitted: u64,
        known: Vec<TaskId>,
        ended: Vec<(TaskId, Result<()>)>,
        cancelled: Vec<TaskId>,
        /// The predecessors of tasks that come after the light one.
        followed: Vec<TaskId>,
        followers_done: usize,
        /// Ends that the planner and the light tier count.
        ends: i64,
    }

    impl ProxyPlanner for Planner {
        fn admit_proxy(&mut self) -> Result<TaskId> {
            self.admitted += 1;
            self.known.push(TaskId(self.admitted));
            Ok(TaskId(self.admitted))
        }

        fn is_known(&self, proxy: TaskId) -> bool {
            self.known.contains(&proxy)
        }

        fn end(&mut self, proxy: TaskId, outcome: Result<()>) {
            self.ended.push((proxy, outcome));
        }

        fn cancel(&mut self, promoted: TaskId) {
            self.cancelled.push(promoted);
        }
    }

    struct World {
        task: LightTask,
        id: TaskId,
        generation: u64,
        planner: Mutex<Planner>,
        proxies: Proxies,
    }

    impl World {
        fn new() -> Arc<Self> {
            let task = LightTask::new();
            let generation = task.fill(None, false, 0, 0);
            task.set_running(generation, 0);
            let id = TaskId(pack(0, generation, 0) | LIGHT_BIT);
            let (planner, proxies) = (Mutex::new(Planner::default()), Proxies::new());
            Arc::new(World { task, id, generation, planner, proxies })
        }

        /// Submits a planned task after the light one.
        fn follow(&self) {
            let mut planner = locked(&self.planner);
            let mut uncounted = 0;
            let proxy = self.proxies.attach(&mut *planner, &self.task, self.id, |_| uncounted = 1).unwrap();
            planner.ends -= uncounted;
            planner.followed.push(proxy);
            drop(planner);
            self.publish();
        }

        fn end(&self) {
            let mut counted = 0;
            let actions = self.task.end(self.generation, Ok(()), 0, |_| counted = 1);
            locked(&self.planner).ends += counted;
            if let Some((proxy, outcome)) = actions.proxy {
                self.proxies.end(&mut *locked(&self.planner), proxy, outcome);
                self.publish();
            }
        }

        /// Promotes the task, which then ends in the planner unless it is cancelled there.
        fn promote(&self) {
            let mut planner = locked(&self.planner);
            let adopt = |_: &mut Planner, proxy, ()| Ok(proxy);
            let promoted = self.proxies.promote(&mut *planner, &self.task, self.id, (), adopt).unwrap();
            drop(planner);
            let mut planner = locked(&self.planner);
            let outcome = if planner.cancelled.is_empty() { Ok(()) } else { Err(Error::Cancelled) };
            planner.end(promoted, outcome);
            drop(planner);
            self.publish();
        }

        /// Cancels the task as the scheduler does.
        fn cancel(&self) {
            self.task.cancel(self.generation, self.id).unwrap();
            if let Some(promoted) = self.task.promoted_to(self.generation) {
                locked(&self.planner).cancel(promoted);
            }
        }

        fn publish(&self) {
            let mut planner = locked(&self.planner);
            while let Some((proxy, outcome)) = planner.ended.pop() {
                planner.known.retain(|&known| known != proxy);
                let before = planner.followed.len();
                planner.followed.retain(|&followed| followed != proxy);
                planner.followers_done += before - planner.followed.len();
                planner.ends += 1;
                if self.proxies.any_promoted()
                    && let Some(id) = self.proxies.take_promoted(proxy)
                {
                    assert_eq!(id, self.id);
                    let actions = self.task.end(self.generation, outcome, 0, |_| panic!("counted twice"));
                    assert_eq!(actions.proxy, None);
                }
            }
        }

        fn check(&self, followers: usize) {
            let planner = locked(&self.planner);
            assert_eq!(planner.followers_done, followers, "all that come after it may begin");
            assert_eq!(planner.ends, 1, "its end is counted once");
            assert!(locked(&self.proxies.owners).is_empty() && !self.proxies.any_promoted());
            assert!(self.task.lifecycle(self.generation).unwrap().is_ended());
        }
    }

    fn explore(run: fn(&World)) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let world = World::new();
            let other = world.clone();
            let worker = thread::spawn(move || run(&other));
            let other = world.clone();
            let follower = thread::spawn(move || other.follow());
            world.follow();
            worker.join().unwrap();
            follower.join().unwrap();
            world.check(2);
        });
    }

    #[test]
    fn tasks_after_a_light_one_begin_when_it_has_ended() {
        explore(World::end);
    }

    #[test]
    fn tasks_after_a_promoted_one_begin_when_it_has_ended() {
        explore(World::promote);
    }

    #[test]
    fn cancel_reaches_a_task_that_is_being_promoted() {
        loom::model(|| {
            let world = World::new();
            let other = world.clone();
            let worker = thread::spawn(move || {
                let mut planner = locked(&other.planner);
                let adopt = |_: &mut Planner, proxy, ()| Ok(proxy);
                other.proxies.promote(&mut *planner, &other.task, other.id, (), adopt).unwrap();
            });
            world.cancel();
            worker.join().unwrap();
            assert!(!locked(&world.planner).cancelled.is_empty());
        });
    }
}
