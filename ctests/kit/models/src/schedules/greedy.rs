//! The greedy policy, and the rules of the worlds for all simple policies. Each returns the time
//! when its last shot ends.

use std::collections::VecDeque;

use gpusched::sched::simulation::Scenario;

pub fn greedy(world: &Scenario) -> f64 {
    let order = (0..world.tasks.len()).collect();
    from_one_queue(world, order)
}

pub fn from_one_queue(world: &Scenario, order: Vec<usize>) -> f64 {
    let mut queue = VecDeque::from(order);
    play(world, |_| queue.pop_front())
}

/// Runs a policy: `next` returns the next shot of an idle GPU. The next idle GPU computes the shot
/// of a lost GPU again. Returns infinity if shots remain that no GPU takes.
pub fn play(world: &Scenario, mut next: impl FnMut(usize) -> Option<usize>) -> f64 {
    let first = |times: &mut dyn Iterator<Item = (f64, usize)>| {
        times.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((f64::INFINITY, 0))
    };
    let (mut now, mut done) = (0.0, 0);
    let mut again: VecDeque<usize> = VecDeque::new();
    let mut stumbled = vec![false; world.tasks.len()];
    // For each GPU the time when it is free, and its shot.
    let mut at: Vec<Option<(f64, usize)>> = vec![None; world.devices.len()];
    let mut lost = vec![false; world.devices.len()];
    while done < world.tasks.len() {
        for (index, device) in world.devices.iter().enumerate() {
            if at[index].is_none() && !lost[index] {
                let task = again.pop_front().or_else(|| next(index));
                at[index] = task.map(|task| {
                    let told = &world.tasks[task];
                    let times = if stumbled[task] { 1.0 } else { told.stumble };
                    stumbled[task] = true;
                    (now + told.work * times / device.speed, task)
                });
            }
        }
        let mut ends = at.iter().enumerate().filter_map(|(index, at)| Some((at.as_ref()?.0, index)));
        let (end, ending) = first(&mut ends);
        let left = world.devices.iter().enumerate().filter(|&(index, _)| !lost[index]);
        let (loss, losing) = first(&mut left.filter_map(|(index, device)| Some((device.fail_at?, index))));
        now = end.min(loss);
        if now.is_infinite() {
            return now;
        } else if loss < end {
            lost[losing] = true;
            again.extend(at[losing].take().map(|(_, task)| task));
        } else {
            at[ending] = None;
            done += 1;
        }
    }
    now
}
