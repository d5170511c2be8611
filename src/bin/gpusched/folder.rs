//! The output folder. A run locks it, and checks that its path still leads to the same folder, so
//! that all files are written there.

use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{self, Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use gpusched::io::{atomic, space};
use gpusched::{Error, Result, descriptor};

use crate::job::Job;
use crate::{names, reports};

/// Bytes that a run writes to check that it can write.
const BLOCK: usize = 4096;

/// Maximum time to wait for `collect`, which reads the descriptions of all shots under the lock, or
/// for a dry run.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);

/// Errors of a file that may pass by themselves.
const PASSING: &[i32] = &[
    // A full disk, a quota, a failure of a device.
    libc::ENOSPC,
    libc::EDQUOT,
    libc::EIO,
    // File servers: of NFS; of Lustre and Ceph, which exclude a node for a time; of SMB; of BeeGFS.
    libc::ESTALE,
    libc::ETIMEDOUT,
    libc::ESHUTDOWN,
    libc::EHOSTDOWN,
    libc::ECOMM,
    libc::EREMOTEIO,
    // The network.
    libc::ENOTCONN,
    libc::EHOSTUNREACH,
    libc::ENETUNREACH,
    libc::ECONNRESET,
];

pub struct OutputFolder {
    pub path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
    /// Locked until it is closed. `None`: the file system has no locks, or the folder can't be
    /// opened.
    claim: Option<File>,
    /// Other parts of the survey may hold the lock, and write the same files, at the same time.
    pub is_part: bool,
}

impl OutputFolder {
    /// Creates the folder if it is missing, locks it, and writes a block to a file in it. The lock
    /// excludes two simultaneous runs of different surveys, which would mix their records and
    /// descriptions. Parts of one survey share it.
    pub fn claim(path: &Path, is_part: bool) -> Result<OutputFolder> {
        let fail = |why: String| Error::io("write to the output folder", path, why);
        if fs::metadata(path).is_ok_and(|found| !found.is_dir()) {
            return Err(fail("it is a file; name a folder by output.folder".into()));
        }
        fs::create_dir_all(path).map_err(|why| {
            let dangling = path.ancestors().find(|part| part.is_symlink() && !part.exists());
            let why = match dangling.and_then(|link| Some((link.display(), fs::read_link(link).ok()?))) {
                Some((link, target)) => {
                    format!("{link} is a link to {}, which does not exist", target.display())
                }
                None => why.to_string(),
            };
            fail(format!("the folder cannot be created: {why}; name another by output.folder"))
        })?;
        let claim = lock(path, is_part, PATIENCE)?;
        // The file is removed, because it is dropped without a commit. A full disk refuses bytes,
        // not names, so a block is written.
        let manifest = path.join(names::MANIFEST);
        let mut tried = atomic::Output::create(&manifest)
            .map_err(|error| fail(format!("{error}; name another by output.folder")))?;
        fill(&mut tried, BLOCK).map_err(|why| Error::io("write", &manifest, why))?;
        tried.seal()?;
        let found = match &claim {
            Some(claim) => claim.metadata(),
            None => fs::metadata(path),
        };
        let identity = identity(&found.map_err(|why| fail(why.to_string()))?);
        Ok(OutputFolder { path: path.to_owned(), identity, claim, is_part })
    }

    /// Does the same as [`claim`](OutputFolder::claim), and undoes it. Returns the [free
    /// bytes](OutputFolder::free_bytes).
    pub fn probe(path: &Path, is_part: bool) -> Result<Option<u64>> {
        let is_missing = |folder: &&Path| fs::symlink_metadata(folder).is_err();
        let missing: Vec<_> = path.ancestors().take_while(is_missing).collect();
        let claimed = OutputFolder::claim(path, is_part).map(|claimed| claimed.free_bytes());
        missing.iter().for_each(|folder| drop(fs::remove_dir(folder)));
        claimed
    }

    /// Returns the free bytes of the folder's file system; `None` if that does not report them.
    pub fn free_bytes(&self) -> Option<u64> {
        space::free_bytes(&self.path).ok().flatten()
    }

    /// Returns true if no other run can write to the folder. Unfinished files in it are then of
    /// ended runs.
    pub fn is_exclusive(&self) -> bool {
        self.claim.is_some() && !self.is_part
    }

    /// Returns an error if the path no longer leads to the folder that the run has locked.
    pub fn check(&self) -> Result<()> {
        let why = match fs::metadata(&self.path) {
            Ok(found) if identity(&found) == self.identity => return Ok(()),
            Err(why) if !matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => why.to_string(),
            _ => "the folder was moved, removed or replaced during the run; finished shots are in the original folder".into(),
        };
        Err(Error::io("write to the output folder", &self.path, why))
    }
}

/// Locks the folder until the file is closed. If the reports there are of ended runs, waits at most
/// `patience` for the lock, which other commands hold for a moment. Returns an error if another run
/// holds it. `None`: the file system has no locks, or the folder can't be opened.
pub fn lock(path: &Path, is_part: bool, patience: Duration) -> Result<Option<File>> {
    let Ok(claim) = descriptor::open_read(path) else { return Ok(None) };
    let begun = Instant::now();
    loop {
        match if is_part { claim.try_lock_shared() } else { claim.try_lock() } {
            Ok(()) => return Ok(Some(claim)),
            Err(TryLockError::Error(_)) => return Ok(None),
            Err(TryLockError::WouldBlock)
                if begun.elapsed() < patience && reports::has_only_ended(path, is_part) =>
            {
                sleep(PAUSE);
            }
            Err(TryLockError::WouldBlock) => {
                let why = "another run writes to it; wait for that, or change output.folder";
                return Err(Error::io("write to the output folder", path, why));
            }
        }
    }
}

fn identity(folder: &Metadata) -> (u64, u64) {
    (folder.dev(), folder.ino())
}

/// Returns the bytes of earlier results that a run keeps or replaces. Returns an error if a folder
/// has the name of a result, because no file replaces a folder.
pub fn check_results(job: &Job) -> Result<u64> {
    // A folder that is writable and not readable has no known results.
    let Ok(entries) = fs::read_dir(&job.folder) else { return Ok(0) };
    let mut bytes = 0;
    for entry in entries.flatten() {
        let number = entry.file_name().to_str().and_then(names::shot_of);
        if number.is_none_or(|number| !job.numbers.contains(&number)) {
            continue;
        }
        match entry.metadata() {
            // A saved state is kept until its shot is complete. A shot whose state can't be saved
            // fails alone.
            _ if entry.path().extension().is_some_and(|end| end == "paused") => {}
            Ok(found) if found.is_dir() => {
                let why = "it is a folder, and the run would write a file of this name; move it, or change output.folder";
                return Err(Error::io("replace", &entry.path(), why));
            }
            found => bytes += found.map_or(0, |found| found.len()),
        }
    }
    Ok(bytes)
}

/// Returns an error if the run would overwrite the survey file or a file of the model, or if its
/// trace would overwrite one of its results.
pub fn check_inputs(job: &Job, trace: Option<&Path>) -> Result<()> {
    let folder = resolved(&job.folder);
    let is_output = |file: &Path| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        file.parent() == folder.as_deref() && names::is_output(&name)
    };
    let inputs: Vec<PathBuf> = job.inputs.iter().filter_map(|input| fs::canonicalize(input).ok()).collect();
    if let Some(input) = inputs.iter().find(|input| is_output(input)) {
        let why = "the run reads this file and would write a result of the same name; change output.folder";
        return Err(Error::io("overwrite", input, why));
    }
    // The last component is not resolved: a trace replaces no link.
    let absolute = |trace| {
        let trace = path::absolute(trace).ok()?;
        Some(resolved(trace.parent()?)?.join(trace.file_name()?))
    };
    let Some(trace) = trace.and_then(absolute) else { return Ok(()) };
    if is_output(&trace) || inputs.contains(&trace) {
        let why = "the run reads this file or writes a result of this name; choose another file for --trace";
        return Err(Error::io("overwrite", &trace, why));
    }
    Ok(())
}

/// Resolves the links of a path as far as it exists.
fn resolved(path: &Path) -> Option<PathBuf> {
    let path = path::absolute(path).ok()?;
    path.ancestors().find_map(|part| Some(fs::canonicalize(part).ok()?.join(path.strip_prefix(part).ok()?)))
}

/// Writes bytes that do not compress: zeros take no room on some file systems.
pub fn fill(output: &mut dyn Write, bytes: usize) -> io::Result<()> {
    let mut block = [0; BLOCK];
    // A xorshift generator.
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    for begin in (0..bytes).step_by(BLOCK) {
        for word in block.as_chunks_mut().0 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *word = state.to_le_bytes();
        }
        output.write_all(&block[..BLOCK.min(bytes - begin)])?;
    }
    Ok(())
}

/// Returns true for an error of a file that may pass by itself.
pub fn may_pass(error: &Error) -> bool {
    error.is_os_error(PASSING)
}

/// Removes a file, if it exists.
pub fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io("replace", path, error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As where a file server does not answer.
    #[test]
    fn folder_that_cannot_be_examined_fails_with_the_cause() {
        let folder = testkit::Folder::new();
        let path = folder.at("out");
        let output = OutputFolder::claim(&path, false).unwrap();
        fs::remove_dir(&path).unwrap();
        let why = || output.check().unwrap_err().to_string();
        assert!(why().contains("moved, removed or replaced"), "{}", why());
        std::os::unix::fs::symlink(&path, &path).unwrap();
        assert!(why().contains("Too many levels of symbolic links"), "{}", why());
    }
}
