//! Parallel loops.

use std::ops;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gpusched::error::DeviceFault;
use gpusched::sched::{DeviceMask, Exec, Range, Scheduler, Task, TaskId, TaskStatus, WaitResult};
use gpusched::{Error, Result};

use crate::scripted::*;

/// Number of times that each element succeeded, and numbers of calls of the code and the drop.
#[derive(Default)]
struct Counted {
    times: Vec<AtomicU32>,
    calls: AtomicU64,
    largest: AtomicU64,
    dropped: AtomicU32,
}

impl Counted {
    fn new(elements: usize) -> Arc<Self> {
        let times = (0..elements).map(|_| AtomicU32::new(0)).collect();
        Arc::new(Counted { times, ..Counted::default() })
    }

    /// Returns a range over all elements; counts the elements for which `code` succeeds.
    fn range(
        self: &Arc<Self>,
        code: impl Fn(&Exec<'_>, ops::Range<u64>) -> Result<()> + Send + Sync + 'static,
    ) -> Range {
        let (counted, own) = (self.clone(), self.clone());
        let on_drop = OnDrop(move || _ = own.dropped.fetch_add(1, Ordering::Relaxed));
        Range::new(0..self.times.len() as u64, move |exec, piece| {
            let _ = &on_drop;
            assert!(piece.start < piece.end);
            counted.calls.fetch_add(1, Ordering::Relaxed);
            counted.largest.fetch_max(piece.end - piece.start, Ordering::Relaxed);
            code(exec, piece.clone())?;
            piece.for_each(|element| _ = counted.times[element as usize].fetch_add(1, Ordering::Relaxed));
            Ok(())
        })
    }

    fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Returns whether so many elements have ended.
    fn has_done(&self, elements: usize) -> bool {
        self.times.iter().filter(|count| count.load(Ordering::Relaxed) > 0).count() >= elements
    }

    fn each(&self, times: u32) -> bool {
        self.times.iter().all(|count| count.load(Ordering::Relaxed) == times)
    }
}

fn submit(scheduler: &Scheduler, grain: Option<u64>, range: Range) -> TaskId {
    scheduler.submit_range(Range { grain, ..range }).unwrap()
}

fn go(scheduler: &Scheduler, grain: Option<u64>, range: Range) -> Result<WaitResult> {
    wait(scheduler, submit(scheduler, grain, range))
}

#[test]
fn every_element_is_done_once_whatever_grain_and_slots() {
    for (devices, slots, elements, grain) in [
        (1, 1, 1000, Some(1)),
        (1, 2, 1000, Some(7)),
        (2, 2, 10_000, None),
        (3, 1, 997, Some(1000)),
        (1, 4, 1, None),
        (2, 3, 100_000, Some(10)),
        (1, 2, 1_000_000, None),
    ] {
        let scheduler = Scripted::new(devices).scheduler(slots);
        let counted = Counted::new(elements);
        let mut range = counted.range(|_, _| Ok(()));
        range.task.label = "stack".into();
        let id = submit(&scheduler, grain, range);
        assert_eq!(wait(&scheduler, id), Ok(WaitResult::Done));
        assert!(counted.each(1), "{devices} devices, {slots} slots, {elements} elements, grain {grain:?}");
        assert_eq!(counted.dropped.load(Ordering::Relaxed), 1, "before the end is seen");
        let info = scheduler.info(id).unwrap();
        assert_eq!((info.state, info.progress, info.label.as_str()), (TaskStatus::Done, 1.0, "stack"));
        match grain {
            Some(grain) => assert!(counted.largest.load(Ordering::Relaxed) <= grain),
            // Elements that take no time, so pieces grow.
            None => assert!(counted.calls() <= 1 + elements as u64 / 10, "{} calls", counted.calls()),
        }
    }
}

#[test]
fn progress_of_a_range_never_goes_back() {
    let scheduler = Scripted::new(1).scheduler(8);
    let range = Range { grain: Some(1), ..Range::new(0..2_000_000, |_, _| Ok(())) };
    let id = scheduler.submit_range(range).unwrap();
    let mut before = 0.0;
    while before < 1.0 {
        let now = scheduler.info(id).unwrap().progress;
        assert!(now >= before, "{now} after {before}");
        before = now;
    }
}

#[test]
fn range_gets_helpers_while_the_scheduler_is_drained() {
    let scheduler = Scripted::new(2).scheduler(1);
    let busy = [(); 2].map(|()| occupy_as(&scheduler, |task| Task { priority: 1, ..task }).1);
    let (gate, counted) = (Gate::new(), Counted::new(2));
    let range = counted.range(move |_, _| {
        gate.pass();
        Ok(())
    });
    submit(&scheduler, Some(1), range);
    thread::scope(|scope| {
        let drains = scope.spawn(|| scheduler.drain(LONG));
        while scheduler.submit(Task { detached: true, ..quick() }).is_ok() {
            thread::yield_now();
        }
        busy.iter().for_each(|gate| gate.open());
        gate.came(2);
        gate.open();
        assert_eq!(drains.join().unwrap(), Ok(WaitResult::Done));
    });
    assert!(counted.each(1));
}

#[test]
fn range_may_reach_the_largest_number() {
    let scheduler = Scripted::new(1).scheduler(2);
    let sum = Arc::new(AtomicU64::new(0));
    for grain in [None, Some(3), Some(u64::MAX)] {
        let seen = sum.clone();
        let range = Range::new(u64::MAX - 9..u64::MAX, move |_, piece| {
            seen.fetch_add(piece.map(|element| u64::MAX - element).sum(), Ordering::Relaxed);
            Ok(())
        });
        assert_eq!(go(&scheduler, grain, range), Ok(WaitResult::Done));
        assert_eq!(sum.swap(0, Ordering::Relaxed), 45);
    }
    let refused = scheduler.submit_range(Range { grain: Some(0), ..Range::new(0..3, |_, _| Ok(())) });
    assert!(refused.unwrap_err().to_string().contains("grain"));
}

/// The slow device computes its first element until all but three are done. It leaves the rest to the
/// other device, which ends them sooner. That one waits for the begin and the end of this element.
#[test]
fn slow_device_takes_no_element_that_another_ends_sooner() {
    const ELEMENTS: usize = 400;
    let scheduler = Scripted::new(2).scheduler(1);
    let counted = Counted::new(ELEMENTS);
    let slow = Arc::new(AtomicU64::new(0));
    let (done, taken, ended) = (counted.clone(), slow.clone(), AtomicBool::new(false));
    let range = counted.range(move |exec, piece| {
        let few_are_left = || done.has_done(ELEMENTS - 3);
        if exec.device_index == 1 {
            taken.fetch_add(piece.end - piece.start, Ordering::Relaxed);
            until(few_are_left);
            ended.store(true, Ordering::Relaxed);
        } else {
            let has_begun = || taken.load(Ordering::Relaxed) > 0;
            until(|| ended.load(Ordering::Relaxed) || has_begun() && !few_are_left());
            thread::sleep(Duration::from_millis(1) * (piece.end - piece.start) as u32);
        }
        Ok(())
    });
    assert_eq!(go(&scheduler, Some(1), range), Ok(WaitResult::Done));
    assert!(counted.each(1));
    assert_eq!(slow.load(Ordering::Relaxed), 1);
}

#[test]
fn an_endless_range_is_cancelled_in_the_middle() {
    let scheduler = Scripted::new(2).scheduler(2);
    for (elements, grain) in [(1 << 40, None), (u64::MAX, Some(1)), (u64::MAX, Some(u64::MAX / 9))] {
        let (begun, over) = (Gate::opened(), Arc::new(AtomicBool::new(false)));
        let late = over.clone();
        let range = Range::new(0..elements, move |exec, piece| {
            assert!(!late.load(Ordering::SeqCst), "a piece began after the range had ended");
            begun.pass();
            // A microsecond per element, so that elements always remain.
            let end = Instant::now() + Duration::from_micros((piece.end - piece.start).min(10_000_000));
            while !exec.cancelled() && Instant::now() < end {
                thread::yield_now();
            }
            Ok(())
        });
        let id = submit(&scheduler, grain, range);
        begun.came(3);
        scheduler.cancel(id).unwrap();
        assert_eq!(wait(&scheduler, id), Ok(WaitResult::Cancelled));
        over.store(true, Ordering::SeqCst);
    }
    wait_all(&scheduler);
}

/// Each range has an element that only the device of the other range's owner can compute.
#[test]
fn two_ranges_that_need_each_others_devices_both_end() {
    let scheduler = Scripted::new(2).scheduler(1);
    let both = Gate::new();
    let range = || {
        let first = AtomicU32::new(u32::MAX);
        Range::new(0..1, move |exec, _| {
            let here = exec.device_index as u32;
            match first.compare_exchange(u32::MAX, here, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => both.pass(),
                Err(first) if first != here => return Ok(()),
                Err(_) => {}
            }
            Err(no_memory(exec, 2000))
        })
    };
    let ids = [(); 2].map(|()| submit(&scheduler, None, range()));
    both.came(2);
    both.open();
    ids.into_iter().for_each(|id| assert_eq!(wait(&scheduler, id), Ok(WaitResult::Done)));
}

#[test]
fn range_does_not_wait_for_a_busy_device_without_end() {
    let backend = Arc::new(Scripted::new(2));
    backend.fates[1].busy.store(true, Ordering::Relaxed);
    let mut builder = builder(backend.clone(), 1);
    builder.policy.rounds_beside_others = 5;
    let scheduler = builder.build().unwrap();
    let id = submit(&scheduler, None, Range::new(0..1, |exec, _| Err(no_memory(exec, 500))));
    assert!(matches!(wait(&scheduler, id), Err(Error::NoMemory { .. } | Error::Busy { .. })));
    // The helper's attempt counts as one of the rounds.
    let opened = backend.opened.load(Ordering::Relaxed);
    assert!(opened <= 1 + 1 + 6, "{opened} times");
}

#[test]
fn range_that_fitted_no_device_gets_helpers_when_it_is_tried_again() {
    let scheduler = Scripted::new(2).scheduler(1);
    let (gate, counted) = (Gate::new(), Counted::new(2));
    let range = counted.range(move |exec, _| {
        if exec.attempt == 1 {
            return Err(no_memory(exec, 500));
        }
        gate.pass();
        Ok(())
    });
    let id = submit(&scheduler, Some(1), range);
    gate.came(2);
    gate.open();
    assert_eq!(wait(&scheduler, id), Ok(WaitResult::Done));
    assert!(counted.each(1));
}

#[test]
fn memory_is_leased_for_each_element_of_a_piece() {
    let scheduler = Scripted::new(1).scheduler(3);
    let [now, most] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
    let (taken, peak) = (now.clone(), most.clone());
    let counted = Counted::new(300);
    let mut range = counted.range(move |_, piece| {
        let bytes = 100 * (piece.end - piece.start);
        peak.fetch_max(taken.fetch_add(bytes, Ordering::SeqCst) + bytes, Ordering::SeqCst);
        thread::sleep(Duration::from_micros(200));
        taken.fetch_sub(bytes, Ordering::SeqCst);
        Ok(())
    });
    range.task.device_bytes = 100;
    assert_eq!(go(&scheduler, Some(64), range), Ok(WaitResult::Done));
    assert!(counted.each(1));
    let most = most.load(Ordering::SeqCst);
    assert!((200..=1000).contains(&most), "{most} bytes of 1000");
    scheduler.shutdown().unwrap();
    assert_eq!(scheduler.stats().unwrap().devices[0].leased_bytes, 0);
}

#[test]
fn a_task_that_needs_memory_gets_it_between_pieces() {
    let scheduler = Scripted::new(1).scheduler(2);
    let (gate, counted) = (Gate::new(), Counted::new(2000));
    let mut range = counted.range(|_, _| {
        gate.pass();
        thread::sleep(Duration::from_millis(1));
        Ok(())
    });
    // Pieces of eight elements take 800 of 1000 bytes, again and again; the other slot cannot run a
    // piece beside them.
    range.task.device_bytes = 100;
    let id = submit(&scheduler, Some(8), range);
    gate.came(1);
    let (before, seen) = (counted.clone(), Arc::new(AtomicU64::new(u64::MAX)));
    let saw = seen.clone();
    let large = effect(move || saw.store(before.calls(), Ordering::SeqCst));
    let large = scheduler.submit(Task { device_bytes: 700, ..large }).unwrap();
    gate.open();
    assert_eq!([large, id].map(|id| wait(&scheduler, id)), [Ok(WaitResult::Done), Ok(WaitResult::Done)]);
    assert!(counted.each(1));
    let (seen, all) = (seen.load(Ordering::SeqCst), counted.calls());
    assert!(seen < all / 2, "it began after {seen} of {all} pieces");
}

/// At most one helper is queued, however often a helper leaves because a task waits.
#[test]
fn task_does_not_wait_for_many_helpers() {
    let scheduler = tuned(3, |policy| policy.helper_stay = Duration::from_micros(50));
    let on = |device| move |task| Task { devices: DeviceMask::only(device), ..task };
    let [first, last] = [0, 2].map(|device| occupy_as(&scheduler, on(device)).1);
    scheduler.submit(on(2)(quick())).unwrap();
    let [owned, helped, seen] = [(); 3].map(|()| Arc::new(AtomicU32::new(0)));
    let (calls, helps, [count, saw]) = (owned.clone(), helped.clone(), [helped.clone(), seen.clone()]);
    let range = Range::new(0..u64::MAX, move |exec, _| {
        let end = Instant::now() + Duration::from_micros(10);
        if exec.device_index == 0 { &helps } else { &calls }.fetch_add(1, Ordering::SeqCst);
        while Instant::now() < end {}
        Ok(())
    });
    let range = submit(&scheduler, Some(1), range);
    // The first device joins as a helper.
    until(|| owned.load(Ordering::SeqCst) > 0);
    first.open();
    until(|| helped.load(Ordering::SeqCst) > 20_000);
    let task = effect(move || saw.store(count.load(Ordering::SeqCst), Ordering::SeqCst));
    let id = scheduler.submit(Task { devices: DeviceMask(0b11), ..task }).unwrap();
    let before = helped.load(Ordering::SeqCst);
    assert_eq!(wait(&scheduler, id), Ok(WaitResult::Done));
    let between = seen.load(Ordering::SeqCst).saturating_sub(before);
    assert!(between < 100, "helpers made {between} calls before it");
    scheduler.cancel(range).unwrap();
    last.open();
}

/// A piece that ends because of the deadline does not cancel the range, which is retried when its
/// device is lost.
#[test]
fn piece_that_ends_at_the_deadline_does_not_cancel_the_range() {
    let ended = [500, 2000, 8000].into_iter().find_map(|limit| ends_at(Duration::from_millis(limit)));
    assert_eq!(ended, Some(Ok(WaitResult::Done)));
}

/// Runs a range whose pieces end at the deadline. Returns `None` if no helper began before.
fn ends_at(deadline: Duration) -> Option<Result<WaitResult>> {
    let scheduler = Scripted::new(2).scheduler(1);
    // The worker of the other device joins as a helper after the owner has taken the first piece.
    let (_, busy) = occupy_as(&scheduler, |task| Task { devices: DeviceMask::only(1), ..task });
    let counted = Counted::new(2);
    let (calls, left) = (AtomicU32::new(0), Arc::new(AtomicBool::new(false)));
    let helped = left.clone();
    let mut range = counted.range(move |exec, _| {
        let call = calls.fetch_add(1, Ordering::SeqCst);
        if call > 1 || exec.attempt > 1 {
            return Ok(());
        }
        until(|| exec.cancelled());
        if call == 1 {
            left.store(true, Ordering::SeqCst);
            return Err(Error::Cancelled);
        }
        // The helper has left when the owner's device is lost.
        until(|| left.load(Ordering::SeqCst) || calls.load(Ordering::SeqCst) == 1);
        thread::sleep(Duration::from_millis(50));
        Err(device_fault(exec.device.label(), DeviceFault::Lost))
    });
    // The deadline holds for every attempt, also for the last on a busy machine.
    range.task.deadline = Some(deadline);
    let id = submit(&scheduler, Some(1), range);
    until(|| counted.calls() == 1);
    busy.open();
    let ended = wait(&scheduler, id);
    let helped = helped.load(Ordering::SeqCst);
    assert!(!helped || ended.is_err() || counted.each(1));
    helped.then_some(ended)
}

#[test]
fn element_that_breaks_devices_does_not_retire_all() {
    // The single device fails under all elements from 42 on.
    let alone = (1, DeviceFault::Poisoned, 99);
    for (devices, fault, last) in [(4, DeviceFault::Lost, 42), (4, DeviceFault::Poisoned, 42), alone] {
        let scheduler = Scripted::new(devices).scheduler(1);
        let range = Counted::new(100).range(move |exec, piece| match piece.end > 42 && piece.start <= last {
            true => Err(device_fault(exec.device.label(), fault)),
            false => Ok(()),
        });
        let error = go(&scheduler, Some(5), range).unwrap_err();
        assert!(error.to_string().contains("elements 4"), "{error}");
        assert_eq!(run(&scheduler, quick()), Ok(WaitResult::Done), "devices are left");
    }
}

#[test]
fn range_goes_on_after_two_devices_failed_under_different_elements() {
    let scheduler = Scripted::new(3).scheduler(1);
    let only = |gpu| occupy_as(&scheduler, |task| Task { devices: DeviceMask::only(gpu), ..task }).1;
    let (busy, counted, faults) = ([1, 2].map(only), Counted::new(20), Arc::new(AtomicU32::new(0)));
    let failed = faults.clone();
    let range = counted.range(move |exec, piece| {
        let gpu = exec.device_index as u32;
        if gpu < 2 && gpu == failed.load(Ordering::SeqCst) && (gpu == 0 || piece.start > 0) {
            failed.fetch_add(1, Ordering::SeqCst);
            return Err(device_fault(exec.device.label(), DeviceFault::Poisoned));
        }
        // A helper leaves the other elements to the owner.
        until(|| gpu > 0 || failed.load(Ordering::SeqCst) == 2);
        Ok(())
    });
    let id = submit(&scheduler, Some(1), range);
    for (before, gate) in busy.into_iter().enumerate() {
        until(|| faults.load(Ordering::SeqCst) as usize > before);
        gate.open();
    }
    assert_eq!(wait(&scheduler, id), Ok(WaitResult::Done));
    assert!(counted.each(1));
}

fn nest(scheduler: &Arc<Scheduler>, depth: u32, device_bytes: u64, sum: &Arc<AtomicU64>) -> Range {
    let (again, sum) = (Arc::downgrade(scheduler), sum.clone());
    let mut range = Range::new(0..4, move |exec, piece| {
        for element in piece {
            if depth == 0 {
                sum.fetch_add(element, Ordering::Relaxed);
                continue;
            }
            let scheduler = again.upgrade().ok_or(Error::Cancelled)?;
            let inner = scheduler.submit_range(nest(&scheduler, depth - 1, device_bytes, &sum))?;
            assert!(matches!(scheduler.wait(exec.task, None), Err(Error::Deadlock { .. })), "for itself");
            assert_eq!(scheduler.wait(inner, LONG)?, WaitResult::Done);
        }
        Ok(())
    });
    range.task.device_bytes = device_bytes;
    Range { grain: Some(1), ..range }
}

#[test]
fn nested_ranges_end() {
    for (devices, slots) in [(1, 1), (1, 2), (2, 2)] {
        for device_bytes in [0, 1] {
            let scheduler = Scripted::new(devices).scheduler(slots);
            let sum = Arc::new(AtomicU64::new(0));
            let ended = go(&scheduler, Some(1), nest(&scheduler, 3, device_bytes, &sum));
            assert_eq!(ended, Ok(WaitResult::Done), "{devices} devices with {slots} slots");
            assert_eq!(sum.load(Ordering::Relaxed), 6 * 64);
        }
    }
}

#[test]
fn owner_that_waits_for_its_helpers_leaves_its_slot_to_others() {
    let scheduler = Scripted::new(2).scheduler(1);
    let gate = Gate::new();
    // Each worker has one element; the element on the second device waits for a task that needs the
    // first.
    let weak = Arc::downgrade(&scheduler);
    let range = Range::new(0..2, move |exec, _| {
        gate.pass();
        if exec.device_index == 0 {
            return Ok(());
        }
        let scheduler = weak.upgrade().ok_or(Error::Cancelled)?;
        run(&scheduler, Task { devices: DeviceMask(1), ..quick() }).map(drop)
    });
    let id = submit(&scheduler, Some(1), range);
    gate.came(2);
    gate.open();
    assert_eq!(wait(&scheduler, id), Ok(WaitResult::Done));
}

#[test]
fn results_come_in_order() {
    let scheduler = Scripted::new(2).scheduler(2);
    let squares = scheduler.map_range(10..110, |_, element| Ok(element * element)).unwrap();
    assert_eq!(squares, (10..110).map(|element| element * element).collect::<Vec<u64>>());
    let failed = scheduler.map_range(0..10, move |_, element| match element {
        7 => Err(Error::Callback { code: 3 }),
        _ => Ok(()),
    });
    assert!(failed.is_err_and(|error| error.to_string().contains("returned 3")));
    assert_eq!(scheduler.map_range(5..5, |_, _| Ok(())), Ok(Vec::new()));
    assert!(matches!(scheduler.map_range(0..u64::MAX, |_, _| Ok(())), Err(Error::NoHostMemory { .. })));
}
