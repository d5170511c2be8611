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
