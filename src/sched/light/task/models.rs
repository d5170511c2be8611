//! A light task that fails or is promoted, while other threads submit planned tasks after it or
//! cancel it: all of those fail with it, and its end is counted once.

use std::time::Duration;

use super::*;
use crate::device::{BackendKind, DeviceInfo};
use crate::sched::base::{
    Exec, LIGHT_BIT, Task, locked, pack,
    sync::{
        self, Mutex,
        models::{explore, join, start},
    },
};
use crate::sched::plan::{AttemptEnd, Effects, EndedTask, Planner};

const FAILED: Result<()> = Err(Error::Callback { code: 1 });

struct World {
    task: LightTask,
    id: TaskId,
    generation: u64,
    /// The planner lock.
    guarded: Mutex<Guarded>,
}

struct Guarded {
    planner: Planner,
    effects: Effects,
    /// Tasks that come after the light one.
    followers: Vec<TaskId>,
    /// Failures that the light tier counts.
    light_failures: u64,
}

impl World {
    fn new() -> sync::Arc<Self> {
        let task = LightTask::new();
        let job = LightJob::Shared(std::sync::Arc::new(|_: &Exec<'_>| Ok(())));
        let generation = task.fill(job, false, 0, 0);
        assert!(task.begin(generation, 0, 0, 0).is_some());
        let id = TaskId(pack(0, generation, 0) | LIGHT_BIT);
        let device = DeviceInfo::new("GPU-0", BackendKind::Cuda, 0, "paper");
        let planner = Planner::new(vec![(device, 1)], std::sync::Arc::default());
        let (effects, followers) = (Effects::default(), Vec::new());
        let guarded = Mutex::new(Guarded { planner, effects, followers, light_failures: 0 });
        sync::Arc::new(World { task, id, generation, guarded })
    }

    /// Takes a step of the planner and applies its effects.
    fn step<T>(&self, change: impl FnOnce(&mut Planner, &mut Effects) -> T) -> T {
        let Guarded { planner, effects, .. } = &mut *locked(&self.guarded);
        let result = change(planner, effects);
        while let Some(EndedTask { id, known_as, outcome, .. }) = effects.ended.pop() {
            planner.publish(id, outcome.clone(), effects);
            if known_as.is_light() {
                assert_eq!(known_as, self.id);
                self.task.end(self.generation, &outcome, 0);
                planner.light_task_ended(self.id, &outcome, effects);
            }
        }
        result
    }

    /// Submits a planned task after the light one.
    fn follow(&self) {
        let follower = self.step(|planner, effects| {
            let ended = self.task.follow(self.generation, self.id).unwrap();
            let task = Task { after: vec![self.id], ..Task::new(|_: &Exec<'_>| Ok(())) };
            let follower = planner.submit(task, effects).unwrap();
            if let Some(outcome) = ended {
                planner.light_task_ended(self.id, &outcome, effects);
            }
            follower
        });
        locked(&self.guarded).followers.push(follower);
    }

    fn fail(&self) {
        locked(&self.guarded).light_failures += 1;
        if self.task.end(self.generation, &FAILED, 0).followed {
            self.step(|planner, effects| planner.light_task_ended(self.id, &FAILED, effects));
        }
    }

    fn promote(&self, fails: bool) -> TaskId {
        self.step(|planner, effects| {
            let job = std::sync::Arc::new(|_: &Exec<'_>| Ok(()));
            let planned = planner.promote((self.id, 0), job, (0, 0, 0), false, effects).unwrap();
            if self.task.promote(self.generation, planned) {
                planner.cancel(planned, effects).unwrap();
            }
            if fails {
                planner.on_attempt_end(0, planned, 1, AttemptEnd::Ran(FAILED), effects);
            }
            planned
        })
    }

    /// Cancels the task as the scheduler does.
    fn cancel(&self) {
        self.task.cancel(self.generation, self.id).unwrap();
        if let Some(planned) = self.task.promoted_to(self.generation) {
            self.step(|planner, effects| planner.cancel(planned, effects)).unwrap();
        }
    }
}

fn explore_followers(end: fn(&World)) {
    explore(3, move || {
        let world = World::new();
        let others = [end, World::follow].map(|code: fn(&World)| start(&world, code));
        world.follow();
        join(others);
        let guard = locked(&world.guarded);
        for &follower in &guard.followers {
            let info = guard.planner.info(Duration::ZERO, follower).unwrap();
            assert_eq!(info.state, TaskStatus::Failed, "it comes after the light task");
        }
        let failed = guard.planner.stats().counts.failed + guard.light_failures;
        assert_eq!(failed, 1 + guard.followers.len() as u64, "its end is counted once");
        assert!(world.task.is_ended(world.generation));
    });
}

#[test]
fn tasks_after_a_light_one_fail_with_it() {
    explore_followers(World::fail);
}

#[test]
fn tasks_after_a_promoted_one_fail_with_it() {
    explore_followers(|world| _ = world.promote(true));
}

#[test]
fn cancel_reaches_a_task_that_is_being_promoted() {
    loom::model(|| {
        let world = World::new();
        let worker = start(&world, |world| world.promote(false));
        world.cancel();
        let planned = worker.join().unwrap();
        assert!(locked(&world.guarded).planner.completion(planned).unwrap().is_cancelled());
    });
}
