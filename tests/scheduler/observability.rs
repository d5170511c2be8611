//! Progress, traces, bounds and stored rates of running schedulers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use gpusched::Error;
use gpusched::io::kept::Kept;
use gpusched::sched::{Builder, Progress, Scheduler, Store, Task, TaskId, Timeline, WaitResult};
use serde_json::Value;
use testkit::Folder;

use crate::scripted::*;

fn of_one_slot() -> Builder {
    builder(Arc::new(Scripted::new(1)), 1)
}

fn trace(scheduler: &Scheduler) -> Vec<Value> {
    events(&scheduler.timeline().unwrap())
}

fn events(timeline: &Timeline) -> Vec<Value> {
    let mut text = Vec::new();
    timeline.write(&mut text).unwrap();
    let value: Value = serde_json::from_slice(&text).unwrap();
    value["traceEvents"].as_array().unwrap().clone()
}

fn of<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["ph"] == kind).collect()
}

const NASTY: &str = "a \"b\" \\ \n\t\u{1} é 漢 \u{2028} \u{7f} 🦀 {}";

#[test]
fn trace_has_every_attempt_with_its_end() {
    let scheduler = Builder { trace_events: 1000, ..of_one_slot() }.build().unwrap();
    let label = |label: &str, task: Task| Task { label: label.into(), ..task };
    let well = Task { work: Some(1e99), device_bytes: 7, class: 3, ..quick() };
    let well = scheduler.submit(label(NASTY, well)).unwrap();
    let badly = Task { retries: 1, ..code(|_| Err(Error::Callback { code: 4 })) };
    let badly = scheduler.submit(label("bad", badly)).unwrap();
    wait_all(&scheduler);
    let (waiting, gate) = occupy_as(&scheduler, |task| label("waits", task));
    let events = trace(&scheduler);
    let bars = |name: &str| -> Vec<&Value> {
        of(&events, "X").into_iter().filter(|bar| bar["name"] == name).map(|bar| &bar["args"]).collect()
    };
    let ends =
        |name: &str| -> Vec<&str> { bars(name).iter().map(|bar| bar["ended"].as_str().unwrap()).collect() };
    assert_eq!(ends(NASTY), ["done"]);
    assert_eq!(ends("bad"), ["retried", "failed"]);
    assert_eq!(ends("waits"), ["running"]);
    let args = bars(NASTY)[0];
    assert_eq!(args["task"], format!("{:#018x}", well.0));
    let stated = (args["work"].as_f64(), args["bytes"].as_u64(), args["class"].as_u64());
    assert_eq!(stated, (Some(1e99), Some(7), Some(3)));
    assert_eq!(bars("bad")[1]["attempt"], 2);
    let leased: Vec<u64> =
        of(&events, "C").iter().map(|event| event["args"]["bytes"].as_u64().unwrap()).collect();
    assert_eq!(leased[..2], [7, 0]);
    let flags: Vec<&str> = of(&events, "i").iter().map(|event| event["name"].as_str().unwrap()).collect();
    assert!(flags[0].contains("retried") && flags[1].contains("failed on cuda:0"), "{flags:?}");
    let names: Vec<&Value> = of(&events, "M").iter().map(|event| &event["args"]["name"]).collect();
    assert!(names.contains(&&"cuda:0 scripted".into()) && names.contains(&&"slot 0".into()), "{names:?}");

    gate.open();
    assert_eq!(wait(&scheduler, waiting), Ok(WaitResult::Done));
    assert!(wait(&scheduler, badly).is_err());
    let events = trace(&scheduler);
    assert!(of(&events, "X").iter().all(|bar| bar["args"]["ended"] != "running"));
}

#[test]
fn attempt_that_ends_before_its_timeline_is_written_has_one_bar() {
    let scheduler = Builder { trace_events: 1000, ..of_one_slot() }.build().unwrap();
    let (id, gate) = occupy_as(&scheduler, |task| Task { work: Some(1.0), ..task });
    let timeline = scheduler.timeline().unwrap();
    gate.open();
    assert_eq!(wait(&scheduler, id), Ok(WaitResult::Done));
    let events = events(&timeline);
    let ends: Vec<_> = of(&events, "X").iter().map(|bar| &bar["args"]["ended"]).collect();
    assert_eq!(ends, ["running"]);
}

/// Submits a light task that waits for another one, and so on, as many as `depth`. The last waits
/// at the gate.
fn submit_chain(scheduler: &Arc<Scheduler>, depth: u32, gate: &'static Gate) -> Result<TaskId, Error> {
    let waits = nested(scheduler, move |scheduler, _| {
        if depth == 0 {
            gate.pass();
            return Ok(());
        }
        scheduler.wait(submit_chain(scheduler, depth - 1, gate)?, None).map(drop)
    });
    scheduler.submit(waits)
}

#[test]
fn nothing_overlaps_on_a_row_even_where_tasks_wait_for_others() {
    let scheduler =
        Arc::new(Builder { trace_events: 1000, ..builder(Arc::new(Scripted::new(2)), 2) }.build().unwrap());
    // One in each slot, at the same time.
    let gate = Gate::new();
    (0..4).for_each(|_| _ = submit_chain(&scheduler, 149, gate).unwrap());
    gate.came(4);
    gate.open();
    wait_all(&scheduler);
    for _ in 0..20 {
        let inner = || Task { work: Some(1.0), ..quick() };
        let outer = nested(&scheduler, move |scheduler, _| {
            scheduler.wait(scheduler.submit(inner())?, None).map(drop)
        });
        scheduler.submit(Task { work: Some(1.0), ..outer }).unwrap();
    }
    wait_all(&scheduler);
    let events = trace(&scheduler);
    let bars = of(&events, "X");
    assert_eq!(bars.len(), 640);
    let mut rows: BTreeMap<(u64, u64), Vec<(f64, f64)>> = BTreeMap::new();
    for bar in bars {
        let number = |key: &str| bar[key].as_f64().unwrap();
        let row = (bar["pid"].as_u64().unwrap(), bar["tid"].as_u64().unwrap());
        rows.entry(row).or_default().push((number("ts"), number("ts") + number("dur")));
    }
    for (row, mut bars) in rows {
        bars.sort_by(|a, b| a.0.total_cmp(&b.0));
        // Sums of microseconds as doubles are exact to less than a nanosecond here.
        assert!(bars.windows(2).all(|pair| pair[0].1 <= pair[1].0 + 1e-3), "{row:?}: {bars:?}");
    }
}

#[test]
fn trace_holds_at_most_the_configured_events() {
    let scheduler = Builder { trace_events: 5, ..of_one_slot() }.build().unwrap();
    (0..20).for_each(|_| _ = scheduler.submit(Task { work: Some(1.0), ..quick() }).unwrap());
    wait_all(&scheduler);
    let timeline = scheduler.timeline().unwrap();
    let events = trace(&scheduler);
    assert_eq!(events.iter().filter(|event| event["ph"] != "M").count(), 5);
    assert!(timeline.left_out() >= 15, "{}", timeline.left_out());
    assert!(matches!(of_one_slot().build().unwrap().timeline(), Err(Error::Argument { .. })));
}

#[test]
fn progress_counts_tasks_and_work() {
    let scheduler = of_one_slot().build().unwrap();
    let told = scheduler.progress().unwrap();
    assert_eq!((told.elapsed, told.eta), (Duration::ZERO, Some(Duration::ZERO)));
    let gate = Gate::new();
    let half = code(move |exec| {
        exec.report(0.5);
        gate.pass();
        Ok(())
    });
    scheduler.submit(Task { work: Some(8.0), ..half }).unwrap();
    gate.came(1);
    let bad = code(|_| Err(Error::Callback { code: 1 }));
    scheduler.submit(Task { work: Some(2.0), ..bad }).unwrap();
    let told = scheduler.progress().unwrap();
    assert_eq!((told.counts.queued, told.counts.running, told.counts.done), (1, 1, 0));
    assert_eq!((told.work_total, told.work_done), (10.0, 4.0));
    // By the running task's own reports: as long as the first half took, and a quarter more.
    assert!(told.eta.is_some_and(|eta| !eta.is_zero()), "{told:?}");
    gate.open();
    wait_all(&scheduler);
    let told = scheduler.progress().unwrap();
    assert_eq!((told.counts.queued, told.counts.running, told.counts.done, told.counts.failed), (0, 0, 1, 1));
    assert_eq!((told.work_total, told.work_done, told.eta), (10.0, 10.0, Some(Duration::ZERO)));
    assert_eq!(told.work_lost, 2.0, "of the failed one");
    let stats = scheduler.stats().unwrap();
    assert!(0 < stats.lower_bound_ns && stats.lower_bound_ns <= stats.makespan_ns, "{stats:?}");
}

/// The first attempt is refused, the second one reports progress.
#[test]
fn device_states_why_it_refused_the_last_task_until_one_makes_progress() {
    let busy = Error::Busy { device: "x".into(), what: "y".into() };
    let full = Error::NoMemory { what: "x".into(), needed: 2, place: "y".into(), there: 1 };
    let short = Error::Resources { device: "x".into(), what: "y".into() };
    for (error, why) in [
        (busy, "used by another process, or closed to all"),
        (full, "its memory is used by other processes"),
        (short, "its driver is short of resources"),
    ] {
        let mut builder = of_one_slot();
        builder.policy.backoff = [Duration::from_millis(1); 3];
        let scheduler = builder.build().unwrap();
        let refusal = || scheduler.stats().unwrap().devices[0].refusal;
        assert_eq!(refusal(), None);
        let (again, further) = (Gate::new(), Gate::new());
        let refused = code(move |exec| {
            if exec.attempt == 1 {
                return Err(error.clone());
            }
            again.pass();
            exec.report(0.5);
            further.pass();
            Ok(())
        });
        scheduler.submit(Task { work: Some(1.0), ..refused }).unwrap();
        again.came(1);
        assert_eq!(refusal(), Some(why), "the second attempt may be refused, too");
        again.open();
        further.came(1);
        assert_eq!(refusal(), None, "{why}");
        further.open();
        wait_all(&scheduler);
        assert_eq!(refusal(), None, "{why}");
    }
}

/// The counts add up to the number of submitted tasks, light or planned, and each task has a bar in
/// the trace.
#[test]
fn light_tasks_are_counted_and_traced() {
    let scheduler = Builder { trace_events: 1000, ..of_one_slot() }.build().unwrap();
    (0..50).for_each(|_| _ = scheduler.submit(quick()).unwrap());
    scheduler.submit(code(|_| Err(Error::Callback { code: 1 }))).unwrap();
    wait_all(&scheduler);
    let gate = occupy(&scheduler);
    (0..9).for_each(|_| _ = scheduler.submit(Task { detached: true, ..quick() }).unwrap());
    let told = scheduler.progress().unwrap();
    assert_eq!(
        (told.counts.done, told.counts.failed, told.counts.queued, told.counts.running),
        (50, 1, 9, 1)
    );
    assert!(told.eta.is_some_and(|eta| !eta.is_zero()), "{told:?}");
    gate.open();
    wait_all(&scheduler);
    let told = scheduler.progress().unwrap();
    assert!(told.eta == Some(Duration::ZERO) && !told.elapsed.is_zero(), "{told:?}");
    assert!(scheduler.stats().unwrap().makespan_ns > 0);
    let events = trace(&scheduler);
    let ended = |how: &str| of(&events, "X").iter().filter(|bar| bar["args"]["ended"] == how).count();
    assert_eq!((ended("done"), ended("failed")), (60, 1));
}

/// The scheduler drops it, which is code of the caller like a call.
#[test]
fn listener_that_is_refused_or_panics_may_set_another_in_its_drop() {
    const SOON: Duration = Duration::from_millis(1);
    for refused in [true, false] {
        let scheduler = Arc::new(of_one_slot().build().unwrap());
        if refused {
            scheduler.shutdown().unwrap();
        }
        let (tell, told) = channel();
        let inside = Arc::downgrade(&scheduler);
        let held = OnDrop(move || {
            let next = tell.clone();
            let set = inside
                .upgrade()
                .unwrap()
                .on_progress(SOON, Some(move |_: &Progress| _ = next.send("called")));
            set.unwrap_or_else(|_| tell.send("refused").unwrap());
            panic!("in a test");
        });
        let listener = move |_: &Progress| {
            let _ = &held;
            panic!("in a test");
        };
        let setter = scheduler.clone();
        thread::spawn(move || setter.on_progress(SOON, Some(listener)));
        let expected = if refused { "refused" } else { "called" };
        assert_eq!(told.recv_timeout(LONG.unwrap()), Ok(expected));
    }
}

#[test]
fn progress_listener_is_called_and_may_call_the_scheduler() {
    let scheduler = Arc::new(of_one_slot().build().unwrap());
    let (id, gate) = occupy_as(&scheduler, |task| task);
    let (tell, told) = channel();
    let inside = Arc::downgrade(&scheduler);
    let listener = move |progress: &Progress| {
        let scheduler = inside.upgrade().unwrap();
        let refused = scheduler.shutdown();
        let _ = tell.send((*progress, scheduler.info(id).unwrap().attempts, refused));
    };
    scheduler.on_progress(Duration::from_millis(1), Some(listener)).unwrap();
    let (progress, attempts, refused) = told.recv_timeout(LONG.unwrap()).unwrap();
    assert_eq!((progress.counts.running, attempts), (1, 1));
    assert!(matches!(refused, Err(Error::Deadlock { .. })), "{refused:?}");
    scheduler.on_progress(Duration::ZERO, None::<fn(&Progress)>).unwrap();
    // The listener is dropped with everything that it holds.
    while told.try_recv().is_ok() {}
    assert_eq!(told.recv_timeout(LONG.unwrap()), Err(std::sync::mpsc::RecvTimeoutError::Disconnected));
    gate.open();
}

#[test]
fn a_later_scheduler_knows_the_rates_of_an_earlier_one() {
    let folder = Folder::new();
    let store = Arc::new(Kept::new(folder.at("rates")));
    let work = |class, task| Task { work: Some(5.0), class, ..task };
    let first = Builder { rates: Some(store.clone()), ..of_one_slot() }.build().unwrap();
    first.submit(work(3, quick())).unwrap();
    assert_eq!(first.wait_all(LONG), Ok(WaitResult::Done));
    assert_eq!(store.load(), Ok(None));
    first.shutdown().unwrap();
    let text = String::from_utf8(store.load().unwrap().unwrap()).unwrap();
    assert!(text.contains("cuda\t3\t") && text.contains("\tscripted\nend 1\n"), "{text}");

    // With stored rates of its class an ETA exists before any task has ended, otherwise not.
    for (rates, class, knows) in [(Some(store.clone()), 3, true), (Some(store), 4, false), (None, 3, false)] {
        let rates = rates.map(|store| store as _);
        let later = Builder { rates, ..of_one_slot() }.build().unwrap();
        let (_, gate) = occupy_as(&later, |task| work(class, task));
        assert_eq!(later.progress().unwrap().eta.is_some(), knows, "class {class}");
        gate.open();
    }
}

/// A store on a file system that hangs.
#[derive(Debug)]
struct HangingStore(&'static Gate);

impl Store for HangingStore {
    fn load(&self) -> Result<Option<Vec<u8>>, Error> {
        Ok(None)
    }

    fn replace(&self, _: &dyn Fn(Option<&[u8]>) -> String) -> Result<(), Error> {
        self.0.pass();
        Ok(())
    }
}

#[test]
fn no_task_waits_while_rates_are_saved() {
    let gate = Gate::new();
    let mut builder = Builder { rates: Some(Arc::new(HangingStore(gate))), ..of_one_slot() };
    builder.policy.save_interval = Duration::ZERO;
    let scheduler = builder.build().unwrap();
    for _ in 0..3 {
        scheduler.submit(Task { work: Some(1.0), ..quick() }).unwrap();
        assert_eq!(scheduler.wait_all(LONG), Ok(WaitResult::Done));
    }
    gate.came(1);
    gate.open();
}

/// Counts the saves.
#[derive(Debug, Default)]
struct CountingStore(AtomicU32);

impl Store for CountingStore {
    fn load(&self) -> Result<Option<Vec<u8>>, Error> {
        Ok(None)
    }

    fn replace(&self, _: &dyn Fn(Option<&[u8]>) -> String) -> Result<(), Error> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn scheduler_that_has_ended_saves_nothing_when_it_is_dropped() {
    let store = Arc::new(CountingStore::default());
    let scheduler = Builder { rates: Some(store.clone()), ..of_one_slot() }.build().unwrap();
    scheduler.submit(Task { work: Some(1.0), ..quick() }).unwrap();
    assert_eq!(scheduler.wait_all(LONG), Ok(WaitResult::Done));
    scheduler.shutdown().unwrap();
    drop(scheduler);
    assert_eq!(store.0.load(Ordering::Relaxed), 1);
}

#[test]
fn a_task_on_top_of_another_begins_when_it_does() {
    const LATER: u64 = 20;
    let scheduler = Arc::new(Builder { trace_events: 100, ..of_one_slot() }.build().unwrap());
    let gate = Gate::new();
    let below = nested(&scheduler, move |scheduler, _| {
        let child = scheduler.submit(quick())?;
        thread::sleep(Duration::from_millis(LATER));
        scheduler.wait(child, None)?;
        gate.pass();
        Ok(())
    });
    let below = scheduler.submit(below).unwrap();
    gate.came(1);
    assert_eq!(scheduler.stats().unwrap().counts.running, 1, "the one below still runs");
    gate.open();
    assert_eq!(wait(&scheduler, below), Ok(WaitResult::Done));
    let events = trace(&scheduler);
    let begins = |own: bool| {
        let id = format!("{:#018x}", below.0);
        let bars = of(&events, "X");
        let bar = bars.iter().find(|bar| (bar["args"]["task"] == id) == own).unwrap();
        bar["ts"].as_f64().unwrap()
    };
    assert!(begins(false) - begins(true) >= 1000.0 * LATER as f64, "{events:?}");
}
