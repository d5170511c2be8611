//! Nodes with GPUs of unequal speed and surveys of unequal shots, for the comparison.

use gpusched::sched::simulation::{Scenario, SimDevice, SimTask};

use testkit::Random;

pub struct Node {
    pub name: &'static str,
    /// A shot of one second of work takes `1 / speed` seconds. The fastest comes first, as CUDA
    /// numbers GPUs.
    pub speeds: &'static [f64],
    pub memory: &'static [f64],
}

pub const NODES: [Node; 4] = [
    Node { name: "2.2:2.2:1:1", speeds: &[2.2, 2.2, 1.0, 1.0], memory: &[11.0, 11.0, 3.0, 3.0] },
    Node { name: "8 equal", speeds: &[1.0; 8], memory: &[11.0; 8] },
    Node {
        name: "10:1x7",
        speeds: &[10.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
        memory: &[24.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0],
    },
    Node { name: "20:1x4", speeds: &[20.0, 1.0, 1.0, 1.0, 1.0], memory: &[141.0, 16.0, 16.0, 16.0, 16.0] },
];

/// Distribution of the shots' durations on a GPU of speed 1; a minute on average.
#[derive(Clone, Copy, PartialEq)]
pub enum Shots {
    Lognormal,
    Uniform,
    Equal,
}

impl Shots {
    pub const ALL: [Shots; 3] = [Shots::Lognormal, Shots::Uniform, Shots::Equal];

    pub fn name(self) -> &'static str {
        match self {
            Shots::Lognormal => "lognormal",
            Shots::Uniform => "uniform",
            Shots::Equal => "equal",
        }
    }

    fn seconds(self, random: &mut Random) -> f64 {
        match self {
            Shots::Lognormal => {
                const SIGMA: f64 = 0.6;
                (60_f64.ln() - SIGMA * SIGMA / 2.0 + SIGMA * normal(random)).exp()
            }
            Shots::Uniform => 20.0 + 80.0 * random.unit(),
            Shots::Equal => 60.0 * (1.0 + 0.03 * normal(random)),
        }
    }
}

fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

#[derive(Clone, Copy, PartialEq)]
pub enum Mishap {
    None,
    /// A random GPU is lost at half of the survey's expected time.
    Lost,
    /// A random shot has 30 times more work than it states.
    Slow,
    /// The first attempt of a random shot takes 30 times as long; further attempts do not.
    Stumble,
}

impl Mishap {
    pub const ALL: [Mishap; 3] = [Mishap::Lost, Mishap::Slow, Mishap::Stumble];

    pub fn name(self) -> &'static str {
        match self {
            Mishap::None => "",
            Mishap::Lost => ", a GPU lost",
            Mishap::Slow => ", a shot 30x",
            Mishap::Stumble => ", a first attempt 30x",
        }
    }
}

/// Returns a world. The stated work and speeds are within 20 % of the true ones; [`untold`] removes
/// them.
pub fn world(node: &Node, count: usize, shots: Shots, mishap: Mishap, seed: u64) -> Scenario {
    let mut random = Random::new(seed + 1);
    for _ in 0..8 {
        random.unit();
    }
    let device = |(speed, gigabytes): (&f64, &f64), random: &mut Random| SimDevice {
        prior: Some(speed * within_a_fifth(random)),
        memory_bytes: (gigabytes * 1e9) as u64,
        ..SimDevice::new(&format!("{speed}"), *speed)
    };
    let devices = node.speeds.iter().zip(node.memory).map(|gpu| device(gpu, &mut random)).collect();
    let task = |random: &mut Random| {
        let work = shots.seconds(random);
        let hint = Some(work * within_a_fifth(random));
        SimTask { hint, device_bytes: SHOT_BYTES, ..SimTask::new(work) }
    };
    let tasks: Vec<SimTask> = (0..count).map(|_| task(&mut random)).collect();
    let mut world = Scenario { devices, tasks };
    let (gpu, shot) = (random.below(node.speeds.len()), random.below(count));
    match mishap {
        Mishap::None => {}
        Mishap::Lost => {
            let work: f64 = world.tasks.iter().map(|task| task.work).sum();
            world.devices[gpu].fail_at = Some(0.5 * work / node.speeds.iter().sum::<f64>());
        }
        Mishap::Slow => world.tasks[shot].work *= 30.0,
        Mishap::Stumble => world.tasks[shot].stumble = 30.0,
    }
    world
}

pub const SHOT_BYTES: u64 = 1_200_000_000;

fn within_a_fifth(random: &mut Random) -> f64 {
    0.8 + 0.4 * random.unit()
}

pub fn untold(world: &Scenario, hints: bool, priors: bool) -> Scenario {
    let mut world = world.clone();
    for task in world.tasks.iter_mut().filter(|_| !hints) {
        task.hint = None;
    }
    for device in world.devices.iter_mut().filter(|_| !priors) {
        device.prior = None;
    }
    world
}

pub fn clairvoyant(world: &Scenario) -> Scenario {
    let mut world = world.clone();
    for task in &mut world.tasks {
        task.hint = Some(task.work);
    }
    for device in &mut world.devices {
        device.prior = Some(device.speed);
    }
    world
}
