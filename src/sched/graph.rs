//! Who waits for whom: a circle of waits is found when it closes.
//!
//! A task that waits for one of several goes on when any of them ends; one that comes after several begins when
//! all have ended. So of all that a waiter hangs on, what can go on is struck out again and again;
//! if the waiter itself is left, it would wait for ever.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use super::sync::lock;
use super::task::TaskId;

/// The tasks that wait, without a time limit, for one of some others.
#[derive(Default)]
pub struct Graph {
    waits: Mutex<HashMap<TaskId, Vec<TaskId>>>,
}

impl Graph {
    /// The innermost of `frames` waits for one of `targets`; each of the others for the one that runs on
    /// top of it. False, and nothing is noted, if that could never end. `behind` tells what a task that
    /// has not begun comes after.
    pub fn enter(
        &self,
        frames: &[TaskId],
        targets: &[TaskId],
        behind: impl Fn(TaskId) -> Vec<TaskId>,
    ) -> bool {
        let Some(&last) = frames.last() else { return true };
        let mut waits = lock(&self.waits);
        for pair in frames.windows(2) {
            waits.insert(pair[0], vec![pair[1]]);
        }
        waits.insert(last, targets.to_vec());
        let fine = !hopeless(&waits, last, behind);
        if !fine {
            frames.iter().for_each(|frame| drop(waits.remove(frame)));
        }
        fine
    }

    pub fn leave(&self, frames: &[TaskId]) {
        let mut waits = lock(&self.waits);
        frames.iter().for_each(|frame| drop(waits.remove(frame)));
    }
}

/// What a task that does not go on by itself hangs on.
struct Held {
    on: Vec<TaskId>,
    /// One of them is enough.
    any: bool,
}

fn hopeless(
    waits: &HashMap<TaskId, Vec<TaskId>>,
    waiter: TaskId,
    behind: impl Fn(TaskId) -> Vec<TaskId>,
) -> bool {
    let mut held: HashMap<TaskId, Held> = HashMap::new();
    let mut seen = HashSet::from([waiter]);
    let mut open = vec![waiter];
    while let Some(task) = open.pop() {
        let (on, any) = waits.get(&task).map_or_else(|| (behind(task), false), |on| (on.clone(), true));
        if !on.is_empty() {
            open.extend(on.iter().copied().filter(|&next| seen.insert(next)));
            held.insert(task, Held { on, any });
        }
    }
    // How many more each needs, and whom each is needed by.
    let mut missing = HashMap::new();
    let mut needed_by: HashMap<TaskId, Vec<TaskId>> = HashMap::new();
    let mut free = Vec::new();
    for (&task, Held { on, any }) in &held {
        let there = on.iter().filter(|on| held.contains_key(on));
        let count = there.clone().count();
        let needs = if *any { usize::from(count == on.len()) } else { count };
        missing.insert(task, needs);
        there.for_each(|&on| needed_by.entry(on).or_default().push(task));
        if needs == 0 {
            free.push(task);
        }
    }
    while let Some(task) = free.pop() {
        for other in needed_by.remove(&task).into_iter().flatten() {
            if let Some(missing) = missing.get_mut(&other).filter(|missing| **missing > 0) {
                *missing -= 1;
                if *missing == 0 {
                    free.push(other);
                }
            }
        }
    }
    missing.get(&waiter).is_some_and(|&missing| missing > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: TaskId = TaskId(1);
    const B: TaskId = TaskId(2);
    const C: TaskId = TaskId(3);
    const D: TaskId = TaskId(4);

    fn nothing(_: TaskId) -> Vec<TaskId> {
        Vec::new()
    }

    #[test]
    fn a_circle_is_found_when_it_closes_and_not_before() {
        let graph = Graph::default();
        assert!(graph.enter(&[A], &[B], nothing));
        assert!(graph.enter(&[B], &[C], nothing));
        assert!(!graph.enter(&[C], &[A], nothing));
        assert!(graph.enter(&[C], &[D], nothing));
        graph.leave(&[C]);
        graph.leave(&[B]);
        assert!(graph.enter(&[B], &[D], nothing));
    }

    #[test]
    fn one_of_several_is_enough() {
        let graph = Graph::default();
        assert!(graph.enter(&[A], &[B, D], nothing));
        assert!(graph.enter(&[B], &[A], nothing), "D ends, then A, then B");
        assert!(!graph.enter(&[D], &[A, B], nothing));
    }

    #[test]
    fn frames_and_dependencies_count() {
        let graph = Graph::default();
        assert!(!graph.enter(&[A, B], &[A], nothing), "B runs on top of A");
        assert!(graph.enter(&[A], &[D], nothing));
        let after = |task| if task == C { vec![D, A] } else { Vec::new() };
        assert!(!graph.enter(&[B, A], &[C], after), "C comes after A");
        assert!(graph.enter(&[B], &[C], after));
        assert!(!graph.enter(&[A], &[B], after));
    }

    #[test]
    fn a_long_chain_is_struck_out_link_by_link() {
        let graph = Graph::default();
        let long = 100_000;
        let after =
            |task: TaskId| (2..=long).contains(&task.0).then(|| TaskId(task.0 - 1)).into_iter().collect();
        assert!(graph.enter(&[TaskId(long + 1)], &[TaskId(long)], after), "its first can begin");
        assert!(!graph.enter(&[TaskId(1)], &[TaskId(long + 1)], after), "its first waits for its last");
    }
}
