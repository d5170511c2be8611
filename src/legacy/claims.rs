//! Names that several calls of this process write. The names of the old packages do not tell sources apart
//! that differ in depth only, nor the snapshots of shots, so two calls may well be given the same.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};
use crate::io::atomic::folder_of;

/// Names of calls that are over, remembered at most.
const MOST: usize = 10_000;

/// Of a name that some call of this process has begun.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Writing { before: Option<Past> },
    Past(Past),
}

/// Of a name under which there is a file of this process.
#[derive(Clone, Copy, PartialEq)]
struct Past {
    /// Somebody was told that a later call replaced it.
    told: bool,
}

/// Those of a process.
pub struct Names(BTreeMap<PathBuf, State>);

impl Names {
    pub const fn new() -> Names {
        Names(BTreeMap::new())
    }
}

/// One call's right to its names, until it is dropped.
pub struct Claim {
    all: &'static Mutex<Names>,
    files: Vec<PathBuf>,
}

impl Claim {
    /// Refused: a name that another call has claimed and not let go.
    pub fn new(
        all: &'static Mutex<Names>,
        files: impl IntoIterator<Item = impl AsRef<Path>>,
    ) -> Result<Claim> {
        let mut claim = Claim { all, files: Vec::new() };
        let mut names = lock(claim.all);
        for file in files {
            let file = file.as_ref();
            let place = place(file);
            let before = match names.0.get(&place) {
                Some(State::Writing { .. }) => {
                    // The claim's drop wants the names.
                    drop(names);
                    let why = "another call of this process is writing this file; use different names";
                    return Err(Error::io("create", file, why));
                }
                Some(State::Past(past)) => Some(*past),
                None => None,
            };
            names.0.insert(place.clone(), State::Writing { before });
            claim.files.push(place);
        }
        drop(names);
        Ok(claim)
    }

    /// The files are there. Gives the names under which earlier calls of this process had some, each only
    /// the first time.
    pub fn written(mut self) -> Vec<PathBuf> {
        let mut names = lock(self.all);
        let mut replaced = Vec::new();
        for place in std::mem::take(&mut self.files) {
            let Some(State::Writing { before }) = names.0.remove(&place) else { continue };
            if before == Some(Past { told: false }) {
                replaced.push(place.clone());
            }
            if names.0.len() < MOST {
                names.0.insert(place, State::Past(Past { told: before.is_some() }));
            }
        }
        replaced
    }
}

impl Drop for Claim {
    /// Without files: what stood there stays.
    fn drop(&mut self) {
        if self.files.is_empty() {
            return;
        }
        let mut names = lock(self.all);
        for place in self.files.drain(..) {
            if let Some(State::Writing { before: Some(past) }) = names.0.remove(&place) {
                names.0.insert(place, State::Past(past));
            }
        }
    }
}

fn lock(names: &Mutex<Names>) -> MutexGuard<'_, Names> {
    names.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same for all ways to write the path of a file, which need not be there yet.
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
    fn a_name_is_of_one_call_at_a_time_however_it_is_written() {
        let folder = std::env::temp_dir();
        let file = folder.join("gpusched-claims-a");
        let first = claim(&[&file]).unwrap();
        let again = folder.join(".").join("gpusched-claims-a");
        let other = folder.join("gpusched-claims-b");
        // The other name is let go with the refused call.
        for _ in 0..2 {
            let refused = claim(&[&other, &again]).err().unwrap().to_string();
            assert!(refused.contains("gpusched-claims-a: another call of this process"), "{refused}");
        }
        drop(claim(&[&other]).unwrap());
        drop(first);
        drop(claim(&[&again]).unwrap());
    }

    #[test]
    fn a_file_that_is_replaced_is_told_of_once() {
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
