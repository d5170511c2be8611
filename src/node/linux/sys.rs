//! The system calls that the leases are made of, and what becomes of their descriptors in a forked child.
//!
//! A lock of an open file description lives until its last descriptor is closed, and a forked child has
//! them all. So the descriptors of this floor are kept in a table without locks, from which the child closes them
//! before it does anything else. Opening and closing go through a gate that a fork holds, so
//! that no child has one that is not in the table.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use libc::c_int;

use crate::descriptor;

/// Three for each member that a node can have.
const MOST: usize = 768;
static TABLE: [AtomicI32; MOST] = [const { AtomicI32::new(-1) }; MOST];
static GATE: AtomicBool = AtomicBool::new(false);
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Arranges what happens when the process forks. Who has locks of his own to hold then, under which leases are opened or given
/// up, calls this before he arranges it.
pub fn watch_forks() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        // SAFETY: the functions stay where they are, use atomics and `close` only, and do not unwind. Refused, for want
        // of memory, it leaves children that keep their parent's leases until they end.
        unsafe {
            libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child));
        }
    });
}

extern "C" fn before() {
    let mut tries = 0;
    while GATE.swap(true, Ordering::Acquire) {
        tries += 1;
        match tries < 100 {
            true => std::thread::yield_now(),
            false => std::thread::sleep(Duration::from_micros(100)),
        }
    }
}

extern "C" fn in_parent() {
    GATE.store(false, Ordering::Release);
}

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    for place in &TABLE {
        let descriptor = place.swap(-1, Ordering::Relaxed);
        if descriptor >= 0 {
            // SAFETY: it is ours, and whoever had it here sees that he was forked before he uses it.
            unsafe { libc::close(descriptor) };
        }
    }
    in_parent();
}

/// Which process this is, counted from its first ancestor that asked.
pub(super) fn forks() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

/// An open descriptor that no forked child keeps. In a child it is of no use, and dropping it there does nothing.
#[derive(Debug)]
pub(super) struct Descriptor {
    place: usize,
    born: u64,
}

impl Descriptor {
    fn new(open: impl FnOnce() -> RawFd) -> io::Result<Descriptor> {
        watch_forks();
        before();
        let made = Self::placed(open);
        in_parent();
        made
    }

    /// Behind the gate.
    fn placed(open: impl FnOnce() -> RawFd) -> io::Result<Descriptor> {
        let place = TABLE.iter().position(|place| place.load(Ordering::Relaxed) < 0);
        let place = place.ok_or_else(|| io::Error::other("too many leases in this process"))?;
        let raw = checked(open())?;
        // SAFETY: it was opened just now, and nobody else has it.
        let opened = unsafe { OwnedFd::from_raw_fd(raw) };
        let raw = descriptor::above_standard(opened)?.into_raw_fd();
        TABLE[place].store(raw, Ordering::Relaxed);
        Ok(Descriptor { place, born: forks() })
    }

    /// Opens `name` in a folder for reading and writing, makes it if it is not there, follows no link and
    /// waits for nobody.
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
        // SAFETY: takes numbers only.
        Self::new(|| unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })
    }

    pub fn inotify() -> io::Result<Descriptor> {
        // SAFETY: takes numbers only.
        Self::new(|| unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) })
    }

    fn raw(&self) -> io::Result<RawFd> {
        match self.born == forks() {
            true => Ok(TABLE[self.place].load(Ordering::Relaxed)),
            false => Err(io::Error::other("the process was forked")),
        }
    }

    /// As many bytes as there are.
    pub fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < into.len() {
            let rest = &mut into[done..];
            // SAFETY: the place is ours and as long as is said.
            let got = unsafe {
                libc::pread(
                    self.raw()?,
                    rest.as_mut_ptr().cast(),
                    rest.len(),
                    (at + done as u64) as libc::off_t,
                )
            };
            match size(got) {
                Ok(0) => break,
                Ok(got) => done += got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    pub fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let rest = &bytes[done..];
            // SAFETY: the bytes are there and as many as is said.
            let put = unsafe {
                libc::pwrite(self.raw()?, rest.as_ptr().cast(), rest.len(), (at + done as u64) as libc::off_t)
            };
            match size(put) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(put) => done += put,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// One read of what does not wait: of an event or of inotify. 0: nothing is there.
    pub fn drain(&self, into: &mut [u8]) -> usize {
        let Ok(raw) = self.raw() else { return 0 };
        // SAFETY: the place is ours and as long as is said.
        size(unsafe { libc::read(raw, into.as_mut_ptr().cast(), into.len()) }).unwrap_or(0)
    }

    /// Rings an event.
    pub fn ring(&self) {
        let Ok(raw) = self.raw() else { return };
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight bytes of ours. It fails only where it has been rung 2^64 times.
        unsafe { libc::write(raw, one.as_ptr().cast(), one.len()) };
    }

    /// Watches a file for being written to, and for being closed by one who could write.
    pub fn watch(&self, file: &Descriptor, path: &Path) -> io::Result<()> {
        let of_itself = CString::new(format!("/proc/self/fd/{}", file.raw()?))?;
        let path = CString::new(path.as_os_str().as_bytes())?;
        let mut result = Ok(());
        for path in [of_itself, path] {
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

    /// Takes a lock of these bytes for the open file; whether it was free.
    pub fn lock(&self, begin: u64, length: u64) -> io::Result<bool> {
        let mut lock = range(libc::F_WRLCK, begin, length);
        match self.control(libc::F_OFD_SETLK, &mut lock) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub fn unlock(&self, begin: u64, length: u64) -> io::Result<()> {
        self.control(libc::F_OFD_SETLK, &mut range(libc::F_UNLCK, begin, length))
    }

    /// A lock among these bytes that another open file has: where it begins and how long it is.
    pub fn locked(&self, begin: u64, length: u64) -> io::Result<Option<(u64, u64)>> {
        let mut lock = range(libc::F_WRLCK, begin, length);
        self.control(libc::F_OFD_GETLK, &mut lock)?;
        let found = c_int::from(lock.l_type) != libc::F_UNLCK;
        Ok(found.then_some((lock.l_start as u64, lock.l_len as u64)))
    }

    fn control(&self, command: c_int, lock: &mut libc::flock) -> io::Result<()> {
        // SAFETY: the struct is ours and whole.
        checked(unsafe { libc::fcntl(self.raw()?, command, std::ptr::from_mut(lock)) }).map(|_| ())
    }

    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        // SAFETY: takes numbers only.
        checked(unsafe { libc::fchmod(self.raw()?, mode as libc::mode_t) }).map(|_| ())
    }

    pub fn status(&self) -> io::Result<Status> {
        // SAFETY: a struct of numbers, all of which may be 0.
        let mut status: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: the place is ours.
        checked(unsafe { libc::fstat(self.raw()?, &mut status) })?;
        Ok(Status {
            is_file: status.st_mode & libc::S_IFMT == libc::S_IFREG,
            mode: status.st_mode & 0o7777,
            owner: status.st_uid,
            links: status.st_nlink as u64,
        })
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        if self.born != forks() {
            return;
        }
        before();
        // A fork has not happened since: it would have waited at the gate.
        if self.born == forks() {
            let raw = TABLE[self.place].swap(-1, Ordering::Relaxed);
            // SAFETY: it is ours, and nobody has it after this.
            unsafe { libc::close(raw) };
        }
        in_parent();
    }
}

/// What there is to know about an open file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Status {
    pub is_file: bool,
    pub mode: u32,
    pub owner: u32,
    pub links: u64,
}

/// Waits until one of them can be read; which ones.
pub(super) fn poll(of: [Option<&Descriptor>; 2], timeout: Duration) -> [bool; 2] {
    let asked = of.map(|one| libc::pollfd {
        // A negative one is left out.
        fd: one.and_then(|one| one.raw().ok()).unwrap_or(-1),
        events: libc::POLLIN,
        revents: 0,
    });
    let mut asked = asked;
    // Rounded up: a wait that ends a little early would be begun again and again.
    let timeout = timeout.as_nanos().div_ceil(1_000_000).min(3_600_000) as c_int;
    // SAFETY: two structs of ours. A signal ends it early, which looks like the end of the time.
    unsafe { libc::poll(asked.as_mut_ptr(), asked.len() as libc::nfds_t, timeout) };
    asked.map(|one| one.revents != 0)
}

/// The type of the file system that an open file is on: a number as in <linux/magic.h>.
pub(super) fn file_system(of: &impl AsRawFd) -> io::Result<u32> {
    // SAFETY: a struct of numbers, all of which may be 0.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the place is ours and the file is open.
    checked(unsafe { libc::fstatfs(of.as_raw_fd(), &mut found) })?;
    Ok(found.f_type as u32)
}

/// Nanoseconds of CLOCK_MONOTONIC, which all processes of a node have in common.
pub(super) fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is ours; the clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// In whose name the process acts.
pub(super) fn user() -> u32 {
    // SAFETY: takes nothing and can't fail.
    unsafe { libc::geteuid() }
}

fn range(kind: c_int, begin: u64, length: u64) -> libc::flock {
    // SAFETY: a struct of numbers, all of which may be 0; locks of open files want 0 for the process.
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

fn size(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
