//! Reserves file names for one call at a time. An old package gives sources that differ only in
//! depth the same record name, and a snapshot's name contains only the number of the shot within
//! its call. So two calls of a process may have the same names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};
use crate::io::atomic::folder_of;

/// Maximum number of file names of ended calls that are remembered.
const MOST: usize = 10_000;

/// The reserved names of a process, and those of its ended calls.
pub struct Names {
    reserved: BTreeSet<PathBuf>,
    /// Files that earlier calls have written, and whether the replacement of each was reported.
    written: BTreeMap<PathBuf, bool>,
}

impl Names {
    pub const fn new() -> Names {
        Names { reserved: BTreeSet::new(), written: BTreeMap::new() }
    }
}

/// A call's exclusive right to its file names, until it is dropped.
pub struct Claim {
    all: &'static Mutex<Names>,
    files: Vec<PathBuf>,
}

impl Claim {
    /// Reserves the names. Returns an error if another call has reserved one of them.
    pub fn new(
        all: &'static Mutex<Names>,
        files: impl IntoIterator<Item = impl AsRef<Path>>,
    ) -> Result<Claim> {
        let mut claim = Claim { all, files: Vec::new() };
        let mut names = lock(claim.all);
        for file in files {
            let file = file.as_ref();
            let place = place(file);
            if !names.reserved.insert(place.clone()) {
                // Dropping the claim locks the names.
                drop(names);
                let why = "another call of this process is writing this file; use different names";
                return Err(Error::io("create", file, why));
            }
            claim.files.push(place);
        }
        drop(names);
        Ok(claim)
    }

    /// Ends the claim of a call whose files are complete. Returns the names under which earlier
    /// calls of this process had files, each name only the first time.
    pub fn written(mut self) -> Vec<PathBuf> {
        let mut names = lock(self.all);
        let mut replaced = Vec::new();
        for place in std::mem::take(&mut self.files) {
            names.reserved.remove(&place);
            let has_room = names.written.len() < MOST;
            match names.written.get_mut(&place) {
                Some(true) => {}
                Some(reported) => {
                    *reported = true;
                    replaced.push(place);
                }
                None if has_room => drop(names.written.insert(place, false)),
                None => {}
            }
        }
        replaced
    }
}

impl Drop for Claim {
    /// Releases the names of a call that wrote no files; existing files stay.
    fn drop(&mut self) {
        if self.files.is_empty() {
            return;
        }
        let mut names = lock(self.all);
        for place in &self.files {
            names.reserved.remove(place);
        }
    }
}

fn lock(names: &Mutex<Names>) -> MutexGuard<'_, Names> {
    names.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the same path for every spelling of a file's path. The file need not exist.
fn place(file: &Path) -> PathBuf {
    match (folder_of(file).canonicalize(), file.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => file.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(files: &[&Path]) -> Result<Claim> {
        static ALL: Mutex<Names> = Mutex::new(Names::new());
        Claim::new(&ALL, files.iter().copied())
    }

    #[test]
    fn name_belongs_to_one_call_in_every_spelling() {
        let folder = std::env::temp_dir();
        let file = folder.join("gpusched-claims-a");
        let first = claim(&[&file]).unwrap();
        let again = folder.join(".").join("gpusched-claims-a");
        let other = folder.join("gpusched-claims-b");
        // The refused call releases the other name, too.
        for _ in 0..2 {
            let refused = claim(&[&other, &again]).err().unwrap().to_string();
            assert!(refused.contains("gpusched-claims-a: another call of this process"), "{refused}");
        }
        drop(claim(&[&other]).unwrap());
        drop(first);
        drop(claim(&[&again]).unwrap());
    }

    #[test]
    fn replaced_file_is_reported_once() {
        let file = std::env::temp_dir().join("gpusched-claims-c");
        let write = || claim(&[&file]).unwrap().written();
        assert!(write().is_empty());
        // A call that fails replaces nothing.
        drop(claim(&[&file]).unwrap());
        assert_eq!(write(), [place(&file)]);
        assert!(write().is_empty());
        drop(claim(&[&file]).unwrap());
        assert!(write().is_empty());
    }
}
