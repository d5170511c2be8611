//! How far a survey is: a bar on a terminal, lines elsewhere, JSON lines when asked.

use std::io::{IsTerminal, stderr, stdout};
use std::time::{Duration, Instant};

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
    ended: usize,
    begun: Instant,
    told: Instant,
}

impl Progress {
    pub fn new(shots: usize, as_json: bool) -> Progress {
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
        Progress { form, shots, ended: 0, begun: now, told: now }
    }

    /// `done` is the part of all work that is done, running shots counted by what they report.
    pub fn update(&mut self, done: f64) {
        let elapsed = self.begun.elapsed();
        let left = (done > 0.0).then(|| elapsed.mul_f64(((1.0 - done) / done).clamp(0.0, 1e6)));
        match &self.form {
            Form::Bar(bar) => {
                bar.set_position((done * FINE) as u64);
                bar.set_message(format!("{} of {} shots, {} left", self.ended, self.shots, clock(left)));
            }
            _ if self.told.elapsed() < PAUSE => return,
            Form::Lines => {
                say!("{:5.1} %  {} of {} shots, {} left", 100.0 * done, self.ended, self.shots, clock(left));
            }
            Form::Json => say!(
                "{}",
                json!({
                    "event": "progress",
                    "done": done,
                    "shots_ended": self.ended,
                    "shots": self.shots,
                    "seconds": elapsed.as_secs_f64(),
                    "eta_s": left.map(|left| left.as_secs_f64()),
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
