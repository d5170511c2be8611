//! Standard output, which may be a pipe whose reader has gone, or a full disk: that is no reason to
//! drop a survey half-way. What was lost is told at the end.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write, stdout};
use std::sync::{Mutex, PoisonError};

static LOST: Mutex<Option<String>> = Mutex::new(None);

/// As `println!`, without its panic.
macro_rules! say {
    ($($text:tt)*) => { $crate::say::line(format_args!($($text)*)) };
}
pub(crate) use say;

pub fn line(text: Arguments<'_>) {
    let mut text = text.to_string();
    // A title or a folder's name that moves the cursor is shown, not obeyed.
    if text.chars().any(char::is_control) {
        text = text.chars().flat_map(shown).collect();
    }
    let mut out = stdout().lock();
    if let Err(error) = writeln!(out, "{text}").and_then(|()| out.flush())
        && error.kind() != ErrorKind::BrokenPipe
    {
        LOST.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error.to_string());
    }
}

fn shown(letter: char) -> Vec<char> {
    match letter {
        '\n' | '\t' => vec![letter],
        letter if letter.is_control() => letter.escape_default().collect(),
        letter => vec![letter],
    }
}

/// Why a part of the output was lost, if it was. A reader that went away has read what it wanted.
pub fn lost() -> Option<String> {
    LOST.lock().unwrap_or_else(PoisonError::into_inner).take()
}
