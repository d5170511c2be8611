//! The log of the library: off unless `GPUSCHED_LOG` or a callback turns it on.

use std::cell::Cell;
use std::ffi::{OsStr, c_char, c_void};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::ptr;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use log::{LevelFilter, Log, Metadata, Record};

use super::status::c_text;
use super::{input, trampoline};
use crate::backend::callback_mode::CallbackMode;
use crate::backend::thread::CancelGuard;
use crate::descriptor;
use crate::error::{Error, Result};
use crate::fork::ProcessMark;
use crate::write_signals::without_signals;

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

/// The log of one process and, until that process replaces it, of its forked children.
struct LogSink {
    born: ProcessMark,
    /// None if the process logs as its parent did.
    target: RwLock<Option<LogTarget>>,
    /// The sink of the parent. Its lock may stay locked for ever: a thread that held it may not
    /// exist in this process.
    inherited: Option<&'static LogSink>,
}

/// Logs to the sink of the calling process. A sink is never freed.
struct ProcessLog(AtomicPtr<LogSink>);

static LOG: ProcessLog = ProcessLog::new();
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
    /// Calls `code` with the target. It is not replaced before `code` has returned.
    fn with_target(&self, code: impl FnOnce(&LogTarget)) {
        let target = match self.born.is_here() {
            true => Some(self.target.read().unwrap_or_else(PoisonError::into_inner)),
            false => self.target.try_read().ok(),
        };
        match (target.as_deref(), self.inherited) {
            (Some(Some(target)), _) => code(target),
            (Some(None), Some(inherited)) => inherited.with_target(code),
            _ => {}
        }
    }
}

impl ProcessLog {
    const fn new() -> Self {
        ProcessLog(AtomicPtr::new(ptr::null_mut()))
    }

    /// Returns the sink of this process.
    fn sink(&self) -> &'static LogSink {
        let last = self.0.load(Ordering::Acquire);
        // SAFETY: a sink is never freed.
        let inherited = match unsafe { last.as_ref() } {
            Some(sink) if sink.born.is_here() => return sink,
            inherited => inherited,
        };
        let sink = LogSink { born: ProcessMark::here(), target: RwLock::new(None), inherited };
        let sink = Box::into_raw(Box::new(sink));
        match self.0.compare_exchange(last, sink, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: as above.
            Ok(_) => unsafe { &*sink },
            // SAFETY: no other thread has the new one; the other thread's is never freed.
            Err(other) => unsafe {
                drop(Box::from_raw(sink));
                &*other
            },
        }
    }

    fn set_target(&self, target: LogTarget) {
        *self.sink().target.write().unwrap_or_else(PoisonError::into_inner) = Some(target);
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

impl Log for ProcessLog {
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
        self.sink().with_target(|target| match target {
            LogTarget::Off => {}
            // A write error has nowhere to be reported.
            LogTarget::Stderr => {
                // The lock of std::io::stderr may stay locked for ever in a child of fork.
                // SAFETY: the file is not dropped, so descriptor 2 stays open.
                let mut file = ManuallyDrop::new(unsafe { File::from_raw_fd(2) });
                let mut write = || without_signals(|| drop(file.write_all(text().as_bytes())));
                match AROUND_WRITES.get() {
                    Some(around) => around(&mut write),
                    None => write(),
                }
            }
            LogTarget::File(file) => {
                let mut file: &File = file;
                without_signals(|| drop(file.write_all(text().as_bytes())));
            }
            LogTarget::Callback { function, user, mode } => {
                let text = c_text(line.clone());
                let level = std::ptr::without_provenance_mut(record.level() as usize);
                // SAFETY: the caller passed a function that may be called from any thread. An
                // exception that leaves it has nowhere to be reported.
                let _ = unsafe {
                    let function: trampoline::CallerFunction = std::mem::transmute(*function);
                    let words = [level, text.as_ptr().cast_mut().cast(), user.pointer()];
                    trampoline::call(mode.enter(), function, words)
                };
            }
        });
        let _ = INSIDE_CALLBACK.try_with(|inside| inside.set(false));
    }

    fn flush(&self) {}
}

/// Installs the sink. If the host has set a logger in the same copy of `log`, that stays, and the
/// result is false.
pub(super) fn install(target: LogTarget, level: LevelFilter) -> bool {
    let ours = log::set_logger(&LOG).is_ok() || std::ptr::addr_eq(log::logger(), &LOG);
    if ours {
        LOG.set_target(target);
        log::set_max_level(level);
    }
    ours
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
    use std::sync::atomic::AtomicU32;
    use std::time::Duration;

    use super::*;
    use crate::fork::tests::fork_during;

    #[test]
    fn line_is_one_write() {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        let log = ProcessLog::new();
        log.set_target(LogTarget::File(OwnedFd::from(theirs).into()));
        log.log(
            &Record::builder().level(log::Level::Warn).target("here").args(format_args!("a {}", 1)).build(),
        );
        let mut written = [0; 100];
        let length = ours.recv(&mut written).unwrap();
        assert_eq!(written[..length], *b"[WARN  here: a 1]\n");
    }
    #[test]
    fn forked_child_logs_while_a_thread_of_its_parent_writes_to_standard_error() {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        let log = ProcessLog::new();
        log.set_target(LogTarget::Stderr);
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
                log.log(&Record::builder().target("here").args(format_args!("child")).build());
            },
        );
        assert_eq!(status, 0);
        let mut written = [0; 100];
        let length = ours.recv(&mut written).unwrap();
        assert_eq!(written[..length], *b"[INFO  here: child]\n");
    }

    static CALLS: AtomicU32 = AtomicU32::new(0);

    /// Counts the call, and returns half a second later in the process that passed its own id.
    unsafe extern "C-unwind" fn count(_: i32, _: *const c_char, process: *mut c_void) {
        CALLS.fetch_add(1, Ordering::SeqCst);
        if process.addr() == std::process::id() as usize {
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    #[test]
    fn forked_child_replaces_a_log_function_that_a_thread_of_its_parent_is_inside_of() {
        let process = ptr::without_provenance_mut(std::process::id() as usize);
        let mode = CallbackMode::of_this_thread();
        let counting =
            || LogTarget::Callback { function: count, user: input::SendPointer::new(process), mode };
        let log = ProcessLog::new();
        log.set_target(counting());
        let line = |log: &ProcessLog| log.log(&Record::builder().args(format_args!("a line")).build());
        let status = fork_during(
            |pause| {
                std::thread::scope(|scope| {
                    scope.spawn(|| line(&log));
                    while CALLS.load(Ordering::SeqCst) == 0 {
                        std::thread::yield_now();
                    }
                    pause();
                });
            },
            || {
                let calls = || CALLS.load(Ordering::SeqCst);
                line(&log);
                assert_eq!(calls(), 2, "a child logs as its parent");
                log.set_target(LogTarget::Off);
                line(&log);
                assert_eq!(calls(), 2, "a function that was replaced is not called");
                log.set_target(counting());
                line(&log);
                assert_eq!(calls(), 3);
            },
        );
        assert_eq!(status, 0);
    }
}
