//! Random jobs: their description and their code.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use gpusched::error::DeviceFault;
use gpusched::sched::{DeviceMask, Exec};
use gpusched::{Error, Result};

use crate::scripted::{device_fault, no_memory};
use testkit::Random;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fault {
    #[default]
    Code,
    Panic,
    /// Returns the error of a cancellation, though the task was not cancelled.
    Cancelled,
    Memory,
    Resources,
    Device(DeviceFault),
}

#[derive(Debug, Default)]
pub struct Job {
    pub elements: Option<(u64, Option<u64>)>,
    pub detached: bool,
    pub ordered: bool,
    pub idempotent: bool,
    pub work: Option<f64>,
    pub class: u32,
    pub priority: i32,
    pub retries: u32,
    pub device_bytes: u64,
    /// `None`: all.
    pub mask: Option<DeviceMask>,
    pub deadline: Option<Duration>,
    pub after: usize,
    /// Duration; whether the job sleeps or computes; whether it reacts to stop requests.
    pub takes: Duration,
    pub sleeps: bool,
    pub polite: bool,
    pub commits: bool,
    pub fails: u32,
    pub fault: Fault,
    /// Child tasks, with the time limit of the wait for each.
    pub children: Vec<(Arc<Job>, Option<Duration>)>,
    pub stranger: bool,
}

impl Job {
    pub fn random(random: &mut Random, devices: u32, bad: bool, depth: u32) -> Self {
        let takes = Duration::from_micros((3000.0 * random.unit().powi(8)) as u64);
        let mut chance = |of_ten: usize| random.below(10) < of_ten;
        let (light, range, nests, fails) = (chance(5), chance(1), depth > 0 && chance(2), chance(2));
        let mut job = Job {
            takes,
            sleeps: chance(3),
            polite: chance(5),
            detached: chance(1),
            commits: chance(1),
            stranger: depth > 0 && chance(1) && chance(3),
            ..Job::default()
        };
        if range {
            let grain = if chance(5) { None } else { Some(1 + random.below(20) as u64) };
            job.elements = Some((random.below(100) as u64, grain));
            job.takes /= 8;
        }
        if range || !light {
            job.state(random, devices);
        }
        if fails {
            job.fail(random, bad);
        }
        if nests && !range {
            let limits = [Some(Duration::ZERO), Some(Duration::from_micros(300)), None, None];
            for _ in 0..1 + random.below(3) {
                // A child must be able to run beside its parent.
                let child = Job::random(random, devices, bad, depth - 1);
                let child = Job { device_bytes: 0, mask: None, ..child };
                job.children.push((Arc::new(child), limits[random.below(4)]));
            }
        }
        job
    }

    fn state(&mut self, random: &mut Random, devices: u32) {
        let range = self.is_range();
        let mut chance = |of_ten: usize| random.below(10) < of_ten;
        self.ordered = chance(3);
        let (bytes, mask, deadline, after) = (chance(3), chance(2), chance(1), chance(3));
        let (retries, work) = (chance(3), chance(5));
        self.idempotent = chance(2) && !range;
        self.priority = random.below(4) as i32 - 1;
        if bytes {
            self.device_bytes = random.below(if range { 200 } else { 1001 }) as u64;
        }
        self.mask = mask.then(|| DeviceMask(1 + random.below((1 << devices) - 1) as u64));
        self.deadline = deadline.then(|| Duration::from_micros(200 + random.below(5000) as u64));
        self.after = if after { 1 + random.below(3) } else { 0 };
        if !range {
            self.class = random.below(3) as u32;
            self.retries = if retries { random.below(3) as u32 } else { 0 };
            self.work = work.then(|| 1.0 + 10.0 * random.unit());
        }
    }

    fn fail(&mut self, random: &mut Random, bad: bool) {
        const OWN: [Fault; 4] = [Fault::Code, Fault::Code, Fault::Panic, Fault::Cancelled];
        let [lost, poisoned] = [DeviceFault::Lost, DeviceFault::Poisoned].map(Fault::Device);
        self.fails = 1 + random.below(3) as u32;
        self.fault = OWN[random.below(4)];
        if bad && random.below(3) == 0 {
            self.fault = [Fault::Memory, Fault::Memory, Fault::Resources, poisoned, lost][random.below(5)];
            // With a shortage of memory and no other device, a task waits for seconds: once at
            // most.
            let short = matches!(self.fault, Fault::Memory | Fault::Resources);
            if short || random.below(4) > 0 {
                self.fails = 1;
            }
            self.mask = self.mask.filter(|_| !short);
        }
    }

    pub fn describe(&self) -> String {
        let (own, usual) = (format!("{self:#?}"), format!("{:#?}", Job::default()));
        let own = own.lines().map(str::trim).filter(|line| !usual.contains(line));
        own.collect::<Vec<_>>().join(" ")
    }

    pub fn devices(&self) -> DeviceMask {
        self.mask.unwrap_or(DeviceMask::ALL)
    }

    pub fn is_range(&self) -> bool {
        self.elements.is_some()
    }

    pub fn is_empty(&self) -> bool {
        self.elements.is_some_and(|(end, _)| end == 0)
    }

    pub fn is_harmless(&self) -> bool {
        self.fails <= if self.fault == Fault::Cancelled { 0 } else { self.retries }
            && self.deadline.is_none()
            && !self.may_deadlock()
    }

    /// Returns true if the job may wait for a task that cannot start before the job ends, or get
    /// the error that a child could not wait.
    pub fn may_deadlock(&self) -> bool {
        self.stranger || !self.children.is_empty()
    }

    pub fn pass(&self, exec: &Exec<'_>) -> Result<()> {
        let begin = Instant::now();
        while begin.elapsed() < self.takes {
            if self.polite && exec.cancelled() {
                return Err(Error::Cancelled);
            }
            exec.report(begin.elapsed().as_secs_f64() / self.takes.as_secs_f64());
            match self.sleeps {
                true => thread::sleep(self.takes / 4),
                false => (0..20).for_each(|_| std::hint::spin_loop()),
            }
        }
        if self.commits { exec.commit() } else { Ok(()) }
    }

    pub fn blow(&self, exec: &Exec<'_>) -> Result<()> {
        let device = exec.device.label();
        Err(match self.fault {
            Fault::Code => Error::Callback { code: 7 },
            // Not panic!, which prints.
            Fault::Panic => resume_unwind(Box::new("stress")),
            Fault::Cancelled => Error::Cancelled,
            Fault::Memory => no_memory(exec, 0),
            Fault::Resources => Error::Resources { device, what: "stress".into() },
            Fault::Device(fault) => device_fault(device, fault),
        })
    }
}
