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
use std::sync::Arc;

use super::LightTask;
use crate::error::{Error, Result};
use crate::sched::base::{
    Job, TaskId, WaitResult, locked,
    sync::{
        Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    unpack,
};
use crate::sched::plan::{Effects, Planner};

#[derive(Default)]
pub struct Proxies {
    /// The light task of each proxy that has not ended.
    owners: Mutex<HashMap<TaskId, TaskId>>,
    /// Promoted tasks that have not ended.
    promoted: AtomicUsize,
    made: AtomicU64,
}

/// The planner, and the effects of a step, which the caller applies.
pub struct PlannerStep<'a>(pub &'a mut Planner, pub &'a mut Effects);

impl Proxies {
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
        step: &mut PlannerStep<'_>,
        task: &LightTask,
        id: TaskId,
        uncount: impl FnOnce(&Result<()>),
    ) -> Result<TaskId> {
        let (proxy, ended) = task.attach_proxy(unpack(id).1, id, |before| match before {
            // The planner forgets a proxy when its end is published.
            Some(before) if step.0.contains(before) => Ok(before),
            _ => self.add(step, id),
        })?;
        if let Some(ended) = ended {
            let outcome = match ended {
                Ok(WaitResult::Cancelled) => Err(Error::Cancelled),
                ended => ended.map(|_| ()),
            };
            uncount(&outcome);
            self.end(step, proxy, outcome);
        }
        Ok(proxy)
    }

    /// Makes a light task's proxy the planned task that runs in its stead. `place`: device, slot
    /// and context of its first attempt, which began at the time of the step. Returns the job if
    /// the planner has no room.
    pub fn promote(
        &self,
        step: &mut PlannerStep<'_>,
        task: &LightTask,
        id: TaskId,
        job: Arc<dyn Job>,
        place: (usize, u32, u32),
        shared_device: bool,
    ) -> std::result::Result<TaskId, Arc<dyn Job>> {
        let generation = unpack(id).1;
        let Ok(proxy) = task.proxy(generation).map_or_else(|| self.add(step, id), Ok) else {
            return Err(job);
        };
        let PlannerStep(planner, effects) = step;
        planner.adopt_promoted(effects.now, proxy, job, place, shared_device, effects)?;
        self.promoted.fetch_add(1, Ordering::SeqCst);
        task.promote(generation, proxy);
        // A thread that cancels the task from now on finds the proxy.
        if task.signal.is_cancelled() {
            let _ = planner.cancel(proxy, effects);
        }
        Ok(proxy)
    }

    /// Ends the proxy of a light task that has ended.
    pub fn end(
        &self,
        PlannerStep(planner, effects): &mut PlannerStep<'_>,
        proxy: TaskId,
        outcome: Result<()>,
    ) {
        locked(&self.owners).remove(&proxy);
        planner.end_task(proxy, outcome, effects);
    }

    /// Returns the light task that was promoted to a planned one which has ended.
    pub fn take_promoted(&self, planned: TaskId) -> Option<TaskId> {
        // `end` has removed the proxies of other tasks.
        let id = locked(&self.owners).remove(&planned)?;
        self.promoted.fetch_sub(1, Ordering::SeqCst);
        Some(id)
    }

    fn add(&self, PlannerStep(planner, effects): &mut PlannerStep<'_>, id: TaskId) -> Result<TaskId> {
        let proxy = planner.admit_proxy(effects)?;
        self.made.fetch_add(1, Ordering::SeqCst);
        locked(&self.owners).insert(proxy, id);
        Ok(proxy)
    }
}

#[cfg(all(test, loom))]
mod models {
    //! A light task that fails or is promoted, while other threads submit planned tasks after it or
    //! cancel it: all of those fail with it, and its end is counted once.

    use std::time::Duration;

    use super::*;
    use crate::device::{BackendKind, DeviceInfo};
    use crate::sched::base::{
        Exec, LIGHT_BIT, Task, TaskStatus, pack,
        sync::{
            self,
            models::{explore, join, start},
        },
    };
    use crate::sched::light::LightJob;
    use crate::sched::plan::{AttemptEnd, EndedTask};

    const FAILED: Result<()> = Err(Error::Callback { code: 1 });

    struct World {
        task: LightTask,
        id: TaskId,
        generation: u64,
        /// The planner lock.
        guarded: Mutex<Guarded>,
        proxies: Proxies,
    }

    struct Guarded {
        planner: Planner,
        effects: Effects,
        /// Tasks that come after the light one.
        followers: Vec<TaskId>,
        /// Ends that the light tier counts.
        light_ends: i64,
    }

    impl Guarded {
        fn step(&mut self) -> PlannerStep<'_> {
            PlannerStep(&mut self.planner, &mut self.effects)
        }
    }

    impl World {
        fn new() -> sync::Arc<Self> {
            let task = LightTask::new();
            let job = LightJob::Shared(Arc::new(|_: &Exec<'_>| Ok(())));
            let generation = task.fill(job, false, 0, 0);
            assert!(task.begin(generation, 0, 0, 0).is_some());
            let id = TaskId(pack(0, generation, 0) | LIGHT_BIT);
            let device = DeviceInfo::new("GPU-0", BackendKind::Cuda, 0, "paper");
            let planner = Planner::new(vec![(device, 1)], Arc::default());
            let (effects, followers) = (Effects::default(), Vec::new());
            let guarded = Mutex::new(Guarded { planner, effects, followers, light_ends: 0 });
            sync::Arc::new(World { task, id, generation, guarded, proxies: Proxies::default() })
        }

        /// Submits a planned task after the light one.
        fn follow(&self) {
            let mut guard = locked(&self.guarded);
            let mut uncounted = 0;
            let before = self.proxies.attach(&mut guard.step(), &self.task, self.id, |_| uncounted = 1);
            guard.light_ends -= uncounted;
            let task = Task { after: vec![before.unwrap()], ..Task::new(|_: &Exec<'_>| Ok(())) };
            let PlannerStep(planner, effects) = guard.step();
            let follower = planner.submit(task, effects).unwrap();
            guard.followers.push(follower);
            drop(guard);
            self.publish();
        }

        fn fail(&self) {
            let mut counted = 0;
            let actions = self.task.end(self.generation, &FAILED, 0, || counted = 1);
            locked(&self.guarded).light_ends += counted;
            if actions.proxy.0 != 0 {
                self.proxies.end(&mut locked(&self.guarded).step(), actions.proxy, FAILED);
                self.publish();
            }
        }

        fn promote(&self) -> TaskId {
            let mut guard = locked(&self.guarded);
            let job = Arc::new(|_: &Exec<'_>| Ok(()));
            let promoted =
                self.proxies.promote(&mut guard.step(), &self.task, self.id, job, (0, 0, 0), false);
            promoted.ok().unwrap()
        }

        /// Promotes the task, which then fails in the planner.
        fn promote_and_fail(&self) {
            let promoted = self.promote();
            let mut guard = locked(&self.guarded);
            let PlannerStep(planner, effects) = guard.step();
            planner.on_attempt_end(0, promoted, 1, AttemptEnd::Ran(FAILED), effects);
            drop(guard);
            self.publish();
        }

        /// Cancels the task as the scheduler does.
        fn cancel(&self) {
            self.task.cancel(self.generation, self.id).unwrap();
            if let Some(promoted) = self.task.promoted_to(self.generation) {
                let mut guard = locked(&self.guarded);
                let PlannerStep(planner, effects) = guard.step();
                planner.cancel(promoted, effects).unwrap();
            }
        }

        fn publish(&self) {
            let mut guard = locked(&self.guarded);
            let PlannerStep(planner, effects) = guard.step();
            while let Some(EndedTask { id: planned, outcome, .. }) = effects.ended.pop() {
                planner.publish(planned, outcome.clone(), effects);
                if self.proxies.any_promoted()
                    && let Some(id) = self.proxies.take_promoted(planned)
                {
                    assert_eq!(id, self.id);
                    let actions = self.task.end(self.generation, &outcome, 0, || panic!("counted twice"));
                    assert_eq!(actions.proxy, TaskId(0));
                }
            }
        }

        fn check(&self) {
            let guard = locked(&self.guarded);
            for &follower in &guard.followers {
                let info = guard.planner.info(Duration::ZERO, follower).unwrap();
                assert_eq!(info.state, TaskStatus::Failed, "it comes after the light task");
            }
            let failed = guard.planner.stats().failed as i64 - guard.followers.len() as i64;
            assert_eq!(failed + guard.light_ends, 1, "its end is counted once");
            assert!(locked(&self.proxies.owners).is_empty() && !self.proxies.any_promoted());
            assert!(self.task.is_ended(self.generation));
        }
    }

    fn explore_followers(end: fn(&World)) {
        explore(3, move || {
            let world = World::new();
            let others = [end, World::follow].map(|code: fn(&World)| start(&world, code));
            world.follow();
            join(others);
            world.check();
        });
    }

    #[test]
    fn tasks_after_a_light_one_fail_with_it() {
        explore_followers(World::fail);
    }

    #[test]
    fn tasks_after_a_promoted_one_fail_with_it() {
        explore_followers(World::promote_and_fail);
    }

    #[test]
    fn cancel_reaches_a_task_that_is_being_promoted() {
        loom::model(|| {
            let world = World::new();
            let worker = start(&world, World::promote);
            world.cancel();
            let promoted = worker.join().unwrap();
            assert!(locked(&world.guarded).planner.completion(promoted).unwrap().is_cancelled());
        });
    }
}
