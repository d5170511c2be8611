//! A small file that several processes read and renew now and then, such as the remembered rates.

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Read};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::atomic;
use crate::descriptor;
use crate::error::{Error, Result};
use crate::sched::{STORE_MAX_BYTES, Store};

/// How long a lock is waited for. Another process holds it while it forces a small file to disk, which takes a busy
/// disk tenths of a second; several may do so at once. A process that is stopped meanwhile costs no more than this.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(5);

/// The file of that name. It is whole or absent, and read only if it is a plain file of no more than
/// [`STORE_MAX_BYTES`] bytes. Folders that are missing are made when it is first written.
#[derive(Debug)]
pub struct Kept {
    path: PathBuf,
}

impl Kept {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Kept { path: path.into() }
    }

    /// So that no other process renews it meanwhile. Without it, as on file systems that have no locks,
    /// what another wrote in the same moment may be lost, and no more.
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
        // A file that can't be read is replaced, if that is possible.
        let there = self.load().unwrap_or_default();
        atomic::write(&self.path, renew(there.as_deref()).as_bytes())
    }
}

impl Store for Kept {
    fn load(&self) -> Result<Option<Vec<u8>>> {
        let fail = |why: &dyn std::fmt::Display| Error::io("read", &self.path, why);
        // Looked at first: to open a pipe could last for ever.
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
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("gpusched-kept-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// Longer than any disk takes.
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
    fn absent_then_there_then_renewed_with_its_folders() {
        let folder = folder("plain");
        let kept = Kept::new(folder.join("a/b/rates"));
        assert_eq!(kept.load(), Ok(None));
        append(&kept, "one ").unwrap();
        append(&kept, "two").unwrap();
        assert_eq!(kept.load().unwrap().unwrap(), b"one two");
        assert_eq!(fs::read_dir(folder.join("a/b")).unwrap().count(), 1);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn several_that_renew_it_at_once_lose_nothing() {
        let folder = folder("many");
        let path = folder.join("rates");
        let has_locks = Kept::new(path.clone()).lock(LONG).is_some();
        assert!(has_locks, "the folder for temporary files has to be on a file system with locks");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let kept = Kept::new(path.clone());
                scope.spawn(move || append(&kept, "x").unwrap());
            }
        });
        assert_eq!(fs::read(&path).unwrap(), b"xxxx");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn lock_that_is_never_released_is_not_waited_for_without_end() {
        let folder = folder("held");
        let kept = Kept::new(folder.join("rates"));
        let held = kept.lock(LONG).unwrap();
        append_within(Duration::from_millis(1), &kept, "x").unwrap();
        drop(held);
        assert_eq!(fs::read(folder.join("rates")).unwrap(), b"x");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_is_no_plain_file_is_neither_read_nor_replaced() {
        let folder = folder("odd");
        fs::create_dir(folder.join("rates")).unwrap();
        let mut odd = vec![folder.join("rates"), folder.join("rates/"), PathBuf::new()];
        if cfg!(target_os = "linux") {
            // The last lets nobody make a folder, the one before it has no end.
            odd.extend(["/dev/zero", "/dev/null/rates"].map(PathBuf::from));
        }
        for path in odd {
            let kept = Kept::new(path.clone());
            assert!(kept.load().is_err() || path.as_os_str().is_empty(), "{path:?}");
            assert!(append(&kept, "x").is_err(), "{path:?}");
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    #[cfg(unix)]
    fn a_pipe_that_nobody_writes_to_is_not_waited_for() {
        let folder = folder("pipe");
        let path = folder.join("rates");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(Kept::new(path).load().is_err());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_file_without_measure_is_not_read_to_its_end() {
        let folder = folder("huge");
        let path = folder.join("rates");
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(Kept::new(path).load().unwrap().unwrap().len(), STORE_MAX_BYTES + 1);
        fs::remove_dir_all(folder).unwrap();
    }
}
