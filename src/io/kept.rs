//! A small file that several processes read and update, such as the stored device rates.

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Read};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::atomic;
use crate::descriptor;
use crate::error::{Error, Result};
use crate::sched::{STORE_MAX_BYTES, Store};

/// Maximum time to wait for a lock. The holder forces a small file to disk, which takes some tenths
/// of a second on a busy disk; several processes may do so one after the other. A stopped holder
/// delays other processes by no more than this time.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(5);

/// The file with this path. It is complete or absent. Only a plain file is read, and at most
/// [`STORE_MAX_BYTES`] + 1 bytes of it. The first write creates missing folders.
#[derive(Debug)]
pub struct Kept {
    path: PathBuf,
}

impl Kept {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Kept { path: path.into() }
    }

    /// Locks the folder, so that no other process updates the file. Returns `None` if the lock is
    /// not available, as on file systems without locks. A simultaneous update by another process
    /// may then be lost.
    fn lock(&self, patience: Duration) -> Option<File> {
        let folder = descriptor::open_read(atomic::folder_of(&self.path)).ok()?;
        let end = Instant::now() + patience;
        loop {
            match folder.try_lock() {
                Ok(()) => return Some(folder),
                Err(TryLockError::WouldBlock) if Instant::now() < end => sleep(PAUSE),
                Err(_) => return None,
            }
        }
    }

    fn replace_within(&self, patience: Duration, renew: &dyn Fn(Option<&[u8]>) -> String) -> Result<()> {
        let folder = atomic::folder_of(&self.path);
        fs::create_dir_all(folder).map_err(|error| Error::io("make the folder", folder, error))?;
        let _lock = self.lock(patience);
        // A file that can't be read is replaced if possible.
        let there = self.load().unwrap_or_default();
        atomic::write(&self.path, renew(there.as_deref()).as_bytes())
    }
}

impl Store for Kept {
    fn load(&self) -> Result<Option<Vec<u8>>> {
        let fail = |why: &dyn std::fmt::Display| Error::io("read", &self.path, why);
        // Checked before opening, because opening a pipe may block forever.
        match fs::metadata(&self.path) {
            Ok(found) if found.is_file() => {}
            Ok(_) => return Err(fail(&"it is not a plain file")),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(fail(&error)),
        }
        let file = descriptor::open_read(&self.path).map_err(|error| fail(&error))?;
        let mut bytes = Vec::new();
        let most = STORE_MAX_BYTES as u64 + 1;
        file.take(most).read_to_end(&mut bytes).map_err(|error| fail(&error))?;
        Ok(Some(bytes))
    }

    fn replace(&self, renew: &dyn Fn(Option<&[u8]>) -> String) -> Result<()> {
        self.replace_within(PATIENCE, renew)
    }
}

#[cfg(test)]
mod tests {
    use testkit::Folder;

    use super::*;

    /// More than any disk needs.
    const LONG: Duration = Duration::from_secs(600);

    fn append(kept: &Kept, text: &str) -> Result<()> {
        append_within(LONG, kept, text)
    }

    fn append_within(patience: Duration, kept: &Kept, text: &str) -> Result<()> {
        kept.replace_within(patience, &|there| {
            format!("{}{text}", String::from_utf8_lossy(there.unwrap_or_default()))
        })
    }

    #[test]
    fn first_write_creates_folders_and_later_ones_replace() {
        let folder = Folder::new();
        let kept = Kept::new(folder.at("a/b/rates"));
        assert_eq!(kept.load(), Ok(None));
        append(&kept, "one ").unwrap();
        append(&kept, "two").unwrap();
        assert_eq!(kept.load().unwrap().unwrap(), b"one two");
        assert_eq!(fs::read_dir(folder.at("a/b")).unwrap().count(), 1);
    }

    #[test]
    fn simultaneous_updates_lose_nothing() {
        let folder = Folder::new();
        let path = folder.at("rates");
        let has_locks = Kept::new(path.clone()).lock(LONG).is_some();
        assert!(has_locks, "the folder for temporary files has to be on a file system with locks");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let kept = Kept::new(path.clone());
                scope.spawn(move || append(&kept, "x").unwrap());
            }
        });
        assert_eq!(fs::read(&path).unwrap(), b"xxxx");
    }

    #[test]
    fn wait_for_a_held_lock_times_out() {
        let folder = Folder::new();
        let kept = Kept::new(folder.at("rates"));
        let held = kept.lock(LONG).unwrap();
        append_within(Duration::from_millis(1), &kept, "x").unwrap();
        drop(held);
        assert_eq!(fs::read(folder.at("rates")).unwrap(), b"x");
    }

    #[test]
    fn special_files_are_neither_read_nor_replaced() {
        let folder = Folder::new();
        fs::create_dir(folder.at("rates")).unwrap();
        // `/dev/zero` has no end, and in `/dev/null` no folder can be created.
        let odd = ["/dev/zero", "/dev/null/rates", ""].map(PathBuf::from);
        for path in [folder.at("rates"), folder.at("rates/")].into_iter().chain(odd) {
            let kept = Kept::new(path.clone());
            assert!(kept.load().is_err() || path.as_os_str().is_empty(), "{path:?}");
            assert!(append(&kept, "x").is_err(), "{path:?}");
        }
    }

    #[test]
    fn pipe_without_a_writer_does_not_block() {
        let folder = Folder::new();
        let path = folder.at("rates");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(Kept::new(path).load().is_err());
    }

    #[test]
    fn huge_file_is_not_read_to_its_end() {
        let folder = Folder::new();
        let path = folder.at("rates");
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(Kept::new(path).load().unwrap().unwrap().len(), STORE_MAX_BYTES + 1);
    }
}
