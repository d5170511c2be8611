//! Every failure of the library, each a sentence that says what was wrong with
//! which thing and what would have been accepted.

use std::path::{Path, PathBuf};

pub type Result<T> = std::result::Result<T, Error>;

/// Cloneable, because the outcome of a task is told to everyone who waits for it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// An argument, a field or a key of a file is outside what is accepted.
    #[error("{} is {}; accepted: {}", plain(what), plain(value), plain(accepted))]
    Argument { what: String, value: String, accepted: String },

    /// A struct of the C API from a newer header than this library knows.
    #[error(
        "{what} has size {size} with something set after byte {known}, all that this library knows; \
         use the header of this library, or a newer library"
    )]
    TooNew { what: &'static str, size: usize, known: usize },

    /// An id or handle that no longer names, or never named, anything here.
    #[error("{what} {id:#018x} is unknown here: {}", stale(what))]
    Stale { what: &'static str, id: u64 },

    /// What is asked for fits no device that the task may use.
    /// `needed` is 0 where nobody can tell.
    #[error("{}", no_memory(what, *needed, place, *there))]
    NoMemory { what: String, needed: u64, place: String, there: u64 },

    /// The host gave no memory for something that the library must keep.
    #[error("{what} needs {bytes} bytes, which the host does not give")]
    NoHostMemory { what: String, bytes: u64 },

    /// No device is there, or none that a mask or selection allows.
    #[error("no device for {what}: {}", plain(why))]
    NoDevice { what: String, why: String },

    /// A file could not be opened, read, written or named.
    #[error("{action} {}: {}", plain(&path.to_string_lossy()), plain(why))]
    Io { action: &'static str, path: PathBuf, why: String },

    /// The task's own code returned an error.
    #[error("the task's callback returned {code}")]
    Callback { code: i32 },

    /// The task's own code did not return: something unwound it, and ended there.
    #[error("the task's callback did not return: {how} left it")]
    Unwound { how: &'static str },

    /// The task's own code panicked; the panic ended there.
    #[error("the task panicked: {message}")]
    Panic { message: String },

    /// A piece of a range did not end well.
    #[error("elements {begin} to {end} (not included): {why}")]
    Elements { begin: u64, end: u64, why: Box<Error> },

    /// The task was cancelled before its result counted.
    #[error("the task was cancelled")]
    Cancelled,

    /// The wait could never have ended.
    #[error("{what} would wait for ever: {why}")]
    Deadlock { what: &'static str, why: String },

    /// A task that had to end well before this one did not.
    #[error("{what} was not started: {before}, which it comes after, did not end well ({why})")]
    Dependency { what: String, before: String, why: String },

    /// An attempt took longer than it may.
    #[error("{what} took longer than {limit_s} s on {device}")]
    Deadline { what: String, limit_s: f64, device: String },

    /// The scheduler is being destroyed, or has been.
    #[error("the scheduler is shut down; {what} is not possible any more")]
    Shutdown { what: &'static str },

    /// The process was forked after the scheduler had been created.
    #[error(
        "this process was forked after the scheduler had been created, and threads do not survive a fork; \
         create a scheduler of its own in the child"
    )]
    Forked,

    /// A numerical scheme that would blow up, or did. `suspect`: it did, and by all that is known it should not have, so
    /// that the device may be why.
    #[error("{what} is {value}: {why}")]
    Unstable { what: String, value: String, why: String, suspect: bool },

    /// What a device computed is wrong, as the code that ran there has found.
    #[error("device {device} computed something wrong: {what}")]
    WrongResult { device: String, what: String },

    /// A device failed.
    #[error("device {device}: {what}")]
    Device { device: String, what: String, fault: DeviceFault },

    /// A device could not start the work beside what it was doing.
    #[error("device {device} has too few resources to launch: {what}")]
    Resources { device: String, what: String },

    /// A call of a device's driver failed, which says nothing of the device.
    #[error("device {device}: {what}")]
    Driver { device: String, what: String },

    /// A device is there, but not for us now: another process has it to itself.
    #[error("device {device} can't be used now: {what}")]
    Busy { device: String, what: String },

    /// The system lets the process have no thread more.
    #[error(
        "the system gives no thread {purpose} ({why}): the limit on processes (ulimit -u) or on memory is \
         reached, or stack_bytes is too large"
    )]
    NoThread { purpose: &'static str, why: String },

    /// Not the caller's fault. Please report it.
    #[error("internal error, please report it: {0}")]
    Internal(String),
}

/// Text from outside for a sentence that may be shown on a terminal or kept in a log: what would break a line or move a
/// cursor is written as an escape, and what is endless is cut.
fn plain(text: &str) -> String {
    const MOST: usize = 800;
    // Overrides of the direction of writing make a text look like another.
    let odd = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if text.len() <= MOST && !text.chars().any(odd) {
        return text.to_owned();
    }
    let mut plain = String::new();
    for c in text.chars().take(MOST) {
        if odd(c) { plain.extend(c.escape_default()) } else { plain.push(c) }
    }
    if text.chars().nth(MOST).is_some() {
        plain.push('…');
    }
    plain
}

fn stale(what: &str) -> &'static str {
    match what {
        "task" => "it was released, or belongs to another scheduler",
        "exec" => "the code that was given it has returned, or it is a copy",
        _ => "it was destroyed, or never was one",
    }
}

fn no_memory(what: &str, needed: u64, place: &str, there: u64) -> String {
    match needed {
        0 => format!("{what} does not fit {place}, which has {there} bytes"),
        // A limit of the process, or no room in one piece.
        _ if needed <= there => {
            format!("{what} needs {needed} bytes, which {place} does not give, though {there} are free")
        }
        _ => format!("{what} needs {needed} bytes; the most that {place} has is {there} bytes"),
    }
}

/// What a failure leaves of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceFault {
    /// Its context is of no use any more; a new one may be.
    Poisoned,
    /// It is gone.
    Lost,
}

impl Error {
    /// Whether it says something of where the task ran, and not only of the task.
    pub fn is_of_device(&self) -> bool {
        self.is_shortage() || matches!(self, Error::Device { .. } | Error::Busy { .. })
    }

    /// Whether there was too little of something that others give back.
    pub fn is_shortage(&self) -> bool {
        matches!(self, Error::NoMemory { .. } | Error::NoHostMemory { .. } | Error::Resources { .. })
    }

    /// Whether the same again would end the same, whatever runs it.
    pub fn is_final(&self) -> bool {
        matches!(self, Error::Argument { .. } | Error::Unstable { suspect: false, .. })
    }

    /// Whether a result is wrong, and it may be the device that is to blame: another would tell.
    pub fn is_suspect(&self) -> bool {
        matches!(self, Error::WrongResult { .. } | Error::Unstable { suspect: true, .. })
    }

    pub fn argument(
        what: impl Into<String>,
        value: impl std::fmt::Display,
        accepted: impl Into<String>,
    ) -> Self {
        Error::Argument { what: what.into(), value: value.to_string(), accepted: accepted.into() }
    }

    /// The words name the elements of a range in which it happened. What is for the scheduler to deal
    /// with stays what it is.
    pub fn in_elements(self, piece: std::ops::Range<u64>) -> Self {
        let (begin, end) = (piece.start, piece.end);
        let place = format!("elements {begin} to {end} (not included)");
        match self {
            Error::Device { device, what, fault } => {
                Error::Device { device, what: format!("{place}: {what}"), fault }
            }
            Error::Resources { device, what } => {
                Error::Resources { device, what: format!("{place}: {what}") }
            }
            Error::Busy { device, what } => Error::Busy { device, what: format!("{place}: {what}") },
            Error::NoMemory { what, needed, place: device, there } => {
                Error::NoMemory { what: format!("{place}: {what}"), needed, place: device, there }
            }
            Error::NoHostMemory { what, bytes } => {
                Error::NoHostMemory { what: format!("{place}: {what}"), bytes }
            }
            other => Error::Elements { begin, end, why: Box::new(other) },
        }
    }

    pub fn io(action: &'static str, path: &Path, why: impl std::fmt::Display) -> Self {
        let mut why = why.to_string();
        // The system's own words do not say whose limit, nor where it is set.
        if cfg!(unix) && why.ends_with("Too many open files (os error 24)") {
            why += ": the limit on open files (ulimit -n) is reached";
        }
        Error::Io { action, path: path.to_owned(), why }
    }
}
