//! Progress of a survey: a bar on a terminal, lines elsewhere, JSON lines with `--json`.

use std::io::{IsTerminal, stderr, stdout};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use gpusched::{ffi, sched};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::say::{self, say};

/// Number of steps of the bar.
const FINE: f64 = 10_000.0;
/// Time between two progress lines.
const PAUSE: Duration = Duration::from_secs(10);

/// The bar that is drawn on the terminal, which lines of the log must not tear.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

fn set_bar(bar: Option<ProgressBar>) {
    *BAR.lock().unwrap_or_else(PoisonError::into_inner) = bar;
}

/// Erases the bar, if there is one, writes, and draws the bar again.
fn write_beside_bar(write: &mut dyn FnMut()) {
    let bar = BAR.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

enum Form {
    Bar(ProgressBar),
    Lines,
    Json,
}

pub struct Progress {
    form: Form,
    shots: usize,
    /// Shots that an earlier run computed.
    kept: usize,
    ended: usize,
    begun: Instant,
    printed: Instant,
}

impl Progress {
    pub fn new(shots: usize, kept: usize, as_json: bool) -> Progress {
        let form = if as_json {
            Form::Json
        } else if !say::is_quiet() && stderr().is_terminal() && stdout().is_terminal() {
            let bar = ProgressBar::new(FINE as u64);
            if let Ok(style) =
                ProgressStyle::with_template("[{elapsed_precise}] {wide_bar} {percent:>3} %  {msg}")
            {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(250));
            set_bar(Some(bar.clone()));
            ffi::logging::pass_writes_to(write_beside_bar);
            Form::Bar(bar)
        } else {
            Form::Lines
        };
        let now = Instant::now();
        Progress { form, shots, kept, ended: kept, begun: now, printed: now }
    }

    /// Shows the progress of the scheduler, on the bar or in a line every [`PAUSE`]. `failed`:
    /// number of failed shots, also of those that were not submitted. `held`: the devices that
    /// other processes hold.
    pub fn update(&mut self, now: &sched::Progress, failed: usize, held: &[String]) {
        let done = self.part(now);
        match &self.form {
            Form::Bar(bar) => {
                bar.set_position((done * FINE) as u64);
                bar.set_message(self.state(now, failed, held));
            }
            Form::Lines | Form::Json => {
                if let Some(line) = self.next_line(now, failed, held) {
                    say!("{line}");
                }
            }
        }
    }

    /// Returns the fraction of the survey that is done, from 0 to 1. All shots count the same.
    fn part(&self, now: &sched::Progress) -> f64 {
        let part = if now.work_total > 0.0 { now.work_done / now.work_total } else { 0.0 };
        (self.kept as f64 + part * (self.shots - self.kept) as f64) / self.shots.max(1) as f64
    }

    fn state(&self, now: &sched::Progress, failed: usize, held: &[String]) -> String {
        let waits = match (now.counts.queued, held) {
            (0, _) | (_, []) => String::new(),
            _ => format!(" (other processes hold {})", held.join(", ")),
        };
        format!(
            "{} of {} shots done, {} running{waits}, {failed} failed, {}",
            self.kept as u64 + now.counts.done,
            self.shots,
            now.counts.running,
            time_left(now.eta)
        )
    }

    /// Returns a line if one is due. At most one per [`PAUSE`] is due.
    fn next_line(&mut self, now: &sched::Progress, failed: usize, held: &[String]) -> Option<String> {
        if self.printed.elapsed() < PAUSE {
            return None;
        }
        self.printed = Instant::now();
        let done = self.part(now);
        Some(match &self.form {
            Form::Json => json!({
                "event": "progress",
                "done": done,
                "shots_ended": self.ended,
                "shots": self.shots,
                "shots_done": self.kept as u64 + now.counts.done,
                "shots_kept": self.kept,
                "shots_running": now.counts.running,
                "shots_failed": failed,
                "held_by_others": held,
                "retried": now.counts.retried,
                "seconds": self.begun.elapsed().as_secs_f64(),
                "eta_s": now.eta.map(|eta| eta.as_secs_f64()),
            })
            .to_string(),
            _ => format!("{:5.1} %  {}", 100.0 * done, self.state(now, failed, held)),
        })
    }

    /// Counts a shot that has arrived.
    pub fn add_shot(&mut self) {
        self.shots += 1;
    }

    /// Counts a shot that has arrived and that an earlier run computed.
    pub fn keep_shot(&mut self) {
        self.kept += 1;
        self.ended += 1;
    }

    /// Counts a shot that has ended.
    pub fn count_shot(&mut self) {
        self.ended += 1;
    }

    /// Prints a sentence, or an object with `--json`.
    pub fn say(&self, sentence: &str, event: &Value) {
        self.print(event, || say!("{sentence}"));
    }

    /// Prints a warning or an error to standard error, or an object with `--json`.
    pub fn alert(&self, sentence: &str, event: &Value) {
        self.print(event, || say::alert(sentence));
    }

    fn print(&self, event: &Value, print: impl FnOnce()) {
        match &self.form {
            Form::Bar(bar) => bar.suspend(print),
            Form::Lines => print(),
            Form::Json => say!("{event}"),
        }
    }

    /// Prints a sentence whose content `--json` has in another event.
    pub fn for_people(&self, sentence: &str) {
        match &self.form {
            Form::Json => {}
            _ => self.say(sentence, &Value::Null),
        }
    }

    pub fn finish(&self) {
        if let Form::Bar(bar) = &self.form {
            set_bar(None);
            bar.finish_and_clear();
        }
    }
}

fn time_left(left: Option<Duration>) -> String {
    let Some(left) = left else { return "time left unknown".into() };
    let seconds = left.as_secs_f64().ceil() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s left"),
        (0, m, s) => format!("{m} min {s:02} s left"),
        (h, m, _) => format!("{h} h {m:02} min left"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the progress of ten shots, two of which an earlier run computed.
    fn progress(form: Form) -> Progress {
        let now = Instant::now();
        Progress { form, shots: 10, kept: 2, ended: 4, begun: now, printed: now - PAUSE }
    }

    /// Returns the state after one and a half of eight shots.
    fn now(queued: u64, eta: Option<Duration>) -> sched::Progress {
        sched::Progress {
            counts: sched::TaskCounts { queued, running: 1, done: 1, retried: 3, ..Default::default() },
            elapsed: Duration::from_secs(60),
            eta,
            work_total: 16.0,
            work_done: 3.0,
        }
    }

    fn gpus() -> Vec<String> {
        vec!["cuda:0".into(), "cuda:2".into()]
    }

    #[test]
    fn progress_line_counts_kept_shots_and_names_devices_of_other_processes() {
        let line = |queued, eta, held: &[String]| {
            progress(Form::Lines).next_line(&now(queued, eta), 1, held).unwrap()
        };
        let eta = Some(Duration::from_millis(64_200));
        let expected = " 35.0 %  3 of 10 shots done, 1 running (other processes hold cuda:0, cuda:2), 1 failed, \
                        1 min 05 s left";
        assert_eq!(line(6, eta, &gpus()), expected);
        let alone = " 35.0 %  3 of 10 shots done, 1 running, 1 failed, time left unknown";
        assert_eq!(line(6, None, &[]), alone);
        assert_eq!(line(0, None, &gpus()), alone, "nothing waits for them");
    }

    #[test]
    fn progress_event_has_all_counts() {
        let event = |eta| {
            let line = progress(Form::Json).next_line(&now(6, eta), 1, &gpus()).unwrap();
            serde_json::from_str::<Value>(&line).unwrap()
        };
        let mut found = event(Some(Duration::from_millis(1500)));
        assert!((0.0..60.0).contains(&found["seconds"].take().as_f64().unwrap()));
        let expected = json!({
            "event": "progress",
            "done": 0.35,
            "shots_ended": 4,
            "shots": 10,
            "shots_done": 3,
            "shots_kept": 2,
            "shots_running": 1,
            "shots_failed": 1,
            "held_by_others": ["cuda:0", "cuda:2"],
            "retried": 3,
            "seconds": null,
            "eta_s": 1.5,
        });
        assert_eq!(found, expected);
        assert_eq!(event(None)["eta_s"], Value::Null);
    }

    #[test]
    fn progress_is_printed_once_in_ten_seconds() {
        for form in [Form::Lines, Form::Json] {
            let mut progress = progress(form);
            assert!(progress.next_line(&now(0, None), 0, &[]).is_some());
            assert_eq!(progress.next_line(&now(0, None), 0, &[]), None);
            progress.printed -= PAUSE - Duration::from_secs(5);
            assert_eq!(progress.next_line(&now(0, None), 0, &[]), None);
            progress.printed -= Duration::from_secs(5);
            assert!(progress.next_line(&now(0, None), 0, &[]).is_some());
        }
    }
}
