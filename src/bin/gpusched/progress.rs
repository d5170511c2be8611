//! Progress of a survey: a bar on a terminal, lines elsewhere, JSON lines with `--json`.

use std::collections::BTreeMap;
use std::io::{IsTerminal, stderr, stdout};
use std::time::{Duration, Instant};

use gpusched::sched::{DeviceStats, TaskCounts};
use gpusched::{ffi, sched};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::say;
use crate::summary::count;

/// Number of steps of the bar.
const FINE: f64 = 10_000.0;
/// Time between two progress lines.
const PAUSE: Duration = Duration::from_secs(10);

/// Reason to wait for a device whose slots all belong to other processes.
const HELD: &str = "used by other processes";

/// Layouts of the bar while shots run and while none can begin. A wide message is cut at the width of
/// the terminal: a wrapped one would leave pieces on it.
const RUNNING: &str = "[{elapsed_precise}] {bar:10} {percent:>3} %  {wide_msg}";
const WAITING: &str = "[{elapsed_precise}] {percent:>3} %  {wide_msg}";

fn set_style(bar: &ProgressBar, layout: &str) {
    if let Ok(style) = ProgressStyle::with_template(layout) {
        bar.set_style(style);
    }
}

/// Numbers of shots of a run.
pub struct Counts {
    pub shots: usize,
    /// Shots that an earlier run computed.
    pub kept: usize,
    /// Shots that are complete without this process: kept, or computed by an earlier process.
    pub before: usize,
    pub done: usize,
    pub failed: usize,
    pub paused: usize,
}

pub struct Progress {
    bar: Option<ProgressBar>,
    /// Devices that begin no shot, with the reason, and since when.
    waits: BTreeMap<String, (&'static str, Instant)>,
    begun: Instant,
    printed: Instant,
}

impl Progress {
    /// `begun`: start of the first process of the run.
    pub fn new(begun: Instant) -> Progress {
        let has_bar =
            !say::is_quiet() && !say::has_events() && stderr().is_terminal() && stdout().is_terminal();
        let bar = has_bar.then(|| ProgressBar::new(FINE as u64));
        if let Some(bar) = &bar {
            set_style(bar, RUNNING);
            ffi::logging::pass_writes_to(say::write_beside_bar);
        }
        say::set_bar(bar.clone());
        Progress { bar, waits: BTreeMap::new(), begun, printed: Instant::now() }
    }

    /// Shows the progress of the scheduler, on the bar or in a line every [`PAUSE`].
    pub fn update(&mut self, now: &sched::Progress, shots: &Counts, devices: &[DeviceStats]) {
        self.note_waits(now, devices);
        if let Some(bar) = &self.bar {
            bar.set_position((part(now, shots) * FINE) as u64);
            set_style(bar, if self.is_waiting(now) { WAITING } else { RUNNING });
            bar.set_message(self.bar_state(now, shots));
            // Not from a thread of its own, which the system may refuse.
            bar.tick();
        } else if self.is_due() {
            say::report(&self.line(now, shots), &self.event(now, shots));
        }
    }

    /// Records which devices the queued shots wait for. A device that is still waited for, for
    /// whatever reason, keeps its time.
    fn note_waits(&mut self, now: &sched::Progress, devices: &[DeviceStats]) {
        let reason = |one: &DeviceStats| if one.taken { Some(HELD) } else { one.refusal };
        let waits = devices.iter().filter(|one| now.counts.queued > 0 && one.retired.is_none());
        let waits = waits.filter_map(|one| Some((one.device.label(), reason(one)?)));
        let since = |device: &String| self.waits.get(device).map_or_else(Instant::now, |(_, since)| *since);
        self.waits = waits
            .map(|(device, why)| {
                let since = since(&device);
                (device, (why, since))
            })
            .collect();
    }

    /// Returns true if no shot runs because devices begin none.
    fn is_waiting(&self, now: &sched::Progress) -> bool {
        now.counts.running == 0 && !self.waits.is_empty()
    }

    fn time_left(&self, now: &sched::Progress) -> String {
        // Nobody knows how long the devices are used otherwise.
        let bound = if self.is_waiting(now) && now.eta.is_some() { "at least " } else { "" };
        now.eta.map_or("time left unknown".into(), |left| format!("{bound}{} left", time(left)))
    }

    fn line(&self, now: &sched::Progress, shots: &Counts) -> String {
        let waits = self.waits().map_or_else(String::new, |waits| format!(" ({waits})"));
        let (percent, done, left) = (100.0 * part(now, shots), shots_done(shots), self.time_left(now));
        let (running, failed) = (now.counts.running, shots.failed);
        format!("{percent:5.1} %  {done}, {running} running{waits}, {failed} failed, {left}")
    }

    /// Returns the state for the bar, the most important part first, because a narrow terminal has no
    /// room for the end.
    fn bar_state(&self, now: &sched::Progress, shots: &Counts) -> String {
        let (done, left) = (shots_done(shots), self.time_left(now));
        let counts = format!("{done}, {left}, {} running, {} failed", now.counts.running, shots.failed);
        match self.waits() {
            Some(waits) if self.is_waiting(now) => format!("{waits}; {counts}"),
            Some(waits) => format!("{counts}; {waits}"),
            None => counts,
        }
    }

    /// Returns the devices that are waited for, by reason, with the longest wait of each.
    fn waits(&self) -> Option<String> {
        let mut reasons: BTreeMap<&str, (Vec<&str>, Duration)> = BTreeMap::new();
        for (device, (why, since)) in &self.waits {
            let (devices, longest) = reasons.entry(why).or_default();
            devices.push(device);
            *longest = since.elapsed().max(*longest);
        }
        let wait = |(why, (devices, longest)): (&str, (Vec<&str>, Duration))| {
            format!("waiting for {} for {}: {why}", devices.join(", "), time(longest))
        };
        let waits: Vec<String> = reasons.into_iter().map(wait).collect();
        (!waits.is_empty()).then(|| waits.join("; "))
    }

    /// Returns true if a line is due: at most once per [`PAUSE`].
    fn is_due(&mut self) -> bool {
        let is_due = self.printed.elapsed() >= PAUSE;
        if is_due {
            self.printed = Instant::now();
        }
        is_due
    }

    fn event(&self, now: &sched::Progress, shots: &Counts) -> Value {
        let held = self.waits.iter().filter(|(_, (why, _))| *why == HELD).map(|(device, _)| device);
        let wait = |(device, (why, since)): (&String, &(&str, Instant))| json!({ "device": device, "why": why, "seconds": since.elapsed().as_secs_f64() });
        json!({
            "event": "progress",
            "done": part(now, shots),
            "shots_ended": shots.done + shots.failed + shots.paused,
            "shots": shots.shots,
            "shots_done": shots.done,
            "shots_kept": shots.kept,
            "shots_running": now.counts.running,
            "shots_failed": shots.failed,
            "held_by_others": held.collect::<Vec<_>>(),
            "waits": self.waits.iter().map(wait).collect::<Vec<_>>(),
            "retried": now.counts.retried,
            "seconds": self.begun.elapsed().as_secs_f64(),
            "eta_s": now.eta.map(|eta| eta.as_secs_f64()),
        })
    }

    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            say::set_bar(None);
            bar.finish_and_clear();
        }
    }
}

/// Returns the fraction of the survey that is done, from 0 to 1. All shots count the same.
/// Those that failed or were cancelled are not done.
fn part(now: &sched::Progress, shots: &Counts) -> f64 {
    let TaskCounts { queued, running, done, failed, cancelled, .. } = now.counts;
    let submitted = (queued + running + done + failed + cancelled) as f64;
    let part = if now.work_total > 0.0 { (now.work_done - now.work_lost) / now.work_total } else { 0.0 };
    ((shots.before as f64 + part * submitted) / shots.shots.max(1) as f64).min(1.0)
}

fn shots_done(shots: &Counts) -> String {
    format!("{} of {} done", shots.done, count(shots.shots as u64, "shot"))
}

pub fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s:02} s"),
        (h, m, _) => format!("{h} h {m:02} min"),
    }
}

#[cfg(test)]
mod tests {
    use gpusched::sched::Builder;

    use super::*;

    /// Ten shots, two of which an earlier run computed.
    const SHOTS: Counts = Counts { shots: 10, kept: 2, before: 2, done: 3, failed: 1, paused: 1 };

    fn progress() -> Progress {
        let now = Instant::now();
        Progress { bar: None, waits: BTreeMap::new(), begun: now, printed: now - PAUSE }
    }

    /// Returns the state after one and a half of eight shots; the shots that are neither queued nor
    /// running were cancelled.
    fn now(queued: u64, eta: Option<Duration>) -> sched::Progress {
        let cancelled = 6 - queued;
        sched::Progress {
            counts: TaskCounts { queued, running: 1, done: 1, cancelled, retried: 3, ..Default::default() },
            elapsed: Duration::from_secs(60),
            eta,
            work_total: 16.0,
            work_done: 3.0 + 2.0 * cancelled as f64,
            work_lost: 2.0 * cancelled as f64,
        }
    }

    /// Returns the statistics of three devices: free, held by other processes, and busy.
    fn devices() -> Vec<DeviceStats> {
        let cpu = Builder { devices: Some("cpu".into()), ..Builder::default() };
        let mut devices = vec![cpu.build().unwrap().stats().unwrap().devices.remove(0); 3];
        for (ordinal, device) in (0..).zip(&mut devices) {
            device.device.ordinal = ordinal;
        }
        devices[1].taken = true;
        devices[2].refusal = Some("busy");
        devices
    }

    /// Returns what `get` makes of waits that are younger than a second, however late the machine
    /// runs this.
    fn noted<T>(now: &sched::Progress, devices: &[DeviceStats], get: impl Fn(&mut Progress) -> T) -> T {
        loop {
            let begun = Instant::now();
            let mut progress = progress();
            progress.note_waits(now, devices);
            let got = get(&mut progress);
            if begun.elapsed() < Duration::from_secs(1) {
                return got;
            }
        }
    }

    fn line(now: &sched::Progress, devices: &[DeviceStats]) -> String {
        noted(now, devices, |progress| progress.line(now, &SHOTS))
    }

    #[test]
    fn progress_line_counts_kept_shots_and_names_devices_that_begin_no_shot() {
        let eta = Some(Duration::from_millis(64_200));
        let expected = " 35.0 %  3 of 10 shots done, 1 running (waiting for cpu:2 for 1 s: busy; waiting for cpu:1 for \
                        1 s: used by other processes), 1 failed, 1 min 05 s left";
        assert_eq!(line(&now(6, eta), &devices()), expected);
        let alone = " 35.0 %  3 of 10 shots done, 1 running, 1 failed, time left unknown";
        assert_eq!(line(&now(6, None), &[]), alone);
        assert_eq!(
            line(&now(0, None), &devices()),
            alone,
            "nothing waits for them; cancelled shots are not done"
        );
        let mut waiting = now(6, eta);
        waiting.counts.running = 0;
        assert!(line(&waiting, &devices()).ends_with(", at least 1 min 05 s left"));
        assert!(line(&waiting, &[]).ends_with(", 1 min 05 s left"));
    }

    #[test]
    fn bar_states_the_waits_first_if_nothing_runs() {
        let devices = devices();
        let state =
            |now: sched::Progress| noted(&now, &devices[..2], |progress| progress.bar_state(&now, &SHOTS));
        let waits = "waiting for cpu:1 for 1 s: used by other processes";
        let eta = Some(Duration::from_millis(64_200));
        let counts = "3 of 10 shots done, 1 min 05 s left, 1 running, 1 failed";
        assert_eq!(state(now(6, eta)), format!("{counts}; {waits}"));
        assert_eq!(state(now(0, eta)), counts);
        let mut waiting = now(6, eta);
        waiting.counts.running = 0;
        let counts = "3 of 10 shots done, at least 1 min 05 s left, 0 running, 1 failed";
        assert_eq!(state(waiting), format!("{waits}; {counts}"));
    }

    #[test]
    fn wait_is_as_old_as_the_first_refusal() {
        let mut progress = progress();
        progress.note_waits(&now(6, None), &devices());
        let begun = progress.waits.clone();
        assert_eq!(begun.keys().collect::<Vec<_>>(), ["cpu:1", "cpu:2"]);
        let mut later = devices();
        later[1].taken = false;
        later[2].refusal = Some("full");
        progress.note_waits(&now(5, None), &later);
        let expected = BTreeMap::from([("cpu:2".to_owned(), ("full", begun["cpu:2"].1))]);
        assert_eq!(progress.waits, expected);
        later[2].retired = Some("lost".into());
        progress.note_waits(&now(5, None), &later);
        assert!(progress.waits.is_empty());
    }

    #[test]
    fn progress_event_has_all_counts() {
        let event = |eta| {
            let mut progress = progress();
            progress.note_waits(&now(6, eta), &devices());
            progress.event(&now(6, eta), &SHOTS)
        };
        let mut found = event(Some(Duration::from_millis(1500)));
        for seconds in [&["seconds"][..], &["waits", "0", "seconds"], &["waits", "1", "seconds"]] {
            let path = format!("/{}", seconds.join("/"));
            let seconds = found.pointer_mut(&path).unwrap().take();
            assert!((0.0..60.0).contains(&seconds.as_f64().unwrap()));
        }
        let expected = json!({
            "event": "progress",
            "done": 0.35,
            "shots_ended": 5,
            "shots": 10,
            "shots_done": 3,
            "shots_kept": 2,
            "shots_running": 1,
            "shots_failed": 1,
            "held_by_others": ["cpu:1"],
            "waits": [
                { "device": "cpu:1", "why": "used by other processes", "seconds": null },
                { "device": "cpu:2", "why": "busy", "seconds": null },
            ],
            "retried": 3,
            "seconds": null,
            "eta_s": 1.5,
        });
        assert_eq!(found, expected);
        assert_eq!(event(None)["eta_s"], Value::Null);
    }

    #[test]
    fn progress_is_printed_once_in_ten_seconds() {
        let mut progress = progress();
        assert!(progress.is_due() && !progress.is_due());
        progress.printed -= PAUSE - Duration::from_secs(5);
        assert!(!progress.is_due());
        progress.printed -= Duration::from_secs(5);
        assert!(progress.is_due());
    }
}
