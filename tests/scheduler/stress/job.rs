//! What a task is, and what its code does.

use std::time::{Duration, Instant};

use gpusched::error::DeviceFault;
use gpusched::sched::{DeviceMask, Exec};
use gpusched::{Error, Result};

use testkit::Random;

/// What an attempt that fails says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Code,
    Panic,
    /// As if it had been cancelled, though nobody has.
    Cancelled,
    Memory,
    Resources,
    Poisoned,
    Lost,
}

/// How a task waits for one that it has submitted, or for any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    None,
    Little,
    Endless,
}

#[derive(Debug, Clone)]
pub struct Child {
    pub job: Job,
    pub patience: Patience,
}

#[derive(Debug, Clone)]
pub struct Job {
    /// Elements, if it is a range.
    pub elements: Option<(u64, Option<u64>)>,
    pub detached: bool,
    pub ordered: bool,
    pub idempotent: bool,
    pub work: Option<f64>,
    pub class: u32,
    pub priority: i32,
    pub retries: u32,
    pub device_bytes: u64,
    pub devices: DeviceMask,
    pub deadline: Option<Duration>,
    /// How many tasks it comes after.
    pub after: usize,
    /// How long it takes, and whether it sleeps or computes; whether it looks at the signs to stop.
    pub takes: Duration,
    pub sleeps: bool,
    pub polite: bool,
    pub commits: bool,
    /// So many attempts fail.
    pub fails: u32,
    pub fault: Fault,
    pub children: Vec<Child>,
    /// Waits for some task that another thread has submitted.
    pub stranger: bool,
}

impl Job {
    /// One that states nothing.
    fn light(random: &mut Random) -> Self {
        Job {
            elements: None,
            detached: false,
            ordered: false,
            idempotent: false,
            work: None,
            class: 0,
            priority: 0,
            retries: 0,
            device_bytes: 0,
            devices: DeviceMask::ALL,
            deadline: None,
            after: 0,
            takes: Duration::from_micros((3000.0 * random.unit().powi(8)) as u64),
            sleeps: random.below(3) == 0,
            polite: random.below(2) == 0,
            commits: false,
            fails: 0,
            fault: Fault::Code,
            children: Vec::new(),
            stranger: false,
        }
    }

    pub fn random(random: &mut Random, devices: u32, bad: bool, depth: u32) -> Self {
        let mut job = Job::light(random);
        let mut chance = |of_ten: usize| random.below(10) < of_ten;
        let (light, range) = (chance(5), chance(1));
        job.detached = chance(1);
        job.commits = chance(1);
        let (nests, fails) = (depth > 0 && chance(2), chance(2));
        job.stranger = depth > 0 && chance(1) && chance(3);
        if range {
            let grain = if chance(5) { None } else { Some(1 + random.below(20) as u64) };
            job.elements = Some((random.below(100) as u64, grain));
            job.takes /= 8;
        }
        if range || !light {
            job.state(random, devices, range);
        }
        if fails {
            job.fail(random, bad);
        }
        if nests && !range {
            for _ in 0..1 + random.below(3) {
                let mut child = Job::random(random, devices, bad, depth - 1);
                // What it waits for must be able to run beside it.
                child.device_bytes = 0;
                child.devices = DeviceMask::ALL;
                let patience = [Patience::None, Patience::Little, Patience::Endless, Patience::Endless];
                job.children.push(Child { job: child, patience: patience[random.below(4)] });
            }
        }
        job
    }

    fn state(&mut self, random: &mut Random, devices: u32, range: bool) {
        let mut chance = |of_ten: usize| random.below(10) < of_ten;
        self.ordered = chance(3);
        let (bytes, mask, deadline) = (chance(3), chance(2), chance(1));
        let (after, retries, work) = (chance(3), chance(3), chance(5));
        self.idempotent = chance(2) && !range;
        self.priority = random.below(4) as i32 - 1;
        if bytes {
            self.device_bytes = random.below(if range { 200 } else { 1001 }) as u64;
        }
        if mask {
            self.devices = DeviceMask(1 + random.below((1 << devices) - 1) as u64);
        }
        if deadline {
            self.deadline = Some(Duration::from_micros(200 + random.below(5000) as u64));
        }
        if after {
            self.after = 1 + random.below(3);
        }
        if !range {
            self.class = random.below(3) as u32;
            self.retries = if retries { random.below(3) as u32 } else { 0 };
            self.work = work.then(|| 1.0 + 10.0 * random.unit());
        }
    }

    fn fail(&mut self, random: &mut Random, bad: bool) {
        const OWN: [Fault; 4] = [Fault::Code, Fault::Code, Fault::Panic, Fault::Cancelled];
        const OF_DEVICE: [Fault; 5] =
            [Fault::Memory, Fault::Memory, Fault::Resources, Fault::Poisoned, Fault::Lost];
        self.fails = 1 + random.below(3) as u32;
        self.fault = OWN[random.below(4)];
        if bad && random.below(3) == 0 {
            self.fault = OF_DEVICE[random.below(5)];
            if random.below(4) > 0 {
                self.fails = 1;
            }
            // Where memory is short and there is no other device, it waits for seconds: not in each of these.
            if matches!(self.fault, Fault::Memory | Fault::Resources) {
                self.fails = 1;
                self.devices = DeviceMask::ALL;
            }
        }
    }

    /// What is not as it mostly is.
    pub fn describe(&self) -> String {
        let quiet = Job { children: Vec::new(), ..Job::light(&mut Random::new(0)) };
        let (told, quiet) = (format!("{self:#?}"), format!("{quiet:#?}"));
        let told = told.lines().filter(|line| !quiet.contains(line.trim()));
        told.map(str::trim).collect::<Vec<_>>().join(" ")
    }

    pub fn is_range(&self) -> bool {
        self.elements.is_some()
    }

    /// A range without elements, whose code is never called.
    pub fn is_empty(&self) -> bool {
        self.elements.is_some_and(|(end, _)| end == 0)
    }

    /// Nothing in it can make it end badly.
    pub fn is_harmless(&self) -> bool {
        self.fails <= if self.fault == Fault::Cancelled { 0 } else { self.retries }
            && self.deadline.is_none()
            && self.children.is_empty()
            && !self.stranger
    }

    /// It may wait for what can't start before it ends, or be told that a child could not wait.
    pub fn may_deadlock(&self) -> bool {
        self.stranger || !self.children.is_empty()
    }

    /// Takes its time.
    pub fn pass(&self, exec: &Exec<'_>) -> Result<()> {
        let begin = Instant::now();
        while begin.elapsed() < self.takes {
            if self.polite && exec.cancelled() {
                return Err(Error::Cancelled);
            }
            exec.report(begin.elapsed().as_secs_f64() / self.takes.as_secs_f64());
            match self.sleeps {
                true => std::thread::sleep(self.takes / 4),
                false => (0..20).for_each(|_| std::hint::spin_loop()),
            }
        }
        if self.commits { exec.commit() } else { Ok(()) }
    }

    /// What an attempt that is to fail does instead of returning well.
    pub fn blow(&self, exec: &Exec<'_>) -> Result<()> {
        let device = |fault| Error::Device { device: exec.device.label(), what: "stress".into(), fault };
        Err(match self.fault {
            Fault::Code => Error::Callback { code: 7 },
            // Not panic!, which tells of it.
            Fault::Panic => std::panic::resume_unwind(Box::new("stress")),
            Fault::Cancelled => Error::Cancelled,
            Fault::Memory => {
                Error::NoMemory { what: "stress".into(), needed: 0, place: exec.device.label(), there: 0 }
            }
            Fault::Resources => Error::Resources { device: exec.device.label(), what: "stress".into() },
            Fault::Poisoned => device(DeviceFault::Poisoned),
            Fault::Lost => device(DeviceFault::Lost),
        })
    }
}
