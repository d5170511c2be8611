//! A small file that several processes read and renew now and then, such as the remembered rates.

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Read};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use super::atomic;
use crate::error::{Error, Result};
use crate::sched::{CACHE_LARGEST, Store};

/// How often, and after which pauses, a lock is tried that another process holds for moments.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// The file of that name. It is whole or absent, and read only if it is a plain file of no more than
/// [`CACHE_LARGEST`] bytes. Folders that are missing are made when it is first written.
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
    fn lock(&self) -> Option<File> {
        let folder = File::open(atomic::folder_of(&self.path)).ok()?;
        for _ in 0..TRIES {
            match folder.try_lock() {
                Ok(()) => return Some(folder),
                Err(TryLockError::WouldBlock) => sleep(PAUSE),
                Err(TryLockError::Error(_)) => return None,
            }
        }
        None
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
        let file = File::open(&self.path).map_err(|error| fail(&error))?;
        let mut bytes = Vec::new();
        let most = CACHE_LARGEST as u64 + 1;
        file.take(most).read_to_end(&mut bytes).map_err(|error| fail(&error))?;
        Ok(Some(bytes))
    }

    fn replace(&self, renew: &dyn Fn(Option<&[u8]>) -> String) -> Result<()> {
        let folder = atomic::folder_of(&self.path);
        fs::create_dir_all(folder).map_err(|error| Error::io("make the folder", folder, error))?;
        let _lock = self.lock();
        // What can't be read is replaced, if that is possible.
        let there = self.load().unwrap_or_default();
        atomic::write(&self.path, renew(there.as_deref()).as_bytes())
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

    fn append(kept: &Kept, text: &str) -> Result<()> {
        kept.replace(&|there| format!("{}{text}", String::from_utf8_lossy(there.unwrap_or_default())))
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
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let kept = Kept::new(path.clone());
                // A lock is given up after a while; there is none where the system has no locks.
                std::thread::spawn(move || append(&kept, "x").map(|()| kept.lock().is_some()))
            })
            .collect();
        let locked: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect();
        if locked.iter().all(|&locked| locked) {
            assert_eq!(fs::read(&path).unwrap(), b"xxxx");
        }
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
        assert_eq!(Kept::new(path).load().unwrap().unwrap().len(), CACHE_LARGEST + 1);
        fs::remove_dir_all(folder).unwrap();
    }
}
