//! Parallel loops.

use std::ops;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use gpusched::error::DeviceFault;
use gpusched::sched::{DeviceMask, Exec, Range, Scheduler, State, Task, Wait};
use gpusched::{Error, Result};

use crate::scripted::*;
use testkit::Random;

/// How often each element has ended well, and how often code and drop were called.
struct Counted {
    times: Vec<AtomicU32>,
    calls: AtomicU64,
    largest: AtomicU64,
    dropped: AtomicU32,
}

impl Counted {
    fn new(elements: usize) -> Arc<Self> {
        Arc::new(Counted {
            times: (0..elements).map(|_| AtomicU32::new(0)).collect(),
            calls: AtomicU64::new(0),
            largest: AtomicU64::new(0),
            dropped: AtomicU32::new(0),
        })
    }

    /// The range 0 to the number of elements; what `code` lets pass is counted.
    fn range(
        self: &Arc<Self>,
        code: impl Fn(&Exec<'_>, ops::Range<u64>) -> Result<()> + Send + Sync + 'static,
    ) -> Range {
        let counted = Dropping(self.clone());
        Range::new(0..self.times.len() as u64, move |exec, piece| {
            let counted = &counted.0;
            assert!(piece.start < piece.end);
            counted.calls.fetch_add(1, Ordering::Relaxed);
            counted.largest.fetch_max(piece.end - piece.start, Ordering::Relaxed);
            code(exec, piece.clone())?;
            for element in piece {
                counted.times[element as usize].fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        })
    }

    fn each(&self, times: u32) -> bool {
        self.times.iter().all(|count| count.load(Ordering::Relaxed) == times)
    }

    fn at_most_once(&self) -> bool {
        self.times.iter().all(|count| count.load(Ordering::Relaxed) <= 1)
    }

    fn drops(&self) -> u32 {
        self.dropped.load(Ordering::Relaxed)
    }
}

struct Dropping(Arc<Counted>);

impl Drop for Dropping {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

fn no_room(exec: &Exec<'_>, needed: u64) -> Error {
    Error::NoMemory { what: "the piece".into(), needed, place: exec.device.label(), there: 1000 }
}

fn broken(exec: &Exec<'_>, fault: DeviceFault) -> Error {
    Error::Device { device: exec.device.label(), what: "scripted to fail".into(), fault }
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
    ] {
        let scheduler = Scripted::new(devices).scheduler(slots);
        let counted = Counted::new(elements);
        let range = counted.range(|_, _| Ok(()));
        let id = scheduler.submit_range(Range { grain, ..range }).unwrap();
        assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
        assert!(counted.each(1), "{devices} devices, {slots} slots, {elements} elements, grain {grain:?}");
        assert_eq!(counted.drops(), 1, "before the end is told");
        let info = scheduler.info(id).unwrap();
        assert_eq!((info.state, info.progress), (State::Done, 1.0));
        if let Some(grain) = grain {
            assert!(counted.largest.load(Ordering::Relaxed) <= grain);
        }
    }
}

#[test]
fn range_has_the_label_that_it_was_given() {
    let scheduler = Scripted::new(1).scheduler(1);
    let range = Range { label: "stack".into(), ..Counted::new(3).range(|_, _| Ok(())) };
    let id = scheduler.submit_range(range).unwrap();
    assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
    assert_eq!(scheduler.info(id).unwrap().label, "stack");
}

#[test]
fn all_slots_take_part_also_while_the_first_is_busy_with_one_element() {
    let scheduler = Scripted::new(2).scheduler(2);
    let gate = Gate::new();
    let door = gate.clone();
    let counted = Counted::new(8);
    let range = counted.range(move |_, _| {
        door.pass();
        Ok(())
    });
    let id = scheduler.submit_range(Range { grain: Some(1), ..range }).unwrap();
    gate.came(4);
    gate.open();
    assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
    assert!(counted.each(1));
}

#[test]
fn a_range_has_all_its_help_also_when_the_scheduler_is_drained() {
    let scheduler = Scripted::new(2).scheduler(1);
    let (busy, gate) = (Gate::new(), Gate::new());
    for _ in 0..2 {
        scheduler.submit(Task { priority: 1, ..gated(&busy) }).unwrap();
    }
    busy.came(2);
    let (door, counted) = (gate.clone(), Counted::new(2));
    let range = counted.range(move |_, _| {
        door.pass();
        Ok(())
    });
    scheduler.submit_range(Range { grain: Some(1), ..range }).unwrap();
    thread::scope(|scope| {
        let drains = scope.spawn(|| scheduler.drain(LONG));
        while scheduler.submit(Task { detached: true, ..quick() }).is_ok() {
            thread::yield_now();
        }
        busy.open();
        gate.came(2);
        gate.open();
        assert_eq!(drains.join().unwrap(), Ok(Wait::Done));
    });
    assert!(counted.each(1));
}

#[test]
fn calls_grow_when_no_grain_is_given() {
    let scheduler = Scripted::new(1).scheduler(2);
    let counted = Counted::new(1_000_000);
    let id = scheduler.submit_range(counted.range(|_, _| Ok(()))).unwrap();
    assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
    assert!(counted.each(1));
    let calls = counted.calls.load(Ordering::Relaxed);
    assert!(calls < 100_000, "{calls} calls for elements that take no time");
}

#[test]
fn ranges_that_make_no_sense_are_refused_with_the_numbers() {
    let scheduler = Scripted::new(1).scheduler(1);
    let code = |_: &Exec<'_>, _: ops::Range<u64>| Ok(());
    let refused = |range: Range| scheduler.submit_range(range).unwrap_err().to_string();
    #[expect(clippy::reversed_empty_ranges, reason = "it is to be refused")]
    let words = refused(Range::new(7..3, code));
    assert!(words.contains('7') && words.contains('3'), "{words}");
    assert!(refused(Range { grain: Some(0), ..Range::new(0..3, code) }).contains("grain"));
    assert!(refused(Range { device_bytes: 1001, ..Range::new(0..3, code) }).contains("1001"));
    assert!(refused(Range { devices: DeviceMask(2), ..Range::new(0..3, code) }).contains("0x2"));
}

#[test]
fn a_range_without_elements_ends_well_and_its_code_is_dropped() {
    let scheduler = Scripted::new(1).scheduler(1);
    let counted = Counted::new(0);
    let id = scheduler.submit_range(counted.range(|_, _| Ok(()))).unwrap();
    assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
    assert_eq!((counted.calls.load(Ordering::Relaxed), counted.drops()), (0, 1));
    // Nor does it wait for a slot, but for what it comes after.
    let gate = Gate::new();
    let busy = scheduler.submit(gated(&gate)).unwrap();
    gate.came(1);
    let free = scheduler.submit_range(counted.range(|_, _| Ok(()))).unwrap();
    assert_eq!(wait(&scheduler, free), Ok(Wait::Done));
    let behind = scheduler.submit_range(Range { after: vec![busy], ..counted.range(|_, _| Ok(())) }).unwrap();
    assert_eq!(scheduler.wait(behind, Some(Duration::ZERO)), Ok(Wait::Pending));
    gate.open();
    assert_eq!(wait(&scheduler, behind), Ok(Wait::Done));
}

/// Ranges with whatever may happen to their pieces, by a seed: what ended well was once, and nothing hangs.
#[test]
fn any_grain_any_slots_any_trouble() {
    for seed in 0..60_u64 {
        let mut random = Random::new(seed);
        let mut draw = |end: u64| random.below(end as usize) as u64;
        let (devices, slots) = (1 + draw(4) as u32, 1 + draw(3) as u32);
        let grain = (draw(2) == 0).then(|| 1 + draw(50));
        let room: Vec<u64> = (0..devices).map(|_| 1 + draw(40)).collect();
        // At most one device is lost, and never the only one; some elements fail in some runs.
        let lost = (devices > 1 && draw(2) == 0).then(|| draw(u64::from(devices)) as usize);
        let bad = (draw(4) == 0).then(|| draw(700));
        let stop = draw(6) == 0;
        let scheduler = Scripted::new(devices).scheduler(slots);
        let counted = Counted::new(700);
        let calls = AtomicU32::new(0);
        let range = counted.range(move |exec, piece| {
            let call = calls.fetch_add(1, Ordering::Relaxed);
            if lost == Some(exec.device_index) && call > 20 {
                return Err(broken(exec, DeviceFault::Lost));
            }
            if piece.end - piece.start > room[exec.device_index] {
                return Err(no_room(exec, piece.end - piece.start));
            }
            if bad.is_some_and(|bad| piece.contains(&bad)) {
                return Err(Error::Callback { code: 5 });
            }
            thread::yield_now();
            Ok(())
        });
        let id = scheduler.submit_range(Range { grain, ..range }).unwrap();
        if stop {
            scheduler.cancel(id).unwrap();
        }
        match wait(&scheduler, id) {
            Ok(Wait::Done) => assert!(counted.each(1) && bad.is_none(), "seed {seed}"),
            Ok(Wait::Cancelled) => assert!(stop && counted.at_most_once(), "seed {seed}"),
            Err(error) => assert!(bad.is_some() && counted.at_most_once(), "seed {seed}: {error}"),
            Ok(Wait::Pending) => unreachable!("it was waited for"),
        }
        assert_eq!(counted.drops(), 1, "seed {seed}");
    }
}

#[test]
fn bounds_at_the_end_of_the_numbers() {
    let scheduler = Scripted::new(1).scheduler(2);
    let sum = Arc::new(AtomicU64::new(0));
    for grain in [None, Some(3), Some(u64::MAX)] {
        let seen = sum.clone();
        let range = Range::new(u64::MAX - 9..u64::MAX, move |_, piece| {
            seen.fetch_add(piece.map(|element| u64::MAX - element).sum(), Ordering::Relaxed);
            Ok(())
        });
        let id = scheduler.submit_range(Range { grain, ..range }).unwrap();
        assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
        assert_eq!(sum.swap(0, Ordering::Relaxed), 45);
    }
}

#[test]
fn an_endless_range_is_cancelled_in_the_middle() {
    let scheduler = Scripted::new(2).scheduler(2);
    for (elements, grain) in [(1 << 40, None), (u64::MAX, Some(1)), (u64::MAX, Some(u64::MAX / 9))] {
        let (begun, over) = (Gate::new(), Arc::new(AtomicU32::new(0)));
        begun.open();
        let (door, late) = (begun.clone(), over.clone());
        let range = Range::new(0..elements, move |exec, piece| {
            assert_eq!(late.load(Ordering::SeqCst), 0, "a piece began after the range had ended");
            door.pass();
            // A microsecond an element, so that there is always more to do.
            let end = Instant::now() + Duration::from_micros((piece.end - piece.start).min(10_000_000));
            while !exec.cancelled() && Instant::now() < end {
                thread::yield_now();
            }
            Ok(())
        });
        let id = scheduler.submit_range(Range { grain, ..range }).unwrap();
        begun.came(3);
        scheduler.cancel(id).unwrap();
        assert_eq!(wait(&scheduler, id), Ok(Wait::Cancelled));
        over.store(1, Ordering::SeqCst);
    }
    assert_eq!(scheduler.wait_all(LONG), Ok(Wait::Done));
}

#[test]
fn cancelled_before_it_began() {
    let scheduler = Scripted::new(1).scheduler(1);
    let gate = Gate::new();
    scheduler.submit(gated(&gate)).unwrap();
    gate.came(1);
    let counted = Counted::new(10);
    let id = scheduler.submit_range(counted.range(|_, _| Ok(()))).unwrap();
    scheduler.cancel(id).unwrap();
    assert_eq!(wait(&scheduler, id), Ok(Wait::Cancelled));
    assert_eq!((counted.drops(), counted.calls.load(Ordering::Relaxed)), (1, 0));
    gate.open();
}

#[test]
fn the_first_error_ends_it_and_names_the_elements() {
    let scheduler = Scripted::new(1).scheduler(2);
    let counted = Counted::new(1000);
    let range = counted.range(|_, piece| match piece.contains(&500) {
        true => Err(Error::Callback { code: 17 }),
        false => Ok(()),
    });
    let id = scheduler.submit_range(Range { grain: Some(10), ..range }).unwrap();
    let error = wait(&scheduler, id).unwrap_err();
    let Error::Elements { begin, end, ref why } = error else { panic!("{error}") };
    assert!((begin..end).contains(&500) && **why == Error::Callback { code: 17 });
    assert!(error.to_string().contains(&begin.to_string()), "{error}");
    assert!(counted.at_most_once() && counted.drops() == 1);
}

#[test]
fn a_panic_is_an_error_and_a_cancel_from_inside_is_a_cancel() {
    let scheduler = Scripted::new(1).scheduler(2);
    let counted = Counted::new(100);
    let id = scheduler.submit_range(counted.range(|_, piece| {
        assert!(piece.end < 50, "as the test wants it");
        Ok(())
    }));
    let error = wait(&scheduler, id.unwrap()).unwrap_err();
    assert!(error.to_string().contains("as the test wants it"), "{error}");
    let stops = Counted::new(100);
    let id = scheduler.submit_range(stops.range(|_, _| Err(Error::Cancelled)));
    assert_eq!(wait(&scheduler, id.unwrap()), Ok(Wait::Cancelled));
    assert_eq!(stops.drops(), 1);
}

#[test]
fn pieces_are_halved_until_they_fit() {
    let scheduler = Scripted::new(2).scheduler(1);
    let counted = Counted::new(1000);
    let failed = Arc::new(AtomicU32::new(0));
    let seen = failed.clone();
    let range = counted.range(move |exec, piece| {
        let most = [5, 1][exec.device_index];
        let size = piece.end - piece.start;
        if size > most {
            seen.fetch_add(1, Ordering::Relaxed);
            return Err(no_room(exec, size));
        }
        Ok(())
    });
    let id = scheduler.submit_range(Range { grain: Some(64), ..range }).unwrap();
    assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
    assert!(counted.each(1));
    let failed = failed.load(Ordering::Relaxed);
    assert!(failed <= 4 + 6, "the size that fits is remembered, not looked for again: {failed}");
}

#[test]
fn what_fits_one_device_only_is_done_there() {
    let scheduler = Scripted::new(2).scheduler(1);
    for large in [0, 1] {
        let counted = Counted::new(50);
        let range = counted.range(move |exec, _| match exec.device_index == large {
            true => Ok(()),
            false => Err(no_room(exec, 2000)),
        });
        let id = scheduler.submit_range(Range { grain: Some(4), ..range }).unwrap();
        assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
        assert!(counted.each(1));
    }
}

/// Each has an element that only the device of the other's host can do.
#[test]
fn two_ranges_that_need_each_others_devices_both_end() {
    let scheduler = Scripted::new(2).scheduler(1);
    let both = Gate::new();
    let range = || {
        let (both, first) = (Arc::clone(&both), AtomicU32::new(u32::MAX));
        Range::new(0..1, move |exec, _| {
            let here = exec.device_index as u32;
            match first.compare_exchange(u32::MAX, here, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => both.pass(),
                Err(first) if first != here => return Ok(()),
                Err(_) => {}
            }
            Err(no_room(exec, 2000))
        })
    };
    let ids = [scheduler.submit_range(range()).unwrap(), scheduler.submit_range(range()).unwrap()];
    both.came(2);
    both.open();
    for id in ids {
        assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
    }
}

#[test]
fn what_fits_nowhere_ends_with_the_numbers() {
    let scheduler = Scripted::new(2).scheduler(1);
    let counted = Counted::new(50);
    let range = counted.range(|exec, piece| match piece.contains(&20) {
        true => Err(no_room(exec, 4711)),
        false => Ok(()),
    });
    let id = scheduler.submit_range(range).unwrap();
    let error = wait(&scheduler, id).unwrap_err();
    assert!(error.to_string().contains("4711"), "{error}");
    assert!(counted.at_most_once() && counted.drops() == 1);
}

#[test]
fn memory_of_an_element_is_kept_for_each_of_a_piece() {
    let scheduler = Scripted::new(1).scheduler(3);
    let now = Arc::new(AtomicU64::new(0));
    let most = Arc::new(AtomicU64::new(0));
    let (taken, peak) = (now.clone(), most.clone());
    let counted = Counted::new(300);
    let range = counted.range(move |_, piece| {
        let bytes = 100 * (piece.end - piece.start);
        peak.fetch_max(taken.fetch_add(bytes, Ordering::SeqCst) + bytes, Ordering::SeqCst);
        thread::sleep(Duration::from_micros(200));
        taken.fetch_sub(bytes, Ordering::SeqCst);
        Ok(())
    });
    let id = scheduler.submit_range(Range { grain: Some(64), device_bytes: 100, ..range }).unwrap();
    assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
    assert!(counted.each(1));
    let most = most.load(Ordering::SeqCst);
    assert!((200..=1000).contains(&most), "{most} bytes of 1000");
    scheduler.shutdown().unwrap();
    assert_eq!(scheduler.stats().unwrap().devices[0].leased_bytes, 0);
}

#[test]
fn a_task_that_needs_memory_gets_it_between_pieces() {
    let scheduler = Scripted::new(1).scheduler(2);
    let counted = Counted::new(2000);
    let begun = Arc::new(AtomicU64::new(0));
    let told = begun.clone();
    let range = counted.range(move |_, _| {
        told.fetch_add(1, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(1));
        Ok(())
    });
    // Pieces of eight elements take 800 bytes of 1000, again and again; the other slot may have none of them.
    let id = scheduler.submit_range(Range { grain: Some(8), device_bytes: 100, ..range }).unwrap();
    while begun.load(Ordering::SeqCst) == 0 {
        thread::yield_now();
    }
    let before = begun.clone();
    let seen = Arc::new(AtomicU64::new(u64::MAX));
    let saw = seen.clone();
    let mut task = Task::new(move |_: &Exec<'_>| {
        saw.store(before.load(Ordering::SeqCst), Ordering::SeqCst);
        Ok(())
    });
    task.device_bytes = 700;
    let large = scheduler.submit(task).unwrap();
    assert_eq!(wait(&scheduler, large), Ok(Wait::Done));
    assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
    assert!(counted.each(1));
    let (seen, all) = (seen.load(Ordering::SeqCst), begun.load(Ordering::SeqCst));
    assert!(seen < all / 2, "it began after {seen} of {all} pieces");
}

#[test]
fn a_device_lost_in_the_middle_costs_no_element() {
    for (lost, fault) in [
        (0, DeviceFault::Lost),
        (1, DeviceFault::Lost),
        (0, DeviceFault::Poisoned),
        (1, DeviceFault::Poisoned),
    ] {
        let scheduler = Scripted::new(3).scheduler(2);
        let counted = Counted::new(2000);
        let calls = AtomicU32::new(0);
        let range = counted.range(move |exec, _| {
            thread::sleep(Duration::from_micros(20));
            let late = calls.fetch_add(1, Ordering::Relaxed) > 100;
            if exec.device_index == lost && late { Err(broken(exec, fault)) } else { Ok(()) }
        });
        let id = scheduler.submit_range(Range { grain: Some(3), ..range }).unwrap();
        assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
        assert!(counted.each(1));
    }
}

/// A piece that leaves because the deadline asked it to does not cancel the range, which is tried again as its device is lost.
#[test]
fn who_stops_at_the_deadline_cancels_nothing() {
    let scheduler = Scripted::new(2).scheduler(1);
    let counted = Counted::new(2);
    let (calls, left) = (AtomicU32::new(0), AtomicU32::new(0));
    let range = counted.range(move |exec, _| {
        let call = calls.fetch_add(1, Ordering::SeqCst);
        if call > 1 {
            return Ok(());
        }
        while !exec.cancelled() {
            thread::sleep(Duration::from_millis(1));
        }
        if call == 1 {
            left.store(1, Ordering::SeqCst);
            return Err(Error::Cancelled);
        }
        // The host: the guest has left when its device is lost.
        while left.load(Ordering::SeqCst) == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(50));
        Err(broken(exec, DeviceFault::Lost))
    });
    let range = Range { grain: Some(1), deadline: Some(Duration::from_millis(50)), ..range };
    let id = scheduler.submit_range(range).unwrap();
    assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
    assert!(counted.each(1));
}

#[test]
fn elements_that_break_devices_do_not_break_all_of_them() {
    for fault in [DeviceFault::Lost, DeviceFault::Poisoned] {
        let scheduler = Scripted::new(4).scheduler(1);
        let counted = Counted::new(100);
        let range = counted.range(move |exec, piece| match piece.contains(&42) {
            true => Err(broken(exec, fault)),
            false => Ok(()),
        });
        let id = scheduler.submit_range(Range { grain: Some(5), ..range }).unwrap();
        let error = wait(&scheduler, id).unwrap_err();
        assert!(error.to_string().contains("elements 4"), "{error}");
        let after = scheduler.submit(quick()).unwrap();
        assert_eq!(wait(&scheduler, after), Ok(Wait::Done), "devices are left");
    }
}

fn nest(scheduler: &Arc<Scheduler>, depth: u32, device_bytes: u64, sum: &Arc<AtomicU64>) -> Range {
    let (again, sum) = (Arc::downgrade(scheduler), sum.clone());
    let range = Range::new(0..4, move |exec, piece| {
        for element in piece {
            if depth == 0 {
                sum.fetch_add(element, Ordering::Relaxed);
                continue;
            }
            let scheduler = again.upgrade().ok_or(Error::Cancelled)?;
            let inner = scheduler.submit_range(nest(&scheduler, depth - 1, device_bytes, &sum))?;
            assert!(matches!(scheduler.wait(exec.task, None), Err(Error::Deadlock { .. })), "for itself");
            assert_eq!(scheduler.wait(inner, LONG)?, Wait::Done);
        }
        Ok(())
    });
    Range { grain: Some(1), device_bytes, ..range }
}

#[test]
fn ranges_in_ranges_in_ranges() {
    for (devices, slots) in [(1, 1), (1, 2), (2, 2)] {
        for device_bytes in [0, 1] {
            let scheduler = Arc::new(Scripted::new(devices).scheduler(slots));
            let sum = Arc::new(AtomicU64::new(0));
            let id = scheduler.submit_range(nest(&scheduler, 3, device_bytes, &sum)).unwrap();
            assert_eq!(wait(&scheduler, id), Ok(Wait::Done), "{devices} devices with {slots} slots");
            assert_eq!(sum.load(Ordering::Relaxed), 6 * 64);
        }
    }
}

#[test]
fn a_host_that_waits_for_its_guests_leaves_its_slot_to_others() {
    let scheduler = Arc::new(Scripted::new(2).scheduler(1));
    let gate = Gate::new();
    let door = gate.clone();
    // Each worker has one element; that on the second device waits for a task that needs the first.
    let weak = Arc::downgrade(&scheduler);
    let range = Range::new(0..2, move |exec, _| {
        door.pass();
        if exec.device_index == 0 {
            return Ok(());
        }
        let scheduler = weak.upgrade().ok_or(Error::Cancelled)?;
        let mut task = quick();
        task.devices = DeviceMask(1);
        let other = scheduler.submit(task)?;
        scheduler.wait(other, LONG).map(|_| ())
    });
    let id = scheduler.submit_range(Range { grain: Some(1), ..range }).unwrap();
    gate.came(2);
    gate.open();
    assert_eq!(wait(&scheduler, id), Ok(Wait::Done));
}

#[test]
fn many_ranges_at_once_from_many_threads() {
    let scheduler = Arc::new(Scripted::new(2).scheduler(2));
    thread::scope(|scope| {
        for thread in 0..6_u64 {
            let scheduler = &scheduler;
            scope.spawn(move || {
                for round in 0..10_u64 {
                    let counted = Counted::new(200 + 13 * round as usize);
                    let range = counted.range(|_, _| Ok(()));
                    let grain = [None, Some(1), Some(round + 1)][(thread % 3) as usize];
                    let id = scheduler.submit_range(Range { grain, ..range }).unwrap();
                    if (thread + round) % 4 == 3 {
                        scheduler.cancel(id).unwrap();
                        let ended = wait(scheduler, id).unwrap();
                        assert!(counted.at_most_once() && (ended == Wait::Cancelled || counted.each(1)));
                    } else {
                        assert_eq!(wait(scheduler, id), Ok(Wait::Done));
                        assert!(counted.each(1));
                    }
                    assert_eq!(counted.drops(), 1);
                    scheduler.release(id).unwrap();
                }
            });
        }
    });
    assert_eq!(scheduler.wait_all(LONG), Ok(Wait::Done));
}

#[test]
fn destroyed_in_the_middle() {
    let scheduler = Scripted::new(2).scheduler(2);
    let (gate, counted) = (Gate::new(), Counted::new(100_000));
    gate.open();
    let door = gate.clone();
    let range = counted.range(move |_, _| {
        door.pass();
        Ok(())
    });
    let id = scheduler.submit_range(Range { grain: Some(1), ..range }).unwrap();
    gate.came(20);
    assert_eq!(scheduler.shutdown().map(|cancelled| cancelled >= 1), Ok(true));
    assert_eq!(scheduler.info(id).unwrap().state, State::Cancelled);
    assert!(counted.at_most_once() && counted.drops() == 1);
}

#[test]
fn a_released_range_goes_on() {
    let scheduler = Scripted::new(1).scheduler(2);
    let (gate, counted) = (Gate::new(), Counted::new(50));
    let door = gate.clone();
    let range = counted.range(move |_, _| {
        door.pass();
        Ok(())
    });
    let id = scheduler.submit_range(range).unwrap();
    gate.came(1);
    scheduler.release(id).unwrap();
    gate.open();
    assert_eq!(scheduler.wait_all(LONG), Ok(Wait::Done));
    assert!(counted.each(1) && counted.drops() == 1);
}

#[test]
fn results_come_in_order() {
    let scheduler = Scripted::new(2).scheduler(2);
    let squares = scheduler.map_range(10..110, |_, element| Ok(element * element)).unwrap();
    assert_eq!(squares, (10..110).map(|element| element * element).collect::<Vec<u64>>());
    let names = Mutex::new(0);
    let failed = scheduler.map_range(0..10, move |_, element| {
        *names.lock().unwrap() += 1;
        if element == 7 { Err(Error::Callback { code: 3 }) } else { Ok(()) }
    });
    assert!(failed.is_err_and(|error| error.to_string().contains("returned 3")));
    let none = scheduler.map_range(5..5, |_, _| Ok(()));
    assert_eq!(none, Ok(Vec::new()));
    assert!(matches!(scheduler.map_range(0..u64::MAX, |_, _| Ok(())), Err(Error::NoHostMemory { .. })));
}
