//! Prints the command's output. Standard output may be a pipe without a reader, or a full disk. The
//! survey then continues, and the loss is reported at the end.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write, stderr, stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

static LOST: Mutex<Option<String>> = Mutex::new(None);
static QUIET: AtomicBool = AtomicBool::new(false);

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

pub fn line(text: Arguments<'_>) {
    if is_quiet() {
        return;
    }
    let text = text.to_string();
    let text = if text.starts_with('{') { plain_json(&text) } else { plain(&text) };
    let mut out = stdout().lock();
    note_loss(writeln!(out, "{text}").and_then(|()| out.flush()));
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
    let _ = writeln!(stderr(), "{}", plain(text));
}

/// Prints the JSON object of an error that ends the command.
pub fn error_object(why: &str) {
    say!("{}", serde_json::json!({ "event": "error", "error": why }));
}

/// Escapes control characters, because a title or a folder's name must not move the cursor.
fn plain(text: &str) -> String {
    text.chars().flat_map(shown).collect()
}

/// Escapes the control characters that JSON permits in text.
fn plain_json(text: &str) -> String {
    let shown = |letter: char| match letter {
        '\n' | '\t' => letter.to_string(),
        letter if letter.is_control() => format!("\\u{:04x}", u32::from(letter)),
        letter => letter.to_string(),
    };
    text.chars().map(shown).collect()
}

fn shown(letter: char) -> Vec<char> {
    match letter {
        '\n' | '\t' => vec![letter],
        letter if letter.is_control() => letter.escape_default().collect(),
        letter => vec![letter],
    }
}

/// Returns the reason if output was lost. A closed pipe is not a loss.
pub fn lost() -> Option<String> {
    LOST.lock().unwrap_or_else(PoisonError::into_inner).take()
}
