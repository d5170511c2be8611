//! Prints the command's output. Standard output may be a pipe without a reader, or a full disk. The
//! survey then continues, and the loss is reported at the end.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write, stderr, stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use indicatif::ProgressBar;
use serde_json::{Value, json};

static LOST: Mutex<Option<String>> = Mutex::new(None);
static QUIET: AtomicBool = AtomicBool::new(false);
static JSON: AtomicBool = AtomicBool::new(false);
/// The bar that is drawn on the terminal, which lines must not tear.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Like `println!`, but never panics. Prints nothing after [`be_quiet`].
macro_rules! say {
    ($($text:tt)*) => { $crate::say::line(format_args!($($text)*)) };
}
pub(crate) use say;

/// Turns off all output except warnings and errors.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Turns on `--json`: events replace sentences.
pub fn print_events() {
    JSON.store(true, Ordering::Relaxed);
}

pub fn has_events() -> bool {
    JSON.load(Ordering::Relaxed)
}

pub fn set_bar(bar: Option<ProgressBar>) {
    *BAR.lock().unwrap_or_else(PoisonError::into_inner) = bar;
}

/// Erases the bar, if there is one, writes, and draws the bar again.
pub fn write_beside_bar(write: &mut dyn FnMut()) {
    let bar = BAR.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

pub fn line(text: Arguments<'_>) {
    if is_quiet() {
        return;
    }
    let text = text.to_string();
    let text = if text.starts_with('{') { plain_json(&text) } else { plain(&text) };
    write_beside_bar(&mut || {
        let mut out = stdout().lock();
        note_loss(writeln!(out, "{text}").and_then(|()| out.flush()));
    });
}

/// Prints a sentence, or the event with `--json`.
pub fn report(sentence: &str, event: &Value) {
    if has_events() { say!("{event}") } else { say!("{sentence}") }
}

/// Prints a sentence whose content `--json` has in another event.
pub fn for_people(sentence: &str) {
    if !has_events() {
        say!("{sentence}");
    }
}

/// Prints the help or the version.
pub fn help(text: &clap::Error) {
    note_loss(text.print().and_then(|()| stdout().flush()));
}

fn note_loss(written: io::Result<()>) {
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
    {
        LOST.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error.to_string());
    }
}

/// Prints a warning or an error to standard error.
pub fn alert(text: &str) {
    // If this fails, too, no output is left to report it on.
    write_beside_bar(&mut || _ = writeln!(stderr(), "{}", plain(text)));
}

/// Prints a warning or an error to standard error, or the event with `--json`.
pub fn report_problem(sentence: &str, event: &Value) {
    if has_events() { say!("{event}") } else { alert(sentence) }
}

pub fn warn(text: &str) {
    report_problem(&format!("warning: {text}"), &json!({ "event": "warning", "warning": text }));
}

pub fn error(text: &str) {
    report_problem(&format!("error: {text}"), &json!({ "event": "error", "error": text }));
}

/// Prints the JSON object of an error that ends the command.
pub fn error_object(why: &str) {
    say!("{}", json!({ "event": "error", "error": why }));
}

/// Escapes control characters, because a title or a folder's name must not move the cursor.
fn plain(text: &str) -> String {
    escaped(text, |letter| letter.escape_default().to_string())
}

/// Escapes the control characters that JSON permits in text.
fn plain_json(text: &str) -> String {
    escaped(text, |letter| format!("\\u{:04x}", u32::from(letter)))
}

fn escaped(text: &str, escape: fn(char) -> String) -> String {
    let is_escaped = |letter: char| letter.is_control() && !['\n', '\t'].contains(&letter);
    let shown = |letter| if is_escaped(letter) { escape(letter) } else { letter.to_string() };
    text.chars().map(shown).collect()
}

/// Returns the reason if output was lost. A closed pipe is not a loss.
pub fn lost() -> Option<String> {
    LOST.lock().unwrap_or_else(PoisonError::into_inner).take()
}
