//! The log of the library: off unless `GPUSCHED_LOG` or a callback turns it on.

use std::cell::Cell;
use std::ffi::{OsStr, c_char, c_void};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use log::{LevelFilter, Log, Metadata, Record};

use super::broken_pipe::without_sigpipe;
use super::status::c_text;
use super::{input, trampoline};
use crate::backend::callback_mode::CallbackMode;
use crate::backend::thread::CancelGuard;
use crate::descriptor;
use crate::error::{Error, Result};
use crate::fork::ProcessMark;

pub(super) enum LogTarget {
    Off,
    Stderr,
    File(File),
    Callback {
        function: unsafe extern "C-unwind" fn(i32, *const c_char, *mut c_void),
        user: input::SendPointer<c_void>,
        mode: CallbackMode,
    },
}

struct LogSink {
    target: RwLock<LogTarget>,
    born: OnceLock<ProcessMark>,
}

static SINK: LogSink = LogSink { target: RwLock::new(LogTarget::Off), born: OnceLock::new() };
static START: Mutex<()> = Mutex::new(());
static STARTED: AtomicBool = AtomicBool::new(false);

/// Runs a write to a terminal.
type AroundWrite = fn(write: &mut dyn FnMut());

static AROUND_WRITES: OnceLock<AroundWrite> = OnceLock::new();

/// Passes each write of the log to standard error to `around`, which calls it once. A program that
/// draws on the terminal erases its drawing before the call, and draws again after it. Only the
/// first call has an effect.
pub fn pass_writes_to(around: AroundWrite) {
    let _ = AROUND_WRITES.set(around);
}

impl LogSink {
    /// Returns true in a child of fork, where a thread of the parent may hold the lock for ever.
    fn is_inherited(&self) -> bool {
        self.born.get().is_some_and(|born| !born.is_here())
    }

    fn target(&self) -> Option<RwLockReadGuard<'_, LogTarget>> {
        match self.is_inherited() {
            true => self.target.try_read().ok(),
            false => Some(self.target.read().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    fn set_target(&self, target: LogTarget) -> bool {
        let locked = match self.is_inherited() {
            true => self.target.try_write().ok(),
            false => Some(self.target.write().unwrap_or_else(PoisonError::into_inner)),
        };
        locked.map(|mut locked| *locked = target).is_some()
    }
}

thread_local! {
    /// True while this thread is inside the caller's log function: lines logged there are dropped.
    static INSIDE_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// Returns true while the calling thread is inside the caller's log function.
pub(super) fn is_inside_callback() -> bool {
    INSIDE_CALLBACK.try_with(Cell::get).unwrap_or(false)
}

impl Log for LogSink {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        if INSIDE_CALLBACK.try_with(|inside| inside.replace(true)).unwrap_or(true) {
            return;
        }
        let _whole = CancelGuard::here();
        let line = format!("{}: {}", record.target(), record.args());
        // One write for each line, so that lines of threads and processes that share the file stay
        // whole.
        let text = || format!("[{:5} {line}]\n", record.level());
        let target = self.target();
        match target.as_deref().unwrap_or(&LogTarget::Off) {
            LogTarget::Off => {}
            // A write error has nowhere to be reported.
            LogTarget::Stderr => {
                // The lock of std::io::stderr may stay locked for ever in a child of fork.
                // SAFETY: the file is not dropped, so descriptor 2 stays open.
                let mut file = ManuallyDrop::new(unsafe { File::from_raw_fd(2) });
                let mut write = || without_sigpipe(|| drop(file.write_all(text().as_bytes())));
                match AROUND_WRITES.get() {
                    Some(around) => around(&mut write),
                    None => write(),
                }
            }
            LogTarget::File(file) => {
                let mut file: &File = file;
                without_sigpipe(|| drop(file.write_all(text().as_bytes())));
            }
            LogTarget::Callback { function, user, mode } => {
                let text = c_text(line);
                let level = std::ptr::without_provenance_mut(record.level() as usize);
                // SAFETY: the caller passed a function that may be called from any thread. An
                // exception that leaves it has nowhere to be reported.
                let _ = unsafe {
                    let function: trampoline::CallerFunction = std::mem::transmute(*function);
                    let words = [level, text.as_ptr().cast_mut().cast(), user.pointer()];
                    trampoline::call(mode.enter(), function, words)
                };
            }
        }
        drop(target);
        let _ = INSIDE_CALLBACK.try_with(|inside| inside.set(false));
    }

    fn flush(&self) {}
}

/// Installs the sink. If the host has set a logger in the same copy of `log`, that stays, and the
/// result is false.
pub(super) fn install(target: LogTarget, level: LevelFilter) -> bool {
    let ours = log::set_logger(&SINK).is_ok() || std::ptr::addr_eq(log::logger(), &SINK);
    let set = ours && SINK.set_target(target);
    if set {
        log::set_max_level(level);
    }
    set
}

/// Returns the target standard error, or none if standard error is closed: the program may later
/// open a file as descriptor 2.
fn standard_error() -> LogTarget {
    // SAFETY: takes numbers only.
    match unsafe { libc::fcntl(2, libc::F_GETFD) } {
        0.. => LogTarget::Stderr,
        _ => LogTarget::Off,
    }
}

/// Reads `GPUSCHED_LOG` on the first call into the library: `LEVEL`, which writes to standard
/// error, or `LEVEL:FILE`, which appends to a file.
pub(super) fn start() {
    start_or("");
}

/// Starts the log of a program that has no other logger; `default` applies without `GPUSCHED_LOG`.
pub fn start_or(default: &str) {
    if !STARTED.load(Ordering::Acquire) {
        start_locked(default);
    }
}

/// Locks the start of the log. Fork waits for this lock.
pub(super) fn lock_start() -> MutexGuard<'static, ()> {
    START.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cold]
fn start_locked(default: &str) {
    let _starting = lock_start();
    if STARTED.load(Ordering::Acquire) {
        return;
    }
    SINK.born.get_or_init(ProcessMark::here);
    let setting = std::env::var_os("GPUSCHED_LOG").unwrap_or_else(|| default.into());
    let _whole = CancelGuard::here();
    match parse_setting(&setting) {
        Ok((LogTarget::Off, _)) => {}
        Ok((target, level)) => {
            install(target, level);
        }
        Err(error) => {
            if install(standard_error(), LevelFilter::Warn) {
                log::warn!("{error}");
            }
        }
    }
    STARTED.store(true, Ordering::Release);
}

fn parse_setting(setting: &OsStr) -> Result<(LogTarget, LevelFilter)> {
    let mut parts = setting.as_bytes().splitn(2, |&byte| byte == b':').map(OsStr::from_bytes);
    let level = parts.next().unwrap_or_default().to_string_lossy();
    let file = parts.next();
    let Ok(level) = LevelFilter::from_str(if level.is_empty() { "off" } else { &level }) else {
        let accepted = "off, error, warn, info, debug or trace; LEVEL:FILE appends to a file";
        return Err(Error::argument("GPUSCHED_LOG", setting.to_string_lossy(), accepted));
    };
    let target = match file {
        _ if level == LevelFilter::Off => LogTarget::Off,
        None => standard_error(),
        Some(file) => {
            let mut options = OpenOptions::new();
            // Opening a pipe without a reader fails instead of blocking.
            options.create(true).append(true).custom_flags(libc::O_NONBLOCK);
            let opened = descriptor::open(&options, file.as_ref());
            LogTarget::File(opened.map_err(|why| Error::io("cannot open the log file", file.as_ref(), why))?)
        }
    };
    Ok((target, level))
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::os::unix::net::UnixDatagram;

    use super::*;
    use crate::fork::tests::fork_during;

    #[test]
    fn line_is_one_write() {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        let target = LogTarget::File(OwnedFd::from(theirs).into());
        let sink = LogSink { target: RwLock::new(target), born: OnceLock::new() };
        sink.log(
            &Record::builder().level(log::Level::Warn).target("here").args(format_args!("a {}", 1)).build(),
        );
        let mut written = [0; 100];
        let length = ours.recv(&mut written).unwrap();
        assert_eq!(written[..length], *b"[WARN  here: a 1]\n");
    }
    #[test]
    fn forked_child_logs_while_a_thread_of_its_parent_writes_to_standard_error() {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        let sink = LogSink { target: RwLock::new(LogTarget::Stderr), born: OnceLock::new() };
        let status = fork_during(
            |pause| {
                let _writing = std::io::stderr().lock();
                pause();
            },
            || {
                // SAFETY: takes numbers only.
                unsafe {
                    libc::alarm(5);
                    libc::dup2(theirs.as_raw_fd(), 2);
                }
                sink.log(&Record::builder().target("here").args(format_args!("child")).build());
            },
        );
        assert_eq!(status, 0);
        let mut written = [0; 100];
        let length = ours.recv(&mut written).unwrap();
        assert_eq!(written[..length], *b"[INFO  here: child]\n");
    }
}
