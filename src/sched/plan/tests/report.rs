//! The estimated time until all tasks have ended.

use crate::sched::plan::tests::*;

/// A driver of devices of one slot, of which nothing is known.
fn unknown(devices: usize) -> Driver {
    Driver::new((0..devices).map(|ordinal| (DeviceInfo { speed: None, ..info(ordinal, 1.0) }, 1)))
}

/// The numbers are whole seconds and small ratios: a millisecond is more than their rounding.
fn is_near(found: Option<f64>, expected: Option<f64>) -> bool {
    found.zip(expected).map_or(found == expected, |(found, expected)| (found - expected).abs() < 1e-3)
}

#[track_caller]
fn assert_eta(driver: &Driver, now: u64, expected: Option<f64>) {
    let progress = driver.planner.progress(S(now), &driver.planner.stats());
    let eta = progress.eta.map(|eta| eta.as_secs_f64());
    assert!(is_near(eta, expected), "{eta:?}");
}

#[test]
fn on_one_device_it_is_what_is_left_over_the_rate() {
    let mut driver = unknown(1);
    (0..3).for_each(|_| _ = driver.submit(5, of_work(10.0)));
    let first = driver.take(5, 0).unwrap();
    // Nothing has ended, nothing is reported.
    assert_eta(&driver, 10, None);
    driver.ends(25, 0, &first, Ok(()));
    // Half a unit a second.
    assert_eta(&driver, 25, Some(40.0));
    let second = driver.take(25, 0).unwrap();
    assert_eta(&driver, 30, Some(35.0));
    // The second task reports less speed than the first: 2 units in 5 s, so 20 s more; then the
    // third at the rate of the first.
    second.signal.report(0.2);
    assert_eta(&driver, 30, Some(40.0));
    let progress = driver.planner.progress(S(30), &driver.planner.stats());
    assert_eq!((progress.work_total, progress.work_done), (30.0, 12.0));
    // The second task is late without a report: it may end at any moment, and the third follows.
    second.signal.report(0.0);
    assert_eta(&driver, 1000, Some(20.0));
}

#[test]
fn devices_share_what_is_left_but_not_the_longest() {
    let mut driver = unknown(2);
    let tasks = [4.0, 4.0, 2.0, 2.0, 2.0, 2.0].map(|work| (driver.submit(0, of_work(work)), work as u64));
    let work = |id| tasks.iter().find(|(other, _)| *other == id).unwrap().1;
    let runs = [0, 1].map(|device| driver.take(0, device).unwrap());
    let works = [0, 1].map(|device| work(runs[device].id));
    // Both do a unit a second.
    for device in [0, 1] {
        driver.ends(works[device], device, &runs[device], Ok(()));
    }
    let left = (16 - works[0] - works[1]) as f64;
    let longest: f64 = if works == [4, 4] { 2.0 } else { 4.0 };
    assert_eta(&driver, 4, Some(longest.max(left / 2.0)));
    driver.planner.retire(1, "of a test", &mut driver.effects);
    assert_eta(&driver, 4, Some(left));
    driver.submit(4, of_work(100.0));
    assert_eta(&driver, 4, Some(left + 100.0));
    driver.planner.retire(0, "of a test", &mut driver.effects);
    assert_eta(&driver, 4, None);
    // Also if light tasks have ended.
    let mut both = driver.planner.stats();
    both.devices[0].done += 1;
    assert_eq!(driver.planner.progress(S(4), &both).eta, None);
}

#[test]
fn tasks_without_work_count_as_mean_ones() {
    let mut driver = unknown(1);
    (0..4).for_each(|_| _ = driver.submit(0, Task { work: None, ..task() }));
    for (begin, eta) in [(0, None), (6, Some(18.0)), (12, Some(12.0)), (18, Some(6.0))] {
        assert_eta(&driver, begin, eta);
        driver.run_next([begin, begin + 6], 0, Ok(()));
    }
    assert_eta(&driver, 24, Some(0.0));
}

#[test]
fn mean_of_light_tasks_leaves_out_the_planned_ones() {
    let planner = |done, failed, busy_s| {
        let mut planner = unknown(1).planner;
        let device = &mut planner.devices[0];
        (device.done, device.failed, device.busy) = (done, failed, S(busy_s));
        planner
    };
    let planned = planner(1, 1, 2);
    assert!(is_near(planned.mean_light_seconds(&planner(4, 2, 8).stats()), Some(1.5)));
    assert_eq!(planned.mean_light_seconds(&planned.stats()), None);
}

#[test]
fn eta_is_at_least_what_the_longest_task_needs() {
    let mut driver = unknown(2);
    // As stored rates.
    driver.planner.set_stored_rates(0, [Some(4.0); 2].into_iter());
    driver.submit(0, of_work(100.0));
    assert_eta(&driver, 0, Some(25.0));
    let run = driver.take(0, 0).unwrap();
    assert_eta(&driver, 10, Some(15.0));
    run.signal.report(0.02);
    assert_eta(&driver, 10, Some(490.0));
}

/// Tasks take 20 s. Any factor counts, also a small one.
#[test]
fn eta_follows_the_measured_rate_within_a_task() {
    for stored in [1.7, 0.5, 0.15, 0.05] {
        let mut driver = unknown(1);
        driver.planner.set_stored_rates(0, [Some(stored)].into_iter());
        (0..4).for_each(|_| _ = driver.submit(0, of_work(10.0)));
        assert_eta(&driver, 0, Some(40.0 / stored));
        let first = driver.take(0, 0).unwrap();
        // A report moves the rate as far as the task is done, or should be by the stored rate.
        first.signal.report(0.25);
        let share = (0.5 * stored).max(0.25);
        let rate = stored + share * (0.5 - stored);
        assert_eta(&driver, 5, Some(15.0 + 30.0 / rate));
        driver.ends(20, 0, &first, Ok(()));
        assert_eta(&driver, 20, Some(60.0));
        driver.run_next([20, 40], 0, Ok(()));
        assert_eta(&driver, 40, Some(40.0));
    }
}

/// The first task takes 100 s, the others 20 s.
#[test]
fn eta_forgets_a_warm_up_and_follows_a_device_that_slows_down() {
    let mut driver = unknown(1);
    driver.planner.set_stored_rates(0, [Some(0.4)].into_iter());
    (0..100).for_each(|_| _ = driver.submit(0, of_work(10.0)));
    driver.run_next([0, 100], 0, Ok(()));
    driver.run_next([100, 120], 0, Ok(()));
    assert_eta(&driver, 120, Some(98.0 * 20.0));
    (0..20).for_each(|task| _ = driver.run_next([120 + 20 * task, 140 + 20 * task], 0, Ok(())));
    // From then on they take 60 s; after 40 of them the ETA is at most 10 % too short.
    (0..40).for_each(|task| _ = driver.run_next([520 + 60 * task, 580 + 60 * task], 0, Ok(())));
    let eta = driver.planner.progress(S(2920), &driver.planner.stats()).eta.unwrap().as_secs_f64();
    assert!((0.9..=1.0).contains(&(eta / (38.0 * 60.0))), "{eta}");
}

#[test]
fn eta_leaves_out_a_device_that_backs_off_while_another_runs() {
    let mut driver = unknown(2);
    driver.planner.set_stored_rates(0, [Some(0.5); 2].into_iter());
    (0..4).for_each(|_| _ = driver.submit(0, of_work(10.0)));
    driver.run_next([0, 0], 0, Err(busy()));
    driver.take(0, 1).unwrap();
    assert_eta(&driver, 0, Some(80.0));
    // The back-off takes a second.
    driver.pass(1);
    assert_eta(&driver, 1, Some(39.5));
}

#[test]
fn eta_counts_the_time_for_which_all_devices_back_off() {
    let mut driver = unknown(2);
    driver.planner.set_stored_rates(0, [Some(0.5); 2].into_iter());
    driver.submit(0, of_work(10.0));
    driver.run_next([0, 10], 0, Err(busy()));
    // The other device may begin it at once.
    assert_eta(&driver, 10, Some(20.0));
    driver.run_next([10, 10], 1, Err(busy()));
    // The first back-off takes a second, the second four.
    driver.pass(11);
    (0..2).for_each(|device| _ = driver.run_next([11, 11], device, Err(busy())));
    assert_eta(&driver, 12, Some(3.0 + 20.0));
    driver.pass(15);
    assert_eta(&driver, 15, Some(20.0));
    driver.planner.retire(0, "of a test", &mut driver.effects);
    driver.run_next([15, 16], 1, Err(busy()));
    assert_eta(&driver, 16, Some(16.0 + 20.0));
    driver.planner.retire(1, "of a test", &mut driver.effects);
    assert_eta(&driver, 16, None);
}

#[test]
fn eta_has_no_pause_while_a_device_that_the_task_may_not_use_is_open() {
    let mut driver = unknown(2);
    driver.planner.set_stored_rates(0, [Some(0.5); 2].into_iter());
    driver.attempt([0, 0], 0, Task { devices: DeviceMask::only(0), ..of_work(10.0) }, Err(busy()));
    assert_eta(&driver, 0, Some(20.0));
}

#[test]
fn task_with_a_copy_counts_once() {
    let mut driver = driver(2).seasoned();
    let done =
        |driver: &Driver, now| driver.planner.progress(S(now), &driver.planner.stats()).work_done - 8.0;
    let (id, first) = driver.begin(10, 0, Task { idempotent: true, ..of_work(10.0) });
    let copy = driver.take(30, 1).expect("a copy, for the first is late");
    (0..10).for_each(|_| _ = driver.submit(30, of_work(10.0)));
    first.signal.report(0.5);
    // By the first attempt it takes another 30 s, by the copy 10 s.
    assert_eq!(done(&driver, 40), 5.0);
    assert_eta(&driver, 40, Some((100.0 + (30.0 + 10.0) / 2.0) / 2.0));
    driver.ends(40, 1, &copy, Ok(()));
    for returned in [false, true] {
        assert_eq!(done(&driver, 40), 10.0);
        assert_eta(&driver, 40, Some(100.0 / 2.0));
        assert_eq!(driver.planner.info(S(60), id).unwrap().running_ns, 30_000_000_000);
        if !returned {
            driver.ends(40, 0, &first, Err(Error::Cancelled));
        }
    }
}
