//! System calls of the leases, and the descriptors that a forked child must not keep.
//!
//! A lock of an open file description lives until its last descriptor is closed, and a forked child
//! inherits all descriptors. So the descriptors of this module are in a table without locks, and
//! the child closes them before any other code runs in it. Opening and closing take a gate that
//! `fork` holds, so no child inherits a descriptor that is missing in the table.

use std::ffi::{CStr, CString};
use std::fs::{File, Metadata, Permissions};
use std::io::{self, Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use libc::c_int;

use crate::descriptor;
use crate::fork::{ForkOnce, ProcessMark, forks};
use crate::write_signals::without_signals;

/// Three for each of the 256 members.
const MAX_DESCRIPTORS: usize = 768;
/// The open descriptors; -1: free.
static OPEN: [AtomicI32; MAX_DESCRIPTORS] = [const { AtomicI32::new(-1) }; MAX_DESCRIPTORS];
/// Spin lock, held by a thread that opens or closes a descriptor, and by `fork`.
static FORK_GATE: AtomicBool = AtomicBool::new(false);
static REGISTER: ForkOnce = ForkOnce::new();

/// Registers the functions that run at a fork. A module whose locks are held while leases are taken
/// or returned calls this before it registers its own: `fork` then takes those locks before the
/// gate.
pub fn install_fork_handlers() {
    REGISTER.call_once(|| {
        // Registers the count of forks first: a child sees the fork before its descriptors are
        // closed.
        forks();
        // SAFETY: the functions are never unloaded, use atomics and `close` only, and do not
        // unwind. If the system has no memory to register them, children keep their parent's leases
        // until they end.
        unsafe {
            libc::pthread_atfork(Some(prepare_fork), Some(unlock_gate), Some(close_in_child));
        }
    });
}

extern "C" fn prepare_fork() {
    REGISTER.set_done();
    lock_gate();
}

fn lock_gate() {
    let mut tries = 0;
    while FORK_GATE.swap(true, Ordering::Acquire) {
        tries += 1;
        match tries < 100 {
            true => std::thread::yield_now(),
            false => std::thread::sleep(Duration::from_micros(100)),
        }
    }
}

extern "C" fn unlock_gate() {
    FORK_GATE.store(false, Ordering::Release);
}

extern "C" fn close_in_child() {
    for entry in &OPEN {
        let descriptor = entry.swap(-1, Ordering::Relaxed);
        if descriptor >= 0 {
            // SAFETY: the descriptor belongs to an object of this module, which refuses to work in
            // a child.
            unsafe { libc::close(descriptor) };
        }
    }
    unlock_gate();
}

/// An open descriptor that no forked child keeps. In a child its calls fail, and dropping it does
/// nothing.
#[derive(Debug)]
pub(super) struct Descriptor {
    /// Index in [`OPEN`]; beyond it: closed.
    index: usize,
    process: ProcessMark,
}

impl Descriptor {
    fn new(open: impl FnOnce() -> RawFd) -> io::Result<Descriptor> {
        install_fork_handlers();
        lock_gate();
        let opened = Self::open_locked(open);
        unlock_gate();
        opened
    }

    /// Opens a descriptor. The caller holds the gate.
    fn open_locked(open: impl FnOnce() -> RawFd) -> io::Result<Descriptor> {
        let index = OPEN.iter().position(|entry| entry.load(Ordering::Relaxed) < 0);
        let index = index.ok_or_else(|| io::Error::other("too many leases in this process"))?;
        let raw = checked(open())?;
        // SAFETY: the descriptor was opened above and has no other owner.
        let opened = unsafe { OwnedFd::from_raw_fd(raw) };
        let raw = descriptor::above_standard(opened)?.into_raw_fd();
        OPEN[index].store(raw, Ordering::Relaxed);
        Ok(Descriptor { index, process: ProcessMark::here() })
    }

    /// Opens the file `name` of a folder for reading and writing and creates it if it is missing.
    /// Follows no link and does not block.
    pub fn open_at(folder: &impl AsRawFd, name: &CStr) -> io::Result<Descriptor> {
        let flags = libc::O_RDWR
            | libc::O_CREAT
            | libc::O_NOFOLLOW
            | libc::O_CLOEXEC
            | libc::O_NONBLOCK
            | libc::O_NOCTTY;
        // SAFETY: the folder is open and the name ends in 0.
        Self::new(|| unsafe { libc::openat(folder.as_raw_fd(), name.as_ptr(), flags, 0o600 as libc::mode_t) })
    }

    pub fn event() -> io::Result<Descriptor> {
        // SAFETY: the arguments are numbers.
        Self::new(|| unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })
    }

    pub fn inotify() -> io::Result<Descriptor> {
        // SAFETY: the arguments are numbers.
        Self::new(|| unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) })
    }

    /// Returns a descriptor of no file: its calls fail.
    pub fn closed() -> Descriptor {
        Descriptor { index: MAX_DESCRIPTORS, process: ProcessMark::here() }
    }

    fn raw(&self) -> io::Result<RawFd> {
        match OPEN.get(self.index) {
            _ if !self.process.is_here() => Err(io::Error::other("the process was forked")),
            Some(entry) => Ok(entry.load(Ordering::Relaxed)),
            None => Err(io::Error::other("it is closed")),
        }
    }

    /// Borrows the descriptor as a file.
    fn file(&self) -> io::Result<ManuallyDrop<File>> {
        // SAFETY: the descriptor is open while this object lives, and the result does not close it.
        Ok(ManuallyDrop::new(unsafe { File::from_raw_fd(self.raw()?) }))
    }

    /// Returns the number of bytes that were read, fewer than the buffer has only at the end of the
    /// file.
    pub fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        loop {
            match self.file()?.read_at(into, at) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    pub fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let file = self.file()?;
        without_signals(|| file.write_all_at(bytes, at))
    }

    /// Reads once from an event or from inotify, without blocking. Returns 0 if nothing is there.
    pub fn read_available(&self, into: &mut [u8]) -> usize {
        self.file().and_then(|file| (&*file).read(into)).unwrap_or(0)
    }

    /// Signals an event.
    pub fn signal(&self) {
        // Fails only after 2^64 signals.
        let _ = self.file().and_then(|file| (&*file).write(&1_u64.to_ne_bytes()));
    }

    /// Adds a file to this inotify instance: its writes, and the closes of writable descriptors.
    pub fn watch_file(&self, file: &Descriptor, path: &Path) -> io::Result<()> {
        let descriptor_path = CString::new(format!("/proc/self/fd/{}", file.raw()?))?;
        let path = CString::new(path.as_os_str().as_bytes())?;
        let mut result = Ok(());
        for path in [descriptor_path, path] {
            // SAFETY: the path ends in 0.
            let watch = unsafe {
                libc::inotify_add_watch(self.raw()?, path.as_ptr(), libc::IN_MODIFY | libc::IN_CLOSE_WRITE)
            };
            result = checked(watch).map(|_| ());
            if result.is_ok() {
                break;
            }
        }
        result
    }

    /// Locks these bytes for the open file. Returns false if another open file has locked one of
    /// them.
    pub fn lock(&self, begin: u64, length: u64) -> io::Result<bool> {
        let mut lock = byte_range(libc::F_WRLCK, begin, length);
        match self.control(libc::F_OFD_SETLK, &mut lock) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub fn unlock(&self, begin: u64, length: u64) -> io::Result<()> {
        self.control(libc::F_OFD_SETLK, &mut byte_range(libc::F_UNLCK, begin, length))
    }

    /// Returns begin and length of a lock that another open file has on these bytes. A length of 0
    /// means: to the end of any file.
    pub fn conflicting_lock(&self, begin: u64, length: u64) -> io::Result<Option<(u64, u64)>> {
        let mut lock = byte_range(libc::F_WRLCK, begin, length);
        self.control(libc::F_OFD_GETLK, &mut lock)?;
        let is_locked = c_int::from(lock.l_type) != libc::F_UNLCK;
        Ok(is_locked.then_some((lock.l_start as u64, lock.l_len as u64)))
    }

    fn control(&self, command: c_int, lock: &mut libc::flock) -> io::Result<()> {
        // SAFETY: the struct is initialised.
        checked(unsafe { libc::fcntl(self.raw()?, command, std::ptr::from_mut(lock)) }).map(|_| ())
    }

    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        self.file()?.set_permissions(Permissions::from_mode(mode))
    }

    pub fn metadata(&self) -> io::Result<Metadata> {
        self.file()?.metadata()
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        let Some(entry) = OPEN.get(self.index).filter(|_| self.process.is_here()) else { return };
        lock_gate();
        // No fork happens from here on, because it would wait for the gate.
        if self.process.is_here() {
            let raw = entry.swap(-1, Ordering::Relaxed);
            // SAFETY: the descriptor belongs to this object and is not used after this.
            unsafe { libc::close(raw) };
        }
        unlock_gate();
    }
}

/// Waits until one of the descriptors is readable or the timeout passes. Returns which are.
pub(super) fn poll_readable(of: [Option<&Descriptor>; 2], timeout: Duration) -> [bool; 2] {
    let asked = of.map(|one| libc::pollfd {
        // poll ignores negative descriptors.
        fd: one.and_then(|one| one.raw().ok()).unwrap_or(-1),
        events: libc::POLLIN,
        revents: 0,
    });
    let mut asked = asked;
    // Rounded up, because a wait that ends a little early would be repeated at once.
    let timeout = timeout.as_nanos().div_ceil(1_000_000).min(3_600_000) as c_int;
    // SAFETY: an array of initialised structs. A signal ends the call early, like a timeout.
    unsafe { libc::poll(asked.as_mut_ptr(), asked.len() as libc::nfds_t, timeout) };
    asked.map(|one| one.revents != 0)
}

/// Returns the type of the file system of an open file: a number of <linux/magic.h>.
pub(super) fn file_system_type(of: &impl AsRawFd) -> io::Result<u32> {
    // SAFETY: a struct of numbers, all of which may be 0.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: `found` is a valid struct and the file is open.
    checked(unsafe { libc::fstatfs(of.as_raw_fd(), &mut found) })?;
    Ok(found.f_type as u32)
}

/// Returns nanoseconds of CLOCK_MONOTONIC, which is the same in all processes of a node.
pub(super) fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid struct, and the clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the effective user id of the process.
pub(super) fn effective_user() -> u32 {
    // SAFETY: the call takes no argument and can't fail.
    unsafe { libc::geteuid() }
}

fn byte_range(kind: c_int, begin: u64, length: u64) -> libc::flock {
    // SAFETY: a struct of numbers, all of which may be 0. Locks of open files require process 0.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = begin as libc::off_t;
    lock.l_len = length as libc::off_t;
    lock
}

fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
