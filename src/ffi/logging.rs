//! What the library says while it works. Nothing, unless `GPUSCHED_LOG` or a callback asks for it.

use std::cell::Cell;
use std::ffi::{c_char, c_void};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::str::FromStr;
use std::sync::{Once, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use log::{LevelFilter, Log, Metadata, Record};

use super::status::c_text;
use super::{input, trampoline};
use crate::backend::cpu::CallbackMode;
use crate::backend::thread::Uncancelled;
use crate::descriptor;
use crate::error::{Error, Result};
use crate::fork::ProcessMark;

pub(super) enum Target {
    Off,
    Stderr,
    File(File),
    Callback {
        function: unsafe extern "C-unwind" fn(i32, *const c_char, *mut c_void),
        user: input::Lent<c_void>,
        mode: CallbackMode,
    },
}

struct Sink {
    target: RwLock<Target>,
    born: OnceLock<ProcessMark>,
}

static SINK: Sink = Sink { target: RwLock::new(Target::Off), born: OnceLock::new() };
static START: Once = Once::new();

impl Sink {
    /// In a child of fork the lock may be held by a thread that is not here, and nobody waits for that.
    fn inherited(&self) -> bool {
        self.born.get().is_some_and(|born| !born.is_here())
    }

    fn look(&self) -> Option<RwLockReadGuard<'_, Target>> {
        match self.inherited() {
            true => self.target.try_read().ok(),
            false => Some(self.target.read().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    fn set(&self, target: Target) -> bool {
        let place = match self.inherited() {
            true => self.target.try_write().ok(),
            false => Some(self.target.write().unwrap_or_else(PoisonError::into_inner)),
        };
        place.map(|mut place| *place = target).is_some()
    }
}

thread_local! {
    /// Whether this thread is inside the caller's log function: what it causes to be logged is dropped.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Returns true while the calling thread is inside the caller's log function.
pub(super) fn is_inside_callback() -> bool {
    INSIDE.try_with(Cell::get).unwrap_or(false)
}

impl Log for Sink {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        if INSIDE.try_with(|inside| inside.replace(true)).unwrap_or(true) {
            return;
        }
        let _whole = Uncancelled::here();
        let line = format!("{}: {}", record.target(), record.args());
        let target = self.look();
        match target.as_deref().unwrap_or(&Target::Off) {
            Target::Off => {}
            // A log that can't be written has nowhere to say so.
            Target::Stderr => {
                let _ = writeln!(std::io::stderr(), "[{:5} {line}]", record.level());
            }
            Target::File(file) => {
                let _ = writeln!(&*file, "[{:5} {line}]", record.level());
            }
            Target::Callback { function, user, mode } => {
                let text = c_text(line);
                let level = std::ptr::without_provenance_mut(record.level() as usize);
                // SAFETY: the caller gave a function and said that it may be called from any thread. What
                // leaves it has nowhere to be told.
                let _ = unsafe {
                    let function: trampoline::Function = std::mem::transmute(*function);
                    let words = [level, text.as_ptr().cast_mut().cast(), user.pointer()];
                    trampoline::call(mode.enter(), function, words)
                };
            }
        }
        drop(target);
        let _ = INSIDE.try_with(|inside| inside.set(false));
    }

    fn flush(&self) {}
}

/// Puts the sink in place. Where the host has its own logger in the same copy of `log`, that one stays.
pub(super) fn install(target: Target, level: LevelFilter) -> bool {
    let ours = log::set_logger(&SINK).is_ok() || std::ptr::addr_eq(log::logger(), &SINK);
    let set = ours && SINK.set(target);
    if set {
        log::set_max_level(level);
    }
    set
}

/// Returns the log to standard error, or to nowhere where that is closed: descriptor 2 may later be a file that the
/// program opens.
fn standard_error() -> Target {
    // SAFETY: takes numbers only.
    match unsafe { libc::fcntl(2, libc::F_GETFD) } {
        0.. => Target::Stderr,
        _ => Target::Off,
    }
}

/// Looks at `GPUSCHED_LOG` on the first call into the library: `LEVEL`, which writes to standard error,
/// or `LEVEL:FILE`, which appends to a file.
pub(super) fn start() {
    start_or("");
}

/// The same for a program of its own, which tells `otherwise` where nobody has asked for anything. One that has a logger
/// has no use for it.
pub fn start_or(otherwise: &str) {
    START.call_once(|| {
        SINK.born.get_or_init(ProcessMark::here);
        let wish = std::env::var_os("GPUSCHED_LOG").unwrap_or_else(|| otherwise.into());
        let _whole = Uncancelled::here();
        match asked_for(&wish.to_string_lossy()) {
            Ok((Target::Off, _)) => {}
            Ok((target, level)) => {
                install(target, level);
            }
            Err(error) => {
                if install(standard_error(), LevelFilter::Warn) {
                    log::warn!("{error}");
                }
            }
        }
    });
}

fn asked_for(wish: &str) -> Result<(Target, LevelFilter)> {
    let (level, file) = wish.split_once(':').map_or((wish, None), |(level, file)| (level, Some(file)));
    let Ok(level) = LevelFilter::from_str(if level.is_empty() { "off" } else { level }) else {
        let accepted = "off, error, warn, info, debug or trace, and :FILE behind it to write to a file";
        return Err(Error::argument("GPUSCHED_LOG", wish, accepted));
    };
    let target = match file {
        _ if level == LevelFilter::Off => Target::Off,
        None => standard_error(),
        Some(file) => {
            let opened = descriptor::open(OpenOptions::new().create(true).append(true), file.as_ref());
            Target::File(opened.map_err(|why| Error::io("cannot open the log file", file.as_ref(), why))?)
        }
    };
    Ok((target, level))
}
