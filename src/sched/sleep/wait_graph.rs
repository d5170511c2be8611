//! The wait graph: finds a cycle of waits when it closes.
//!
//! A task that waits for one of several goes on when any of them ends. A task that comes after
//! several begins when all have ended. A range ends when all threads that wait inside it have gone
//! on. So the search removes every node that can go on from those that a waiter depends on, again
//! and again. If the waiter itself is left, its wait would never end.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::sched::base::{TaskId, lock};

#[derive(Default)]
pub struct WaitGraph {
    /// Waits without a time limit: the frames, innermost last, and the tasks one of which the
    /// innermost waits for.
    waits: Mutex<Vec<(Vec<TaskId>, Vec<TaskId>)>>,
}

/// By task and by thread inside it, the tasks one of which that waits for.
type WaitLinks = HashMap<TaskId, Vec<Vec<TaskId>>>;

/// A task with 0, or with n the wait of the n-th thread inside it.
type WaitNode = (TaskId, usize);

impl WaitGraph {
    /// Adds a wait of the innermost of `frames` for one of `targets`; each outer frame waits for
    /// the next one. Returns false, and adds nothing, if the wait could never end. `behind` returns
    /// the predecessors of a task that has not begun; `is_range`, whether a task ends only when all
    /// threads inside it have gone on. One copy of a task is enough.
    pub fn add_wait(
        &self,
        frames: &[TaskId],
        targets: &[TaskId],
        behind: impl Fn(TaskId) -> Vec<TaskId>,
        is_range: impl Fn(TaskId) -> bool,
    ) -> bool {
        let Some(&last) = frames.last() else { return true };
        let mut waits = lock(&self.waits);
        waits.push((frames.to_vec(), targets.to_vec()));
        let mut all = WaitLinks::new();
        for (task, on) in waits.iter().flat_map(|(frames, targets)| links(frames, targets)) {
            all.entry(task).or_default().push(on);
        }
        let own = (last, all[&last].len());
        let fine = !never_ends(&all, own, behind, is_range);
        if !fine {
            waits.pop();
        }
        fine
    }

    pub fn remove_wait(&self, frames: &[TaskId], targets: &[TaskId]) {
        let mut waits = lock(&self.waits);
        if let Some(position) = waits.iter().position(|wait| (&*wait.0, &*wait.1) == (frames, targets)) {
            waits.swap_remove(position);
        }
    }
}

/// Returns what each frame waits for. The owner of a range is twice in its task.
fn links(frames: &[TaskId], targets: &[TaskId]) -> Vec<(TaskId, Vec<TaskId>)> {
    let mut frames = frames.to_vec();
    frames.dedup();
    let nested = frames.iter().skip(1).map(|&frame| vec![frame]).chain([targets.to_vec()]);
    frames.iter().copied().zip(nested).collect()
}

/// Returns true if the waiter is left when every node that can go on is removed.
fn never_ends(
    waits: &WaitLinks,
    waiter: WaitNode,
    behind: impl Fn(TaskId) -> Vec<TaskId>,
    is_range: impl Fn(TaskId) -> bool,
) -> bool {
    let tasks = |list: &[TaskId]| -> Vec<WaitNode> { list.iter().map(|&task| (task, 0)).collect() };
    // The nodes that a node waits for, and how many of them have to go on first.
    let needs = |(task, thread): WaitNode| match (waits.get(&task), thread) {
        (None, _) => (tasks(&behind(task)), usize::MAX),
        (Some(threads), 0) => {
            let on = (1..=threads.len()).map(|thread| (task, thread)).collect();
            (on, if is_range(task) { usize::MAX } else { 1 })
        }
        (Some(threads), thread) => (tasks(&threads[thread - 1]), 1),
    };
    // By node: the number of nodes that it still needs, and the nodes that need it.
    let mut missing = HashMap::new();
    let mut needed_by: HashMap<WaitNode, Vec<WaitNode>> = HashMap::new();
    let (mut open, mut free) = (vec![waiter], Vec::new());
    while let Some(node) = open.pop() {
        if missing.contains_key(&node) {
            continue;
        }
        let (on, least) = needs(node);
        missing.insert(node, least.min(on.len()));
        if on.is_empty() {
            free.push(node);
        }
        for other in on {
            needed_by.entry(other).or_default().push(node);
            open.push(other);
        }
    }
    while let Some(node) = free.pop() {
        for other in needed_by.remove(&node).into_iter().flatten() {
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

    /// Adds a wait where every task has begun and none is a range.
    fn add(graph: &WaitGraph, frames: &[TaskId], targets: &[TaskId]) -> bool {
        graph.add_wait(frames, targets, |_| Vec::new(), |_| false)
    }

    #[test]
    fn cycle_is_found_when_it_closes_and_not_before() {
        let graph = WaitGraph::default();
        assert!(add(&graph, &[A], &[B]));
        assert!(add(&graph, &[B], &[C]));
        assert!(!add(&graph, &[C], &[A]));
        assert!(add(&graph, &[C], &[D]));
        graph.remove_wait(&[C], &[D]);
        graph.remove_wait(&[B], &[C]);
        assert!(add(&graph, &[B], &[D]));
    }

    #[test]
    fn one_of_several_is_enough() {
        let graph = WaitGraph::default();
        assert!(add(&graph, &[A], &[B, D]));
        assert!(add(&graph, &[B], &[A]), "D ends, then A, then B");
        assert!(!add(&graph, &[D], &[A, B]));
    }

    #[test]
    fn frames_and_dependencies_count() {
        let graph = WaitGraph::default();
        assert!(!add(&graph, &[A, B], &[A]), "B runs inside A");
        assert!(add(&graph, &[A], &[D]));
        graph.remove_wait(&[A], &[D]);
        let after = |task| if task == C { vec![D, A] } else { Vec::new() };
        assert!(!graph.add_wait(&[B, A], &[C], after, |_| false), "C comes after A");
        assert!(graph.add_wait(&[B], &[C], after, |_| false));
        assert!(!graph.add_wait(&[A], &[B], after, |_| false));
    }

    #[test]
    fn long_chain_is_removed_link_by_link() {
        let graph = WaitGraph::default();
        let long = 100_000;
        let after =
            |task: TaskId| (2..=long).contains(&task.0).then(|| TaskId(task.0 - 1)).into_iter().collect();
        assert!(
            graph.add_wait(&[TaskId(long + 1)], &[TaskId(long)], after, |_| false),
            "its first can begin"
        );
        assert!(
            !graph.add_wait(&[TaskId(1)], &[TaskId(long + 1)], after, |_| false),
            "its first waits for its last"
        );
    }

    #[test]
    fn range_needs_all_its_pieces_and_a_task_one_of_its_copies() {
        for is_range in [false, true] {
            let graph = WaitGraph::default();
            let enter = |frames: &[TaskId], targets: &[TaskId]| {
                graph.add_wait(frames, targets, |_| Vec::new(), |task| is_range && task == A)
            };
            assert!(enter(&[D, A], &[B]));
            assert!(enter(&[A, A], &[C]));
            assert_eq!(enter(&[B], &[A]), !is_range, "C goes on, and one thread in A");
            graph.remove_wait(&[B], &[A]);
            graph.remove_wait(&[D, A], &[B]);
            assert!(enter(&[B], &[A]), "only what waits for C is left in A");
        }
    }
}
