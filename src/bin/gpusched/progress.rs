//! How far a survey is: a bar on a terminal, lines elsewhere, JSON lines when asked.

use std::io::{IsTerminal, stderr, stdout};
use std::time::{Duration, Instant};

use gpusched::sched;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::say::say;

/// Steps of the bar: finer than a shot.
const FINE: f64 = 10_000.0;
/// Between two lines that tell of nothing but progress.
const PAUSE: Duration = Duration::from_secs(10);

enum Form {
    Bar(ProgressBar),
    Lines,
    Json,
}

pub struct Progress {
    form: Form,
    shots: usize,
    /// By an earlier run.
    kept: usize,
    ended: usize,
    begun: Instant,
    told: Instant,
}

impl Progress {
    pub fn new(shots: usize, kept: usize, as_json: bool) -> Progress {
        let form = if as_json {
            Form::Json
        } else if stderr().is_terminal() && stdout().is_terminal() {
            let bar = ProgressBar::new(FINE as u64);
            if let Ok(style) =
                ProgressStyle::with_template("[{elapsed_precise}] {wide_bar} {percent:>3} %  {msg}")
            {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(250));
            Form::Bar(bar)
        } else {
            Form::Lines
        };
        let now = Instant::now();
        Progress { form, shots, kept, ended: kept, begun: now, told: now }
    }

    /// As the scheduler tells it; `failed` shots are those that it was not given, too. `held`: devices that other processes
    /// keep it from.
    pub fn update(&mut self, now: &sched::Progress, failed: usize, held: &[String]) {
        let part = if now.work_total > 0.0 { now.work_done / now.work_total } else { 0.0 };
        // All shots of a survey are the same work.
        let done = (self.kept as f64 + part * (self.shots - self.kept) as f64) / self.shots as f64;
        let shots_done = self.kept as u64 + now.done;
        let waits = match (now.queued, held) {
            (0, _) | (_, []) => String::new(),
            _ => format!(" (other processes have {})", held.join(", ")),
        };
        let state = format!(
            "{shots_done} of {} shots done, {} running{waits}, {failed} failed, {} left",
            self.shots,
            now.running,
            clock(now.eta)
        );
        match &self.form {
            Form::Bar(bar) => {
                bar.set_position((done * FINE) as u64);
                bar.set_message(state);
            }
            _ if self.told.elapsed() < PAUSE => return,
            Form::Lines => {
                say!("{:5.1} %  {state}", 100.0 * done);
            }
            Form::Json => say!(
                "{}",
                json!({
                    "event": "progress",
                    "done": done,
                    "shots_ended": self.ended,
                    "shots": self.shots,
                    "shots_done": shots_done,
                    "shots_kept": self.kept,
                    "shots_running": now.running,
                    "shots_failed": failed,
                    "held_by_others": held,
                    "retried": now.retried,
                    "seconds": self.begun.elapsed().as_secs_f64(),
                    "eta_s": now.eta.map(|eta| eta.as_secs_f64()),
                })
            ),
        }
        self.told = Instant::now();
    }

    /// A shot has ended: a sentence for people, an object for programs.
    pub fn shot(&mut self, sentence: &str, event: &Value) {
        self.ended += 1;
        self.say(sentence, event);
    }

    pub fn say(&self, sentence: &str, event: &Value) {
        match &self.form {
            Form::Bar(bar) => bar.println(sentence),
            Form::Lines => say!("{sentence}"),
            Form::Json => say!("{event}"),
        }
    }

    /// What programs read elsewhere.
    pub fn for_people(&self, sentence: &str) {
        match &self.form {
            Form::Json => {}
            _ => self.say(sentence, &Value::Null),
        }
    }

    pub fn finish(&self) {
        if let Form::Bar(bar) = &self.form {
            bar.finish_and_clear();
        }
    }
}

fn clock(left: Option<Duration>) -> String {
    let Some(left) = left else { return "time unknown".into() };
    let seconds = left.as_secs_f64().ceil() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s:02} s"),
        (h, m, _) => format!("{h} h {m:02} min"),
    }
}
