//! Faults of simulated devices, and the results of attempts there.

use super::world::SimAttempt;
use super::{FaultKind, SimEventKind, Simulation};
use crate::error::{DeviceFault, Error};

/// Seconds of an attempt that fails at once, on a device of speed 1.
const INSTANT: f64 = 1e-3;

impl Simulation<'_> {
    pub(super) fn fault(&mut self, index: usize, fault: usize) {
        match self.scenario.devices[index].faults[fault].kind {
            FaultKind::OutOfMemory { seconds } => self.places[index].memory_short_until = self.now + seconds,
            FaultKind::LaunchResources { seconds } => {
                self.places[index].resources_short_until = self.now + seconds;
            }
            FaultKind::Wrong { seconds } => self.places[index].wrong_until = self.now + seconds,
            FaultKind::Poisoned => self.fail_all(index, DeviceFault::Poisoned, "an illegal address"),
            FaultKind::Hang => {
                self.running.values_mut().for_each(|run| run.hung |= run.device == index);
            }
            FaultKind::Slow { factor } => {
                let (now, before) = (self.now, self.places[index].speed);
                self.places[index].speed = before * factor;
                for number in self.running_on(index) {
                    if let Some(run) = self.running.get_mut(&number) {
                        run.left = (run.left - before * (now - run.since)).max(0.0);
                        run.since = now;
                    }
                    self.expect(number);
                }
            }
        }
    }

    /// Returns the attempts that run on a device, oldest first.
    fn running_on(&self, index: usize) -> Vec<usize> {
        let runs = self.running.iter().filter(|(_, run)| run.device == index);
        runs.map(|(&number, _)| number).collect()
    }

    /// Fails all attempts on a device, oldest first; hung ones only if the device is lost.
    pub(super) fn fail_all(&mut self, index: usize, fault: DeviceFault, what: &str) {
        for number in self.running_on(index) {
            // An attempt that returns may end others.
            let Some(run) = self.running.get_mut(&number) else { continue };
            if !run.hung || fault == DeviceFault::Lost {
                let device = self.planner.devices()[index].info.label();
                run.fate = Err(Error::Device { device, what: what.into(), fault });
                self.leave(number);
            }
        }
    }

    /// Begins an attempt and decides its result.
    pub(super) fn begin(&mut self, mut run: SimAttempt) {
        let (device, task) = (run.device, &self.scenario.tasks[run.task]);
        let place = &self.places[device];
        let label = self.planner.devices()[device].info.label();
        let company = place.free.len() + 1 < self.scenario.devices[device].slots as usize;
        let at_once = if self.scenario.devices[device].fail_at.is_some_and(|at| at <= self.now) {
            let what = "it has fallen off the bus".into();
            Some(Error::Device { device: label.clone(), what, fault: DeviceFault::Lost })
        } else if self.now < place.memory_short_until {
            let (needed, place) = (task.device_bytes, label.clone());
            Some(Error::NoMemory { what: "the task".into(), needed, place, there: 0 })
        } else if company && self.now < place.resources_short_until {
            Some(Error::Resources { device: label.clone(), what: "registers".into() })
        } else {
            None
        };
        if let Some(error) = at_once {
            run.fate = Err(error);
            run.left = INSTANT * place.speed;
        } else if self.now < place.wrong_until {
            run.fate = Err(Error::WrongResult { device: label, what: "a bit has turned over".into() });
        } else if task.poison {
            let what = "an illegal address".into();
            run.fate = Err(Error::Device { device: label, what, fault: DeviceFault::Poisoned });
        } else if self.failures[run.task] > 0 {
            self.failures[run.task] -= 1;
            run.fate = Err(Error::Callback { code: 1 });
        }
        self.record(&run, SimEventKind::Begin);
        self.begun += 1;
        self.running.insert(self.begun, run);
        self.expect(self.begun);
    }
}
