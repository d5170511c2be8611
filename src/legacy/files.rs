//! The files of one call: one record of all shots, and snapshots. All get their names together
//! after every shot has succeeded; otherwise none of them is left.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::calls;
use super::claims::{Claim, Names};
use super::step_source::StepSource;
use crate::error::{Error, Result};
use crate::fd::shot::ShotOutput;
use crate::fd::survey::{Effort, Gather};
use crate::io::atomic::{self, Sealed};
use crate::io::raw;
use crate::sched::Exec;

pub struct Files {
    /// Bytes from one shot to the next in the record file.
    stride: u64,
    snapshots: Option<SnapshotNames>,
    /// `None` after the end of the call.
    written: Mutex<Option<Written>>,
}

struct Written {
    /// Reserves the names of the record and the first snapshot, whose replacement is logged.
    claim: Claim,
    /// Reserves the names of all snapshots of each shot.
    _shots: Option<Claim>,
    record: atomic::Output,
    /// Snapshots by shot and step. A retried shot replaces its own.
    snapshots: BTreeMap<(usize, usize), Sealed>,
}

/// Names of snapshots: `<prefix>ishot_<shot><between>it_<step>.bin`.
pub struct SnapshotNames {
    pub prefix: PathBuf,
    pub between: &'static str,
    pub shots: Range<usize>,
    /// Step of a shot's first snapshot.
    pub first_step: usize,
}

impl SnapshotNames {
    fn path(&self, shot: usize, step: impl Display) -> PathBuf {
        let mut name = self.prefix.as_os_str().to_owned();
        name.push(format!("ishot_{shot}{}it_{step}.bin", self.between));
        name.into()
    }

    /// Reserves one name for all snapshots of each shot, because two calls may write different
    /// steps.
    fn claim(&self, all: &'static Mutex<Names>) -> Result<Claim> {
        Claim::new(all, self.shots.clone().map(|shot| self.path(shot, "*")))
    }
}

impl Files {
    /// Checks that the outputs can be written, before anything is computed. Returns an error if
    /// another call of this process writes one of them.
    pub fn begin(record: &Path, stride: u64, snapshots: Option<SnapshotNames>) -> Result<Files> {
        let all = &calls::here()?.names;
        let snapshot = snapshots.as_ref().map(|names| names.path(names.shots.start, names.first_step));
        let claim = Claim::new(all, [Some(record), snapshot.as_deref()].into_iter().flatten())?;
        let shots = snapshots.as_ref().map(|names| names.claim(all)).transpose()?;
        let record = atomic::Output::create(record)?;
        if let Some(snapshot) = &snapshot {
            atomic::Output::create(snapshot)?;
        }
        Ok(Files {
            stride,
            snapshots,
            written: Mutex::new(Some(Written { claim, _shots: shots, record, snapshots: BTreeMap::new() })),
        })
    }

    /// Gives all files their names, the record last: a complete record means that the snapshots are
    /// complete, too.
    pub fn commit(&self) -> Result<()> {
        let Some(written) = self.take() else { return Err(Error::Cancelled) };
        // The record's lock protects the snapshots, too, until all have their names.
        let record = written.record.seal_locked()?;
        written.snapshots.into_values().try_for_each(Sealed::commit)?;
        record.commit()?;
        for file in written.claim.written() {
            log::warn!(
                "{} replaces the file of an earlier call of this process; to keep both, use different names",
                file.display()
            );
        }
        Ok(())
    }

    /// Removes all files. Attempts that still run can add no more.
    pub fn discard(&self) {
        drop(self.take());
    }

    fn take(&self) -> Option<Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn add(&self, change: impl FnOnce(&mut Written) -> Result<()>) -> Result<()> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        change(written.as_mut().ok_or(Error::Cancelled)?)
    }
}

/// The files of one shot.
pub struct ShotFiles {
    pub files: Arc<Files>,
    pub shot: usize,
    /// Source that is added to the snapshots and the record.
    pub source: Option<StepSource>,
}

impl ShotOutput for ShotFiles {
    fn snapshot(&self, _: &Exec<'_>, step: usize, field: &[f32]) -> Result<()> {
        let Some(names) = &self.files.snapshots else { return Ok(()) };
        if step < names.first_step {
            return Ok(());
        }
        let path = names.path(self.shot, step);
        let mut output = atomic::Output::create(&path)?;
        // The source is added in the file: a copy of the field may be too large for the memory.
        let mut changed = self.source.iter().flat_map(|source| source.changed_values(step, field));
        raw::write_to(&mut output, field)
            .and_then(|()| {
                changed.try_for_each(|(index, value)| {
                    output.seek(SeekFrom::Start(4 * index as u64))?;
                    raw::write_to(&mut output, &[value])
                })
            })
            .map_err(|error| Error::io("write", &path, error))?;
        let sealed = output.seal()?;
        self.files.add(|written| {
            written.snapshots.insert((self.shot, step), sealed);
            Ok(())
        })
    }

    fn finish(&self, _: &Exec<'_>, mut gather: Gather, _: Effort) -> Result<()> {
        if let Some(source) = &self.source {
            source.add_to_gather(&mut gather);
        }
        self.files.add(|written| {
            let record = &mut written.record;
            record
                .seek(SeekFrom::Start(self.shot as u64 * self.files.stride))
                .and_then(|_| raw::write_to(record, &gather.data))
                .map_err(|error| Error::io("write", record.target(), error))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls whose snapshots begin at different steps share the names of later steps.
    #[test]
    fn snapshots_of_a_shot_belong_to_one_call_at_a_time() {
        let folder = testkit::Folder::new();
        let begin = |record: &str, shots, first_step| {
            let names = SnapshotNames { prefix: folder.at("snap_"), between: "_", shots, first_step };
            Files::begin(&folder.at(record), 4, Some(names))
        };
        let first = begin("a.bin", 0..2, 0).unwrap();
        for shots in [0..1, 1..2] {
            let refused = begin("b.bin", shots, 100).err().unwrap().to_string();
            assert!(refused.contains("it_*.bin: another call of this process"), "{refused}");
        }
        begin("b.bin", 2..3, 100).unwrap();
        first.discard();
    }

    /// Programs take the record as the sign that the call is complete.
    #[test]
    fn record_is_not_named_before_every_snapshot_is() {
        let folder = testkit::Folder::new();
        let (record, prefix) = (folder.at("record.bin"), folder.at("snap_"));
        let names = || SnapshotNames { prefix: prefix.clone(), between: "", shots: 0..1, first_step: 0 };
        let files = Files::begin(&record, 4, Some(names())).unwrap();
        for step in [0, 60] {
            let output = atomic::Output::create(&names().path(0, step)).unwrap();
            let sealed = output.seal().unwrap();
            files.written.lock().unwrap().as_mut().unwrap().snapshots.insert((0, step), sealed);
        }
        // A folder has the name of the second snapshot.
        std::fs::create_dir(names().path(0, 60)).unwrap();
        assert!(matches!(files.commit(), Err(Error::Io { .. })));
        assert!(names().path(0, 0).is_file());
        assert!(!record.exists(), "a record beside snapshots that are not complete");
    }
}
