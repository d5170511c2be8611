//! The cards of a node, which several processes share: `FAKECUDA_NODE` names a file for what each process has of
//! each card. It is made if it is not there; no process has to be there all the time.
//!
//! A process has a row in the file and a lock on it, which the kernel drops when the process ends, however it ends: then
//! the row counts no more. What has happened stands in a second file of that name and `.log`, a line for each event:
//! ```text
//! nanoseconds process card event bytes bytes-in-use-by-all [kernel]
//! ```
//! Nanoseconds are those of `CLOCK_MONOTONIC`. Events: `take`, `give`, `refuse` (bytes that were asked for and not there), `context`,
//! `leave` (a context ends), `begin` and `end` of a kernel's run, `gone` (a process has ended, with what it had).

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

const CARDS: usize = 16;
/// Processes at a time.
const ROWS: usize = 128;
/// Process, and of each card bytes in use: numbers of eight bytes.
const NUMBERS: usize = 1 + CARDS;

type Row = [u64; NUMBERS];
const ROW: usize = size_of::<Row>();

pub struct Node {
    rows: File,
    log: File,
    /// Ours, once there is one; held by the thread that reads or writes the file.
    mine: Mutex<Option<usize>>,
}

/// The file, while nobody else reads or writes it.
struct Alone<'a> {
    node: &'a Node,
    mine: MutexGuard<'a, Option<usize>>,
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        // SAFETY: a file that is open as long as the process lives.
        unsafe { libc::flock(self.node.rows.as_raw_fd(), libc::LOCK_UN) };
    }
}

impl Node {
    /// What `FAKECUDA_NODE` names; a mistake is told on standard error, and the cards are this process's own then.
    pub fn get() -> Option<&'static Node> {
        static NODE: OnceLock<Option<Node>> = OnceLock::new();
        let open = || {
            let path = std::env::var_os("FAKECUDA_NODE").filter(|path| !path.is_empty())?;
            let node = Node::open(path.as_ref());
            node.inspect_err(|why| eprintln!("fakecuda: FAKECUDA_NODE: {}: {why}", path.display())).ok()
        };
        NODE.get_or_init(open).as_ref()
    }

    fn open(path: &Path) -> io::Result<Node> {
        let rows = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let mut log = path.as_os_str().to_owned();
        log.push(".log");
        let log = OpenOptions::new().append(true).create(true).open(log)?;
        let node = Node { rows, log, mine: Mutex::default() };
        let alone = node.alone();
        if node.rows.metadata()?.len() == 0 {
            node.rows.set_len((ROWS * ROW) as u64)?;
        }
        drop(alone);
        Ok(node)
    }

    /// Takes bytes of a card if all processes have no more than `limit` then.
    pub fn take(&self, card: usize, bytes: u64, limit: u64) -> bool {
        let mut alone = self.alone();
        let used = alone.sweep(card);
        let fits = used.saturating_add(bytes) <= limit;
        if fits {
            alone.change(|row| row[1 + card] += bytes);
            alone.log(card, "take", bytes, used + bytes, "");
        } else {
            alone.log(card, "refuse", bytes, used, "");
        }
        fits
    }

    pub fn give(&self, card: usize, bytes: u64) {
        let mut alone = self.alone();
        alone.change(|row| row[1 + card] = row[1 + card].saturating_sub(bytes));
        let used = alone.sweep(card);
        alone.log(card, "give", bytes, used, "");
    }

    /// This process makes a context on a card, or ends it.
    pub fn context(&self, card: usize, made: bool) {
        let mut alone = self.alone();
        let used = alone.sweep(card);
        alone.log(card, if made { "context" } else { "leave" }, 0, used, "");
    }

    /// A kernel begins or ends on a card.
    pub fn run(&self, card: usize, event: &str, kernel: &str) {
        let mut alone = self.alone();
        let used = alone.sweep(card);
        alone.log(card, event, 0, used, kernel);
    }

    /// Bytes of a card that all processes have.
    pub fn in_use(&self, card: usize) -> u64 {
        self.alone().rows().iter().flatten().map(|row| row[1 + card]).sum()
    }

    fn alone(&self) -> Alone<'_> {
        let mine = self.mine.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: a file that is open as long as the process lives.
        while unsafe { libc::flock(self.rows.as_raw_fd(), libc::LOCK_EX) } != 0 {
            std::thread::yield_now();
        }
        Alone { node: self, mine }
    }

    fn write(&self, number: usize, row: &Row) {
        let bytes: Vec<u8> = row.iter().flat_map(|value| value.to_ne_bytes()).collect();
        if let Err(why) = self.rows.write_all_at(&bytes, (number * ROW) as u64) {
            eprintln!("fakecuda: FAKECUDA_NODE: {why}");
        }
    }

    /// The lock on a row: asks for it, or who has it; `true` if nobody else has.
    fn lock_row(&self, number: usize, command: libc::c_int) -> bool {
        // SAFETY: zero is a valid value of each field.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        lock.l_type = libc::F_WRLCK as _;
        lock.l_whence = libc::SEEK_SET as _;
        lock.l_start = (number * ROW) as _;
        lock.l_len = ROW as _;
        // SAFETY: an open file, and a structure that both commands read and may write to.
        let answer = unsafe { libc::fcntl(self.rows.as_raw_fd(), command, &mut lock) };
        answer == 0 && (command == libc::F_SETLK || lock.l_type == libc::F_UNLCK as _)
    }
}

impl Alone<'_> {
    /// Of those that live.
    fn rows(&self) -> Vec<Option<Row>> {
        let mut bytes = vec![0; ROWS * ROW];
        if let Err(why) = self.node.rows.read_exact_at(&mut bytes, 0) {
            eprintln!("fakecuda: FAKECUDA_NODE: {why}");
        }
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        let row = |bytes: &[u8]| -> Row { std::array::from_fn(|k| number(&bytes[8 * k..8 * k + 8])) };
        let all = bytes.chunks_exact(ROW).map(row).enumerate();
        all.map(|(at, row)| (row[0] != 0 && self.lives(at, &row)).then_some(row)).collect()
    }

    /// A lock of our own process is in nobody's way: also that of the driver's library, if this is NVML's.
    fn lives(&self, number: usize, row: &Row) -> bool {
        row[0] == u64::from(std::process::id()) || !self.node.lock_row(number, libc::F_GETLK)
    }

    /// Clears the rows of the dead; bytes of a card that the living have.
    fn sweep(&mut self, card: usize) -> u64 {
        let mut used = 0;
        for (number, row) in self.rows().into_iter().enumerate() {
            match row {
                Some(row) => used += row[1 + card],
                None => self.bury(number),
            }
        }
        used
    }

    fn bury(&mut self, number: usize) {
        let mut bytes = [0; ROW];
        if self.node.rows.read_exact_at(&mut bytes, (number * ROW) as u64).is_err() || bytes == [0; ROW] {
            return;
        }
        let row: Row =
            std::array::from_fn(|k| u64::from_ne_bytes(std::array::from_fn(|byte| bytes[8 * k + byte])));
        self.node.write(number, &[0; NUMBERS]);
        for card in (0..CARDS).filter(|card| row[1 + card] != 0) {
            let left: u64 = self.rows().iter().flatten().map(|row| row[1 + card]).sum();
            self.write_log(row[0], card, "gone", row[1 + card], left, "");
        }
    }

    /// Changes our row, which is taken the first time.
    fn change(&mut self, change: impl FnOnce(&mut Row)) {
        let rows = self.rows();
        let number = match *self.mine {
            Some(number) => Some(number),
            None => (0..ROWS).find(|at| rows[*at].is_none() && self.node.lock_row(*at, libc::F_SETLK)),
        };
        let Some(number) = number else {
            eprintln!("fakecuda: FAKECUDA_NODE: more than {ROWS} processes");
            return;
        };
        let fresh = self.mine.replace(number).is_none();
        let mut row = rows[number].filter(|_| !fresh).unwrap_or([0; NUMBERS]);
        row[0] = std::process::id().into();
        change(&mut row);
        self.node.write(number, &row);
    }

    fn log(&self, card: usize, event: &str, bytes: u64, used: u64, kernel: &str) {
        self.write_log(std::process::id().into(), card, event, bytes, used, kernel);
    }

    fn write_log(&self, process: u64, card: usize, event: &str, bytes: u64, used: u64, kernel: &str) {
        let line = format!("{} {process} {card} {event} {bytes} {used} {kernel}\n", nanoseconds());
        let _ = (&self.node.log).write_all(line.as_bytes());
    }
}

fn nanoseconds() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a structure to be written to.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
