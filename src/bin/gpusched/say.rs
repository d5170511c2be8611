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
    let mut out = stdout().lock();
    if let Err(error) = writeln!(out, "{text}").and_then(|()| out.flush())
        && error.kind() != ErrorKind::BrokenPipe
    {
        LOST.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error.to_string());
    }
}

/// Why a part of the output was lost, if it was. A reader that went away has read what it wanted.
pub fn lost() -> Option<String> {
    LOST.lock().unwrap_or_else(PoisonError::into_inner).take()
}
