//! Errors of the library. Each message says what is wrong with which thing, and what is accepted or
//! what to do.

use std::any::Any;
use std::path::{Path, PathBuf};

use unit_prefix::NumberPrefix;

pub type Result<T> = std::result::Result<T, Error>;

/// Formats a number of bytes for people, such as `1.50 GiB`.
pub fn human(bytes: u64) -> String {
    match NumberPrefix::binary(bytes as f64) {
        NumberPrefix::Standalone(_) => format!("{bytes} B"),
        NumberPrefix::Prefixed(prefix, number) => format!("{number:.2} {prefix}B"),
    }
}

/// An error. It is cloneable because every thread that waits for a task gets its outcome.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// An argument, a field or a key of a file is outside of the accepted range.
    #[error("{} is {}; accepted: {}", plain(what), plain(value), plain(accepted))]
    Argument { what: String, value: String, accepted: String },

    /// The caller's struct is from a newer header than this library.
    #[error(
        "{what} has size {size} and sets fields after byte {known}, the end of the struct in this library; \
         use the header of this library, or a newer library"
    )]
    TooNew { what: &'static str, size: usize, known: usize },

    /// An id or handle that was released, or is of another scheduler or process.
    #[error("{what} {id:#018x} is unknown here: {}", stale(what))]
    Stale { what: &'static str, id: u64 },

    /// A request fits no device that the task may use. `needed`: bytes; 0: not known.
    #[error("{}", no_memory(what, *needed, place, *there))]
    NoMemory { what: String, needed: u64, place: String, there: u64 },

    /// A GPU gives no context, though it has the memory.
    #[error("device {device}: {}", plain(what))]
    NoContext { device: String, what: String },

    /// The host has no memory for something that the library must keep.
    #[error("{what} needs {}, which the host can't provide", human(*bytes))]
    NoHostMemory { what: String, bytes: u64 },

    /// The process may not have the address space of an allocation. `left`: bytes below the limit,
    /// which is `limit`.
    #[error(
        "{what} needs {}; the limit of this process (ulimit -v) leaves {}: raise it, or make the task smaller",
        human(*needed), human(*left)
    )]
    ProcessLimit { what: String, needed: u64, left: u64, limit: u64 },

    /// The machine has no device, or none that a mask or selection allows.
    #[error("no device for {what}: {}", plain(why))]
    NoDevice { what: String, why: String },

    /// A file could not be opened, read, written or named.
    #[error("{action} {}: {}", plain(&path.to_string_lossy()), plain(why))]
    Io { action: &'static str, path: PathBuf, why: String },

    /// The task's job returned an error.
    #[error("the task's callback returned {code}")]
    Callback { code: i32 },

    /// The task's job returned an error, and said why.
    #[error("the task's callback failed: {}", plain(message))]
    Reported { message: String },

    /// The task's job was unwound instead of returning.
    #[error("the task's callback did not return: {how} left it")]
    Unwound { how: &'static str },

    /// The task's job panicked. The panic was caught.
    #[error("the task panicked: {message}")]
    Panic { message: String },

    /// A chunk of a range failed.
    #[error("elements {begin} to {end} (not included): {why}")]
    Elements { begin: u64, end: u64, why: Box<Error> },

    /// A descriptor of a list was refused.
    #[error("descs[{index}]: {why}")]
    Listed { index: usize, why: Box<Error> },

    /// The task was cancelled before it committed.
    #[error("the task was cancelled")]
    Cancelled,

    /// The wait could never end.
    #[error("{what} would never return: {why}")]
    Deadlock { what: &'static str, why: String },

    /// A task that this one depends on did not succeed.
    #[error("{what} was not started: {before}, on which it depends, did not succeed ({why})")]
    Dependency { what: String, before: String, why: String },

    /// An attempt ran longer than its deadline.
    #[error("{what} took longer than {limit_s} s on {device}")]
    Deadline { what: String, limit_s: f64, device: String },

    /// The scheduler is being destroyed, or was destroyed.
    #[error("the scheduler is shut down; {what} is not possible")]
    Shutdown { what: &'static str },

    /// The process was forked after the scheduler was created.
    #[error(
        "this process was forked after the scheduler had been created, and threads do not survive a fork; \
         create a scheduler of its own in the child"
    )]
    Forked,

    /// A numerical scheme is unstable, or has become so. `suspect`: it became unstable although it
    /// should be stable, so the device may be the cause.
    #[error("{what} is {value}: {why}")]
    Unstable { what: String, value: String, why: String, suspect: bool },

    /// A job found a wrong result of its device.
    #[error("device {device} computed a wrong result: {what}")]
    WrongResult { device: String, what: String },

    /// A device failed.
    #[error("device {device}: {}", plain(what))]
    Device { device: String, what: String, fault: DeviceFault },

    /// A device has too few resources for a launch beside its other work.
    #[error("device {device} has too few resources to launch: {what}")]
    Resources { device: String, what: String },

    /// A driver call failed for a reason that does not concern the device.
    #[error("device {device}: {}", plain(what))]
    Driver { device: String, what: String },

    /// Another process uses the device exclusively.
    #[error("device {device} can't be used now: {what}")]
    Busy { device: String, what: String },

    /// The system gives the process no more threads.
    #[error(
        "the system provides no thread {purpose} ({why}): the limit on processes (ulimit -u) or on memory is \
         reached, or stack_bytes is too large"
    )]
    NoThread { purpose: &'static str, why: String },

    /// A bug of the library.
    #[error("internal error, please report it: {0}")]
    Internal(String),
}

/// Returns a text from outside the library in a form that is safe for terminals and logs: control
/// characters are escaped, and a long text is truncated.
pub(crate) fn plain(text: &str) -> String {
    const MAX_LENGTH: usize = 800;
    // Marks of the writing direction can make a text look like another.
    let unsafe_character = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if text.len() <= MAX_LENGTH && !text.chars().any(unsafe_character) {
        return text.to_owned();
    }
    let mut plain = String::new();
    for c in text.chars().take(MAX_LENGTH) {
        if unsafe_character(c) { plain.extend(c.escape_default()) } else { plain.push(c) }
    }
    if text.chars().nth(MAX_LENGTH).is_some() {
        plain.push('…');
    }
    plain
}

/// Shortens a number that has more digits than any integer type, to a power of ten. Keeps a unit
/// behind it.
fn shortened(value: String) -> String {
    let number = value.split(' ').next().unwrap_or_default();
    match number.parse::<f64>() {
        Ok(parsed) if number.len() > 20 => value.replacen(number, &format!("{parsed:e}"), 1),
        _ => value,
    }
}

fn stale(what: &str) -> &'static str {
    match what {
        "task" => "it was released, or belongs to another scheduler",
        "exec" => "its callback has returned, or it is a copy",
        _ => "it was destroyed, or never existed",
    }
}

fn no_memory(what: &str, needed: u64, place: &str, there: u64) -> String {
    let (size, free) = (human(needed), human(there));
    match needed {
        0 => format!("{what}: not enough memory on {place}, where {free} are free"),
        // The limit is that of the process, or the memory is fragmented.
        _ if needed <= there => {
            format!("{what} needs {size}, which {place} can't provide, though {free} are free")
        }
        _ => format!("{what} needs {size}; the most that {place} has is {free}"),
    }
}

/// Advice for a device that only a new process can use. The retirement reason of such a device ends
/// with it.
pub const RESTART: &str = "restart the process";

/// The state of a device after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceFault {
    /// Its context is unusable; a new one may work.
    Poisoned,
    /// The device is not usable by this process any more.
    Lost,
}

impl Error {
    /// Returns the error of a panic with this payload, which is not dropped: its drop may panic.
    pub fn panic(payload: Box<dyn Any + Send>) -> Error {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let message = text.unwrap_or("no message").into();
        std::mem::forget(payload);
        Error::Panic { message }
    }

    /// Returns true if the error is about the device, not only about the task.
    pub fn is_of_device(&self) -> bool {
        self.is_shortage() || matches!(self, Error::Device { .. } | Error::Busy { .. })
    }

    /// Returns true if the error is a shortage of a resource that other tasks release.
    pub fn is_shortage(&self) -> bool {
        matches!(
            self,
            Error::NoMemory { .. }
                | Error::NoContext { .. }
                | Error::NoHostMemory { .. }
                | Error::ProcessLimit { .. }
                | Error::Resources { .. }
        )
    }

    /// Returns true if the task or a file is the cause, so a retry fails in the same way on any
    /// device.
    pub fn is_final(&self) -> bool {
        matches!(self, Error::Argument { .. } | Error::Io { .. } | Error::Unstable { suspect: false, .. })
    }

    /// Returns true if a result is wrong and the device may be the cause. A retry on another device
    /// shows which.
    pub fn is_suspect(&self) -> bool {
        matches!(self, Error::WrongResult { .. } | Error::Unstable { suspect: true, .. })
    }

    pub fn argument(
        what: impl Into<String>,
        value: impl std::fmt::Display,
        accepted: impl Into<String>,
    ) -> Self {
        Error::Argument { what: what.into(), value: shortened(value.to_string()), accepted: accepted.into() }
    }

    /// Adds the elements of a range to the message. Errors that the scheduler handles keep their
    /// variant.
    pub fn in_elements(mut self, chunk: std::ops::Range<u64>) -> Self {
        let (begin, end) = (chunk.start, chunk.end);
        match &mut self {
            Error::Device { what, .. }
            | Error::Resources { what, .. }
            | Error::Busy { what, .. }
            | Error::NoContext { what, .. }
            | Error::NoMemory { what, .. }
            | Error::NoHostMemory { what, .. }
            | Error::ProcessLimit { what, .. } => {
                *what = format!("elements {begin} to {end} (not included): {what}");
                self
            }
            _ => Error::Elements { begin, end, why: Box::new(self) },
        }
    }

    pub fn io(action: &'static str, path: &Path, why: impl std::fmt::Display) -> Self {
        let mut why = why.to_string();
        // The system's text does not say that the limit is that of the process, nor how to change
        // it.
        if why.ends_with("(os error 24)") {
            why += ": the limit on open files (ulimit -n) is reached";
        }
        Error::Io { action, path: path.to_owned(), why }
    }

    /// Returns true for an error of a file with one of these numbers of the system (`errno`).
    pub fn is_os_error(&self, codes: &[i32]) -> bool {
        let Error::Io { why, .. } = self else { return false };
        codes.iter().any(|code| why.contains(&format!("(os error {code})")))
    }

    /// Returns true if the process, or the system, can open no further file.
    pub fn is_out_of_descriptors(&self) -> bool {
        self.is_os_error(&[libc::EMFILE, libc::ENFILE])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_printed_in_the_largest_unit_below_them() {
        for (count, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (1536 << 10, "1.50 MiB"),
            (5 << 50, "5.00 PiB"),
        ] {
            assert_eq!(human(count), text);
        }
    }

    #[test]
    fn limit_on_open_files_is_named_in_every_locale() {
        for text in ["Too many open files (os error 24)", "Zu viele offene Dateien (os error 24)"] {
            let error = Error::io("open", Path::new("/x"), text).to_string();
            assert_eq!(error, format!("open /x: {text}: the limit on open files (ulimit -n) is reached"));
        }
        let other = "Datei oder Verzeichnis nicht gefunden (os error 2)";
        assert_eq!(Error::io("open", Path::new("/x"), other).to_string(), format!("open /x: {other}"));
    }

    #[test]
    fn refused_number_is_short() {
        for (value, text) in [
            (1e-45_f32.to_string(), "1e-45"),
            (format!("{} Hz", -1e-40_f32), "-1e-40 Hz"),
            (f32::MAX.to_string(), "3.4028235e38"),
            (u64::MAX.to_string(), "18446744073709551615"),
            (i64::MIN.to_string(), "-9223372036854775808"),
            ("0.000001 Hz".into(), "0.000001 Hz"),
            (" 12 ".into(), " 12 "),
            ("x".repeat(30), &"x".repeat(30)),
        ] {
            assert_eq!(
                Error::argument("it", value, "others").to_string(),
                format!("it is {text}; accepted: others")
            );
        }
    }
}
