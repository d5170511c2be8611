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

enum Needs {
    Any(Vec<TaskId>),
    All(Vec<TaskId>),
}

fn hopeless(
    waits: &HashMap<TaskId, Vec<TaskId>>,
    waiter: TaskId,
    behind: impl Fn(TaskId) -> Vec<TaskId>,
) -> bool {
    let mut held: HashMap<TaskId, Needs> = HashMap::new();
    let mut seen = HashSet::from([waiter]);
    let mut open = vec![waiter];
    while let Some(task) = open.pop() {
        let needs = match waits.get(&task) {
            Some(targets) => Needs::Any(targets.clone()),
            None => Needs::All(behind(task)),
        };
        let (Needs::Any(list) | Needs::All(list)) = &needs;
        if list.is_empty() {
            continue;
        }
        open.extend(list.iter().copied().filter(|&next| seen.insert(next)));
        held.insert(task, needs);
    }
    loop {
        let goes_on = |needs: &Needs| match needs {
            Needs::Any(list) => list.iter().any(|task| !held.contains_key(task)),
            Needs::All(list) => list.iter().all(|task| !held.contains_key(task)),
        };
        let free: Vec<TaskId> =
            held.iter().filter(|(_, needs)| goes_on(needs)).map(|(&task, _)| task).collect();
        if free.is_empty() {
            return held.contains_key(&waiter);
        }
        free.iter().for_each(|task| drop(held.remove(task)));
    }
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
}
