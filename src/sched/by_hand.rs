//! The planned tasks' state driven by hand: rules that the simulation has no words for.

use std::time::Duration;

use super::placement::{Assignment, Fitting, Taken};
use super::policy::HORIZON;
use super::rates::Rates;
use super::state::Core;
use super::task::{DeviceMask, Exec, State, Task, TaskId};
use super::verdict::Attempt;
use crate::device::{BackendKind, DeviceId, DeviceInfo, Health};
use crate::error::{DeviceFault, Error, Result};

const S: fn(u64) -> Duration = Duration::from_secs;

pub struct Hand(pub Core);

/// So many devices, alike.
pub fn hand(devices: usize) -> Hand {
    hand_of(&vec![1.0; devices])
}

/// Devices of one slot and 1000 bytes, and of these speeds.
fn hand_of(speeds: &[f64]) -> Hand {
    let device = |(ordinal, &speed): (usize, &f64)| DeviceInfo {
        id: DeviceId::new(&format!("GPU-{ordinal}")),
        backend: BackendKind::Cuda,
        ordinal: ordinal as u32,
        name: "paper".into(),
        pci_bus_id: None,
        compute_capability: None,
        cpu_threads: None,
        total_bytes: 1000,
        free_bytes: 1000,
        speed: Some(speed),
        health: Health::Good,
    };
    Hand(Core::new(speeds.iter().enumerate().map(|speed| (device(speed), 1)).collect()))
}

pub fn task() -> Task {
    Task { work: Some(1.0), ..Task::new(|_: &Exec<'_>| Ok(())) }
}

impl Hand {
    pub fn submit(&mut self, now: u64, task: Task) -> TaskId {
        self.0.check(&task).unwrap();
        self.0.admit(S(now), task).unwrap()
    }

    fn take(&mut self, now: u64, device: usize) -> Option<Assignment> {
        self.0.take(S(now), device, 0, Some(u64::MAX)).begun()
    }

    fn judge(&mut self, now: u64, device: usize, run: &Assignment, how: Attempt) {
        self.0.judge(S(now), device, run.id, run.attempt, how);
        self.publish(now);
    }

    fn ends(&mut self, now: u64, device: usize, run: &Assignment, outcome: Result<()>) {
        self.judge(now, device, run, Attempt::Ran(outcome));
    }

    fn pass(&mut self, now: u64) {
        self.0.pass(S(now));
        self.publish(now);
    }

    fn publish(&mut self, now: u64) {
        while let Some(ended) = self.0.ended.pop() {
            self.0.publish(S(now), ended.id, ended.outcome);
        }
    }

    fn state(&self, id: TaskId) -> State {
        self.0.tasks.get(id).unwrap().state
    }

    fn error(&self, id: TaskId) -> Option<Error> {
        self.0.tasks.get(id).unwrap().signal.outcome.get()?.clone().err()
    }

    /// Three tasks of a second each have ended well, so that it is known what is late.
    fn seasoned(mut self) -> Self {
        for now in 0..8 {
            self.submit(now, task());
            for device in 0..self.0.devices.len() {
                if let Some(run) = self.take(now, device) {
                    self.ends(now + 1, device, &run, Ok(()));
                }
            }
        }
        self
    }
}

#[test]
fn what_has_committed_and_does_not_return_is_given_up_in_the_end() {
    for idempotent in [false, true] {
        let mut hand = hand(2);
        let id = hand.submit(0, Task { deadline: Some(S(60)), idempotent, ..task() });
        let run = hand.take(0, 0).unwrap();
        run.signal.commit(run.attempt).unwrap();
        hand.pass(60);
        assert_eq!(hand.state(id), State::Running);
        assert_eq!(hand.0.alarm(S(60)), Some(S(120)), "it has as long again");
        hand.pass(120);
        assert!(matches!(hand.error(id), Some(Error::Deadline { .. })), "{:?}", hand.state(id));
        assert!(hand.0.devices[0].retired.is_some());
        assert!(hand.0.alarm(S(120)).is_none_or(|alarm| alarm > S(120)), "nothing is left to watch");
        assert_eq!((hand.0.given_up.len(), hand.take(121, 1).is_none()), (1, true));
        // It returns after all.
        hand.ends(200, 0, &run, Ok(()));
        assert_eq!(hand.state(id), State::Failed);
    }
}

#[test]
fn what_has_committed_and_hangs_is_not_left_to_a_copy_that_must_stop() {
    let mut hand = hand(2).seasoned();
    let id = hand.submit(10, Task { deadline: Some(S(20)), idempotent: true, ..task() });
    let first = hand.take(10, 0).unwrap();
    let second = hand.take(18, 1).expect("a copy, for the first is late");
    first.signal.commit(first.attempt).unwrap();
    hand.pass(30);
    hand.pass(50);
    hand.ends(51, 1, &second, Err(Error::Cancelled));
    assert!(matches!(hand.error(id), Some(Error::Deadline { .. })), "{:?}", hand.state(id));
}

#[test]
fn of_what_has_committed_no_copy_begins() {
    let mut hand = hand(2).seasoned();
    let id = hand.submit(10, Task { idempotent: true, ..task() });
    let run = hand.take(10, 0).unwrap();
    run.signal.commit(run.attempt).unwrap();
    // It writes for long.
    for now in [12, 16, 17, 60, 400] {
        hand.pass(now);
        assert!(hand.take(now, 1).is_none(), "at {now} s");
    }
    assert_eq!(hand.0.counts.copies, 0);
    hand.ends(401, 0, &run, Ok(()));
    assert_eq!(hand.state(id), State::Done);
}

#[test]
fn no_more_than_three_copies_run() {
    let mut hand = hand_of(&[1.0, 4.0, 16.0, 64.0, 256.0]);
    for device in 1..5 {
        hand.submit(0, Task { work: Some(1e6), devices: DeviceMask::only(device), ..task() });
    }
    let busy: Vec<Assignment> = (1..5).map(|device| hand.take(0, device).unwrap()).collect();
    let id = hand.submit(0, Task { idempotent: true, ..task() });
    hand.take(0, 0).unwrap();
    // It takes for ever, and device after device becomes free, each four times as fast as the one before.
    let copies = busy.iter().zip([10, 30, 90, 270]).enumerate().map(|(before, (run, now))| {
        hand.ends(now, before + 1, run, Err(Error::Callback { code: 1 }));
        hand.take(now, before + 1).map(|copy| copy.id)
    });
    let copies: Vec<Option<TaskId>> = copies.collect();
    assert_eq!(copies, [Some(id), Some(id), None, None]);
}

#[test]
fn work_that_no_sum_can_hold_is_refused() {
    let hand = hand(1);
    for work in [0.0, -1.0, 1e308, 1e-308, f64::NAN, f64::INFINITY] {
        let refused = hand.0.check(&Task { work: Some(work), ..task() });
        assert!(matches!(refused, Err(Error::Argument { .. })), "{work}");
    }
    for work in [1e-100, 1.0, 1e100] {
        assert_eq!(hand.0.check(&Task { work: Some(work), ..task() }), Ok(()));
    }
}

#[test]
fn a_task_that_says_itself_that_it_is_cancelled_is_not_tried_again() {
    let mut hand = hand(1);
    let id = hand.submit(0, Task { retries: 3, ..task() });
    let run = hand.take(0, 0).unwrap();
    hand.ends(1, 0, &run, Err(Error::Cancelled));
    assert_eq!((hand.state(id), hand.0.counts.retried, hand.0.counts.cancelled), (State::Cancelled, 0, 1));
}

#[test]
fn an_attempt_is_not_asked_to_stop_for_one_that_never_began() {
    let mut hand = hand(2);
    let id = hand.submit(0, Task { deadline: Some(S(60)), ..task() });
    let run = hand.take(0, 0).unwrap();
    // To open the device takes longer than the deadline, and fails then.
    hand.pass(60);
    assert!(run.signal.is_stopped(run.attempt));
    hand.judge(70, 0, &run, Attempt::NoQueue("it hangs".into()));
    let next = hand.take(70, 1).unwrap();
    assert!(!next.signal.is_stopped(next.attempt), "attempt {}", next.attempt);
    hand.ends(71, 1, &next, Ok(()));
    assert_eq!(hand.state(id), State::Done);
}

#[test]
fn what_ends_well_after_a_cancel_is_cancelled() {
    let mut hand = hand(1);
    let id = hand.submit(0, task());
    let run = hand.take(0, 0).unwrap();
    hand.0.cancel(id).unwrap();
    hand.ends(1, 0, &run, Ok(()));
    assert_eq!(hand.state(id), State::Cancelled);
}

#[test]
fn nothing_begins_on_a_device_before_the_backend_has_heard_of_its_poisoned_context() {
    let mut hand = hand(1);
    for _ in 0..2 {
        hand.submit(0, task());
    }
    let run = hand.take(0, 0).unwrap();
    let fault = DeviceFault::Poisoned;
    hand.ends(1, 0, &run, Err(Error::Device { device: "x".into(), what: "y".into(), fault }));
    assert_eq!(hand.0.renewed, [0]);
    assert!(hand.take(1, 0).is_none() && !hand.0.nothing_can_begin());
    hand.0.has_renewed(0);
    assert!(hand.take(1, 0).is_some());
}

#[test]
fn what_a_device_has_free_is_asked_only_where_it_matters() {
    let mut hand = Hand(Core::new(vec![(hand(1).0.devices[0].info.clone(), 3)]));
    for device_bytes in [100, 0, 300] {
        hand.submit(0, Task { device_bytes, work: None, ..task() });
    }
    for _ in 0..2 {
        assert!(matches!(hand.0.take(S(0), 0, 0, None), Taken::Begins(_)), "nothing to ask for");
    }
    assert!(matches!(hand.0.take(S(0), 0, 0, None), Taken::Unknown));
    assert!(matches!(hand.0.take(S(0), 0, 0, Some(299)), Taken::Nothing));
    assert!(matches!(hand.0.take(S(0), 0, 0, Some(300)), Taken::Begins(_)));
}

#[test]
fn what_is_for_others_does_not_keep_a_device_from_what_is_for_it() {
    for speed in [Some(1.0), None] {
        let mut hand = hand(2);
        hand.0.rates = Rates::new(vec![Some(1.0), speed]);
        for _ in 0..HORIZON + 100 {
            hand.submit(0, Task { devices: DeviceMask::only(0), work: Some(100.0), ..task() });
        }
        let id = hand.submit(0, task());
        let own = hand.submit(0, Task { devices: DeviceMask::only(1), ..task() });
        assert_eq!(hand.0.wanted(S(0)), [0, 1]);
        assert_eq!(hand.take(0, 1).map(|run| run.id), Some(id));
        hand.0.cancel(own).unwrap();
        assert!(hand.take(0, 0).is_some());
    }
}

#[test]
fn nobody_looks_through_the_ready_where_none_of_them_can_fit() {
    let mut hand = Hand(Core::new(vec![(hand(1).0.devices[0].info.clone(), 2)]));
    for _ in 0..100 {
        hand.submit(0, Task { device_bytes: 600, ..task() });
    }
    assert!(hand.take(0, 0).is_some());
    let tried = |hand: &Hand, free| {
        let mut fitting = Fitting::new(0, free);
        assert!(hand.0.choose(S(0), &mut fitting).is_none());
        fitting.passed.len()
    };
    assert_eq!(tried(&hand, None), 0);
    assert!(matches!(hand.0.take(S(0), 0, 1, None), Taken::Nothing), "nor need the device be asked");
    // Others have taken what the ledger would grant.
    hand.submit(0, Task { device_bytes: 400, ..task() });
    assert_eq!(tried(&hand, Some(399)), 0);
    assert!(hand.0.devices[0].short.is_none());
    assert!(matches!(hand.0.take(S(0), 0, 1, Some(399)), Taken::Nothing));
    assert_eq!(hand.0.devices[0].free(S(0)), Some(399));
    assert!(hand.take(2, 0).is_some());
}

#[test]
fn what_is_to_run_alone_goes_where_it_is_alone_at_once() {
    let mut hand = hand(2);
    let id = hand.submit(0, task());
    hand.0.devices[0].light = true;
    let run = hand.take(0, 0).unwrap();
    let full = Error::NoMemory { what: "x".into(), needed: 0, place: "y".into(), there: 0 };
    hand.ends(1, 0, &run, Err(full));
    assert_eq!((hand.0.alone, hand.0.devices[0].hold), (1, Some(id)));
    // A light task waits for it on the one device.
    assert_eq!(hand.0.wanted(S(1)), [1]);
    let run = hand.take(1, 1).unwrap();
    hand.ends(2, 1, &run, Ok(()));
    assert_eq!((hand.state(id), hand.0.alone), (State::Done, 0));
}

#[test]
fn what_stands_for_a_light_task_does_not_end_because_no_device_is_left() {
    let mut hand = hand(1);
    hand.0.retire(0, "gone");
    let shadow = hand.0.admit_shadow(S(0)).unwrap();
    assert!(hand.0.ended.is_empty());
    hand.0.finish(shadow, Ok(()));
    assert_eq!(hand.0.ended.len(), 1);
}
