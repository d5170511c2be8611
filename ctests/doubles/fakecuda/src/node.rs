//! GPUs that several processes share: all that name the same file in `FAKECUDA_NODE`.
//!
//! The file with `.log` added to its name is a log, and the sum of its lines is the memory in use.
//! A line: `nanoseconds process gpu event bytes bytes-in-use-by-all [kernel]`, by
//! `CLOCK_MONOTONIC`. Events: `take`, `give`, `refuse` (bytes that were not free), `context`,
//! `leave` (a context ends), `begin` and `end` of a kernel, `gone` (a process has ended; the bytes
//! that it had).

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::{Mutex, OnceLock};

use crate::driver::lock;

pub struct Node {
    log: File,
    /// Bytes that each process holds on each GPU, by the lines read so far.
    used: Mutex<HashMap<(u32, usize), u64>>,
}

/// The log while no other process or thread uses it.
struct Locked<'a> {
    log: &'a File,
    used: &'a mut HashMap<(u32, usize), u64>,
}

impl Node {
    /// Returns the node of `FAKECUDA_NODE`; none if its file has an error, which is printed.
    pub fn get() -> Option<&'static Node> {
        static NODE: OnceLock<Option<Node>> = OnceLock::new();
        let open = || {
            let mut path = std::env::var_os("FAKECUDA_NODE").filter(|path| !path.is_empty())?;
            path.push(".log");
            let log = OpenOptions::new().read(true).append(true).create(true).open(&path);
            let log = log.inspect_err(|why| eprintln!("fakecuda: {}: {why}", path.display())).ok()?;
            Some(Node { log, used: Mutex::default() })
        };
        NODE.get_or_init(open).as_ref()
    }

    /// Allocates bytes of a GPU if the processes then hold no more than `limit` together.
    pub fn take(&self, gpu: usize, bytes: u64, limit: u64) -> bool {
        self.locked(|log| {
            let used = log.in_use(gpu);
            let fits = used.saturating_add(bytes) <= limit;
            if fits {
                log.write("take", gpu, bytes, used + bytes, "");
            } else {
                log.write("refuse", gpu, bytes, used, "");
            }
            fits
        })
    }

    pub fn give(&self, gpu: usize, bytes: u64) {
        self.locked(|log| {
            let used = log.in_use(gpu).saturating_sub(bytes);
            log.write("give", gpu, bytes, used, "");
        });
    }

    pub fn event(&self, gpu: usize, event: &str, kernel: &str) {
        self.locked(|log| {
            let used = log.in_use(gpu);
            log.write(event, gpu, 0, used, kernel);
        });
    }

    pub fn in_use(&self, gpu: usize) -> u64 {
        self.locked(|log| log.in_use(gpu))
    }

    fn locked<T>(&self, work: impl FnOnce(&mut Locked<'_>) -> T) -> T {
        let mut used = lock(&self.used);
        let (mut log, mut text) = (&self.log, String::new());
        // SAFETY: the file stays open.
        while unsafe { libc::flock(log.as_raw_fd(), libc::LOCK_EX) } != 0 {}
        log.read_to_string(&mut text).expect("lines of text");
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words[at].parse::<u64>().expect("a number");
            count(&mut used, number(1) as u32, words[3], number(2) as usize, number(4));
        }
        let result = work(&mut Locked { log, used: &mut used });
        // SAFETY: as above.
        unsafe { libc::flock(log.as_raw_fd(), libc::LOCK_UN) };
        result
    }
}

impl Locked<'_> {
    /// Returns the bytes of a GPU that living processes hold. Ended processes hold none.
    fn in_use(&mut self, gpu: usize) -> u64 {
        let mut dead: Vec<_> = self.used.iter().map(|(key, bytes)| (*key, *bytes)).collect();
        dead.retain(|((process, _), bytes)| *bytes > 0 && !lives(*process));
        for ((process, gpu), bytes) in dead {
            let left = self.sum(gpu) - bytes;
            self.line(process, "gone", gpu, bytes, left, "");
        }
        self.sum(gpu)
    }

    fn sum(&self, gpu: usize) -> u64 {
        self.used.iter().filter(|((_, of), _)| *of == gpu).map(|(_, bytes)| bytes).sum()
    }

    fn write(&mut self, event: &str, gpu: usize, bytes: u64, used: u64, kernel: &str) {
        self.line(std::process::id(), event, gpu, bytes, used, kernel);
    }

    /// Appends a line, after which the next read begins.
    fn line(&mut self, process: u32, event: &str, gpu: usize, bytes: u64, used: u64, kernel: &str) {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: writes to the structure.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
        let time = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        let line = format!("{time} {process} {gpu} {event} {bytes} {used} {kernel}\n");
        self.log.write_all(line.as_bytes()).expect("the log of the node");
        count(self.used, process, event, gpu, bytes);
    }
}

fn count(used: &mut HashMap<(u32, usize), u64>, process: u32, event: &str, gpu: usize, bytes: u64) {
    let all = used.entry((process, gpu)).or_default();
    match event {
        "take" => *all += bytes,
        "give" | "gone" => *all = all.saturating_sub(bytes),
        _ => {}
    }
}

/// Returns true if a process exists and has not ended; one whose parent has not waited for it has
/// ended.
fn lives(process: u32) -> bool {
    let state = std::fs::read_to_string(Path::new("/proc").join(process.to_string()).join("stat"));
    state.is_ok_and(|text| !text.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['Z', 'X'])))
}
