//! Checks that the parts of the planner agree with each other.

use std::collections::BTreeMap;

use super::{DeadlineState, Planner, TaskState};
use crate::sched::base::TaskId;

/// With at most so many tasks a driver checks after every step; with more, so much more seldom.
const TASKS: u64 = 256;

impl Planner {
    /// Ends a step of a driver. Panics in builds with debug assertions if the parts of the planner
    /// disagree.
    pub fn check_step(&mut self) {
        self.steps += 1;
        if cfg!(debug_assertions) && self.steps.is_multiple_of(1 + self.arrivals / TASKS) {
            self.check_invariants();
        }
    }

    /// Panics if the parts of the planner disagree.
    fn check_invariants(&self) {
        let mut live: BTreeMap<TaskId, u32> = BTreeMap::new();
        for device in &self.devices {
            let leased: u64 = device.attempts.iter().map(|run| run.lease.bytes()).sum();
            assert!(leased <= device.ledger.leased(), "attempts lease more than the ledger has granted");
            for run in device.attempts.iter().filter(|run| run.deadline_state != DeadlineState::Lost) {
                *live.entry(run.id).or_default() += 1;
            }
            if let Some(id) = device.reserved_for {
                let ready = self.tasks.get(id).is_ok_and(|record| record.state.is_ready());
                assert!(ready, "{} is reserved for {id:?}, which is not ready", device.info.label());
            }
        }
        let (mut ready, mut exclusive) = (0, 0);
        let (mut queued, mut running, mut blocked) = (0, 0, 0);
        for id in self.tasks.ids() {
            let Ok(record) = self.tasks.get(id) else { continue };
            let state = record.state;
            let name = format_args!("{id:?}, {state:?}");
            let live = live.get(&id).copied().unwrap_or(0);
            assert_eq!(record.live_attempts, live, "{name}: live attempts");
            let (has_ended, counts) = (state == TaskState::Ended, !record.role.is_helper());
            assert_eq!(record.job.is_some(), state.is_open(), "{name}: its job");
            assert_eq!(record.signal.outcome.get().is_some(), has_ended, "{name}: its outcome");
            assert_eq!(self.ready.contains(record, id), state.is_ready(), "{name}: in the ready queue");
            match state {
                TaskState::Running { .. } => assert!(live > 0, "{name}: no attempt"),
                TaskState::Blocked => {
                    assert!(live == 0 && !record.predecessors.is_empty(), "{name}: nothing holds it");
                    blocked += record.predecessors.len();
                }
                TaskState::Ending { .. } | TaskState::Ended => {}
                TaskState::Ready => assert_eq!(live, 0, "{name}: live attempts"),
            }
            ready += usize::from(state.is_ready());
            exclusive += usize::from(!has_ended && record.exclusive);
            queued += u64::from(counts && state.is_queued());
            running += u64::from(counts && state.is_running());
        }
        let blocking: usize = self.successors.iter().map(|(&id, after)| self.count_blocked(id, after)).sum();
        assert_eq!(self.ready.len(), ready, "ready tasks");
        assert_eq!(self.exclusive_tasks, exclusive, "exclusive tasks");
        assert_eq!(blocking, blocked, "tasks that wait for others, seen from both sides");
        assert_eq!((self.counts.queued, self.counts.running), (queued, running), "queued and running tasks");
    }

    /// Returns how many of a task's successors are blocked. Panics if one does not wait for it.
    fn count_blocked(&self, id: TaskId, successors: &[TaskId]) -> usize {
        let records = successors.iter().filter_map(|&after| self.tasks.get(after).ok());
        let blocked = records.filter(|after| after.state == TaskState::Blocked);
        blocked.inspect(|after| assert!(after.predecessors.contains(&id), "{id:?} is not waited for")).count()
    }
}
