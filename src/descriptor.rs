//! Opens files on descriptors above 2.
//!
//! A daemon may run with its standard streams closed. The system gives the lowest free descriptor
//! to the next opened file, and the program still writes to descriptors 1 and 2. So the library
//! opens all its files here, as `tests/it/layers.rs` checks. A listed folder may have any
//! descriptor, because nothing can write to it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek};
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// Opens a file.
pub fn open(options: &OpenOptions, path: &Path) -> io::Result<File> {
    above_standard(options.open(path)?)
}

/// Opens a file for reading.
pub fn open_read(path: &Path) -> io::Result<File> {
    open(OpenOptions::new().read(true), path)
}

/// Creates a file for writing. Fails if the name exists.
pub fn create_new(path: &Path) -> io::Result<File> {
    let created = OpenOptions::new().write(true).create_new(true).open(path)?;
    let moved = emptied_above_standard(created);
    if moved.is_err() {
        let _ = fs::remove_file(path);
    }
    moved
}

/// Reads a text file to its end.
pub fn read_to_string(path: &Path) -> io::Result<String> {
    io::read_to_string(open_read(path)?)
}

/// Moves a new file to a descriptor above 2, and removes what another thread wrote to it as a
/// standard stream meanwhile.
fn emptied_above_standard(created: File) -> io::Result<File> {
    if !is_standard(&created) {
        return Ok(created);
    }
    let mut file = above_standard(created)?;
    file.set_len(0)?;
    file.rewind()?;
    Ok(file)
}

/// Occupies the free descriptors below 3 until the last of these is dropped. NVIDIA's libraries then
/// open their files above them.
pub struct OccupiedStreams(());

/// How many [`OccupiedStreams`] there are, and the files that occupy descriptors.
static OCCUPIED: Mutex<(usize, Vec<File>)> = Mutex::new((0, Vec::new()));

impl OccupiedStreams {
    pub fn here() -> Option<Self> {
        let mut occupied = occupied()?;
        let (users, files) = &mut *occupied;
        *users += 1;
        // No program has this folder as a stream.
        files.extend(std::iter::from_fn(|| File::open("/").ok().filter(is_standard)));
        Some(OccupiedStreams(()))
    }
}

impl Drop for OccupiedStreams {
    fn drop(&mut self) {
        let Some(mut occupied) = occupied() else { return };
        let (users, files) = &mut *occupied;
        *users -= 1;
        if *users > 0 {
            return;
        }
        for file in files.drain(..) {
            // The program may have put a file of its own there meanwhile, by `dup2`.
            if !file.metadata().is_ok_and(|now| now.is_dir()) {
                let _ = file.into_raw_fd();
            }
        }
    }
}

/// Other threads hold the lock for microseconds. In a forked child it may be held for ever.
fn occupied() -> Option<MutexGuard<'static, (usize, Vec<File>)>> {
    (0..100).find_map(|_| {
        let locked = OCCUPIED.try_lock().ok();
        if locked.is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        locked
    })
}

fn is_standard(opened: &impl AsFd) -> bool {
    opened.as_fd().as_raw_fd() <= 2
}

/// Moves an open file, event or the like to a descriptor above 2, unless it has one. The position
/// and locks stay.
pub fn above_standard<T: AsFd + From<OwnedFd>>(opened: T) -> io::Result<T> {
    match is_standard(&opened) {
        // The standard library requests a duplicate from 3 on (F_DUPFD_CLOEXEC).
        true => Ok(opened.as_fd().try_clone_to_owned()?.into()),
        false => Ok(opened),
    }
}
