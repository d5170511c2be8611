//! Other policies that give shots to GPUs, in the same worlds. Each returns the time when its last
//! shot ends.

use std::collections::VecDeque;

use gpusched::sched::simulation::Scenario;
use testmodels::schedules::greedy::{from_one_queue, play};

/// Each idle GPU takes the longest shot by the hints.
pub fn longest_first(world: &Scenario) -> f64 {
    let mut order: Vec<usize> = (0..world.tasks.len()).collect();
    let hint = |task: &usize| world.tasks[*task].hint.unwrap_or(0.0);
    order.sort_by(|a, b| hint(b).total_cmp(&hint(a)));
    from_one_queue(world, order)
}

/// Each GPU gets a block of shots, all blocks of equal size.
pub fn blocks(world: &Scenario) -> f64 {
    let count = world.devices.len();
    by_share(world, &vec![1.0; count])
}

/// Each GPU gets a block of shots in proportion to its speed, which is known exactly.
pub fn blocks_by_speed(world: &Scenario) -> f64 {
    let speeds: Vec<f64> = world.devices.iter().map(|device| device.speed).collect();
    by_share(world, &speeds)
}

fn by_share(world: &Scenario, shares: &[f64]) -> f64 {
    let (count, all) = (world.tasks.len() as f64, shares.iter().sum::<f64>());
    let mut sum = 0.0;
    let ends = shares.iter().map(|share| {
        sum += share;
        (count * sum / all).round() as usize
    });
    let ends: Vec<usize> = ends.collect();
    fixed(world, |task| ends.iter().position(|&end| task < end).unwrap_or(0))
}

/// Shots in order, GPUs in turn.
pub fn round_robin(world: &Scenario) -> f64 {
    let count = world.devices.len();
    fixed(world, |task| task % count)
}

/// The longest shots first, each on the GPU where it ends first; all work and speeds are known
/// exactly.
pub fn oracle(world: &Scenario) -> f64 {
    let mut order: Vec<usize> = (0..world.tasks.len()).collect();
    order.sort_by(|&a, &b| world.tasks[b].work.total_cmp(&world.tasks[a].work));
    let mut ends = vec![0.0; world.devices.len()];
    let mut home = vec![0; world.tasks.len()];
    for task in order {
        let end = |device: usize| ends[device] + world.tasks[task].work / world.devices[device].speed;
        let first = (0..ends.len()).min_by(|&a, &b| end(a).total_cmp(&end(b))).unwrap_or(0);
        (ends[first], home[task]) = (end(first), first);
    }
    fixed(world, |task| home[task])
}

fn fixed(world: &Scenario, home: impl Fn(usize) -> usize) -> f64 {
    let mut queues = vec![VecDeque::new(); world.devices.len()];
    for task in 0..world.tasks.len() {
        queues[home(task)].push_back(task);
    }
    play(world, |device| queues[device].pop_front())
}

/// The old packages' rule: as many processes as GPUs, and a shot every three seconds. The first
/// shots go to the GPUs in turn, each later one to the GPU with the largest share of free memory,
/// the first of equals. Shots that share a GPU share its speed. The shares are in the order of
/// nvidia-smi, but the position is used as a CUDA number.
pub fn old_package(world: &Scenario, order_differs: bool) -> f64 {
    const EVERY: f64 = 3.0;
    /// Time in which a process reads its shot's files before it takes the GPU's memory.
    const LOADING: f64 = 2.0;
    /// Memory that a process holds on each GPU that it has used.
    const CONTEXT: f64 = 0.3e9;

    struct Process {
        used: Vec<bool>,
        /// Shot, GPU, work left, when it began.
        at: Option<(usize, usize, f64, f64)>,
    }
    if world.devices.iter().any(|device| device.fail_at.is_some()) {
        // The shot is lost, and the pool waits for it for ever.
        return f64::INFINITY;
    }
    let count = world.devices.len();
    let mut processes: Vec<Process> =
        (0..count).map(|_| Process { used: vec![false; count], at: None }).collect();
    let mut now = 0.0;
    let mut sent = 0;
    loop {
        let speed = |gpu: usize, processes: &[Process]| {
            let sharing = processes.iter().filter(|process| process.at.is_some_and(|at| at.1 == gpu)).count();
            world.devices[gpu].speed / sharing as f64
        };
        let mut ending: Option<(f64, usize)> = None;
        for (number, process) in processes.iter().enumerate() {
            if let Some((_, gpu, left, _)) = process.at {
                let end = now + left / speed(gpu, &processes);
                if ending.is_none_or(|(first, _)| end < first) {
                    ending = Some((end, number));
                }
            }
        }
        let idle = processes.iter().position(|process| process.at.is_none());
        let sending = (sent < world.tasks.len() && idle.is_some()).then(|| now.max(EVERY * sent as f64));
        let (Some(time), begins) = (match (ending, sending) {
            (Some((end, _)), Some(sending)) => (Some(end.min(sending)), sending <= end),
            (Some((end, _)), None) => (Some(end), false),
            (None, sending) => (sending, true),
        }) else {
            return now;
        };
        for number in 0..count {
            let step = processes[number].at.map_or(0.0, |at| (time - now) * speed(at.1, &processes));
            if let Some(at) = &mut processes[number].at {
                at.2 -= step;
            }
        }
        now = time;
        if !begins {
            if let Some((_, number)) = ending {
                processes[number].at = None;
            }
            continue;
        }
        let Some(number) = idle else { continue };
        let share = |smi: usize| {
            // The GPU at that place in nvidia-smi's order.
            let gpu = smi_gpu(smi, count, order_differs);
            let total = world.devices[gpu].memory_bytes as f64;
            let contexts = processes.iter().filter(|process| process.used[gpu]).count() as f64 * CONTEXT;
            let shots = processes.iter().filter_map(|process| process.at);
            let shots = shots.filter(|at| at.1 == gpu && now >= at.3 + LOADING);
            let shots: f64 = shots.map(|at| world.tasks[at.0].device_bytes as f64).sum();
            (total - contexts - shots) / total
        };
        // A position in nvidia-smi's order is used as a CUDA number.
        let mut gpu = 0;
        for position in 1..count {
            if sent < count && position == sent || sent >= count && share(position) > share(gpu) {
                gpu = position;
            }
        }
        let task = &world.tasks[sent];
        processes[number].used[gpu] = true;
        processes[number].at = Some((sent, gpu, task.work * task.stumble, now));
        sent += 1;
    }
}

/// nvidia-smi counts by bus address. Here that order is the reverse of CUDA's where the two differ.
fn smi_gpu(smi: usize, count: usize, order_differs: bool) -> usize {
    if order_differs { count - 1 - smi } else { smi }
}
