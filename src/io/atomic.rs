//! Output files that are either complete or absent.
//!
//! An [`Output`] is written under a temporary name in the folder of its target. So a killed
//! process, a full disk or an error never leaves a partial file under the name of the target.
//! [`Output::commit`] forces the content to disk and renames the file in one step. Dropping an
//! uncommitted `Output` removes the file.

use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::owner::is_for_another_user;
use crate::descriptor;
use crate::error::{Error, Result};
use crate::write_signals::without_signals;

/// An output file under its temporary name. It supports `Write` and `Seek`; a gap left by a seek
/// reads as zeros and takes no room on disk.
#[derive(Debug)]
pub struct Output {
    file: File,
    name: Sealed,
}

/// A file that is complete and on disk, still under its temporary name. It is closed, or open to
/// hold its lock.
#[derive(Debug)]
pub struct Sealed {
    target: PathBuf,
    lock: Option<File>,
    /// Temporary path; empty after the rename.
    temporary: PathBuf,
}

impl Output {
    /// Creates the temporary file for `target`. An existing target stays until the commit replaces
    /// it.
    ///
    /// Returns an error if the folder is missing or not writable. A target that exists and is not a
    /// plain file (a folder, a link, a device), or that only another user may replace, is an error,
    /// too.
    pub fn create(target: &Path) -> Result<Output> {
        check_target(target)?;
        let folder = folder_of(target);
        loop {
            let temporary = folder.join(temporary_name());
            match descriptor::create_new(&temporary) {
                Ok(file) => {
                    // The lock shows other processes that the file is being written; it ends with
                    // this process. On file systems without locks the file of a killed process is
                    // never removed.
                    let _ = file.try_lock();
                    let name = Sealed { target: target.to_owned(), lock: None, temporary };
                    return Ok(Output { file, name });
                }
                // A killed process with the same process id has left this file.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed("create", target, &error)),
            }
        }
    }

    /// Returns the path that the file gets.
    pub fn target(&self) -> &Path {
        &self.name.target
    }

    /// Forces the content to disk and closes the file; [`Sealed::commit`] names it.
    pub fn seal(self) -> Result<Sealed> {
        let mut sealed = self.seal_locked()?;
        sealed.lock = None;
        Ok(sealed)
    }

    /// As [`seal`](Output::seal), but keeps the lock until the commit. The lock protects all
    /// temporary files of this process from a run on another node, which cannot know whether the
    /// process lives.
    pub fn seal_locked(mut self) -> Result<Sealed> {
        self.file.sync_all().map_err(|error| Error::io("write", &self.name.target, error))?;
        self.name.lock = Some(self.file);
        Ok(self.name)
    }

    /// Forces the content to disk and renames the file to its target. Keeps the lock meanwhile, as
    /// [`seal_locked`](Output::seal_locked) does.
    pub fn commit(self) -> Result<()> {
        self.seal_locked()?.commit()
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        without_signals(|| self.file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for Output {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl Sealed {
    /// Renames the file to its target and replaces an existing plain file. The last step forces the
    /// folder to disk; if only that fails, the complete file has its name.
    pub fn commit(mut self) -> Result<()> {
        check_target(&self.target)?;
        fs::rename(&self.temporary, &self.target).map_err(|error| failed("write", &self.target, &error))?;
        self.temporary = PathBuf::new();
        force_to_disk(descriptor::open_read(folder_of(&self.target)))
            .map_err(|error| Error::io("write", &self.target, error))
    }
}

impl Drop for Sealed {
    fn drop(&mut self) {
        if self.temporary.as_os_str().is_empty() {
            return;
        }
        if let Err(error) = fs::remove_file(&self.temporary) {
            log::warn!("could not remove {}: {error}", self.temporary.display());
        }
    }
}

/// Writes a file with the output of `content`: a complete file, or none.
pub fn write_with(target: &Path, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let mut out = BufWriter::new(Output::create(target)?);
    let written = content(&mut out).and_then(|()| out.into_inner().map_err(io::IntoInnerError::into_error));
    written.map_err(|error| Error::io("write", target, error))?.commit()
}

/// Writes a file with these bytes: a complete file, or none.
pub fn write(target: &Path, bytes: &[u8]) -> Result<()> {
    let mut output = Output::create(target)?;
    output.write_all(bytes).map_err(|error| Error::io("write", target, error))?;
    output.commit()
}

fn check_target(target: &Path) -> Result<()> {
    // `name/` names a folder, although its last component is like that of a file.
    let ends = target.as_os_str().as_encoded_bytes().last();
    if target.file_name().is_none() || ends.is_some_and(|&byte| std::path::is_separator(byte.into())) {
        return Err(Error::io("create", target, "the path names no file"));
    }
    match fs::symlink_metadata(target) {
        Ok(found) if found.is_file() && is_for_another_user(&found, folder_of(target)) => Err(Error::io(
            "create",
            target,
            "another user owns it, and in this folder only its owner may replace it; choose another name or folder",
        )),
        Ok(found) if found.is_file() => Ok(()),
        Ok(found) => {
            let kind = match found.file_type() {
                kind if kind.is_dir() => "a folder",
                kind if kind.is_symlink() => "a symbolic link",
                _ => "a device or pipe",
            };
            Err(Error::io(
                "create",
                target,
                format_args!("{kind} has this name; only a plain file is replaced"),
            ))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::io("create", target, error)),
    }
}

/// Returns the folder of `target`, in a form that can be opened.
pub(crate) fn folder_of(target: &Path) -> &Path {
    match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Returns the error of a call that creates or renames a file. "Not found" is reported with the
/// missing file or folder.
fn failed(action: &'static str, target: &Path, error: &io::Error) -> Error {
    let missing = match error.kind() {
        io::ErrorKind::NotFound if !folder_of(target).is_dir() => "its folder does not exist",
        io::ErrorKind::NotFound if action == "write" => "its unfinished file was moved or removed",
        _ => return Error::io(action, target, error),
    };
    Error::io(action, target, format_args!("{error}: {missing}"))
}

/// Forces a folder to disk, so that the names in it survive a loss of power. Some systems cannot do
/// that with a folder, or the folder is not readable. Neither is an error, because the files are
/// complete and have their names.
fn force_to_disk(folder: io::Result<File>) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    let opened = match folder {
        Err(error) if error.kind() == PermissionDenied => return Ok(()),
        opened => opened?,
    };
    match opened.sync_all() {
        Err(error) if matches!(error.kind(), InvalidInput | Unsupported) => Ok(()),
        Err(error) if error.raw_os_error() == Some(libc::EBADF) => Ok(()),
        forced => forced,
    }
}

/// Returns a name that no living process of this machine uses: it contains the process id and a
/// count.
fn temporary_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!(".gpusched-{}-{}.part", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Returns the process id in a temporary name; `None` for other names.
pub(super) fn writer_of(name: &str) -> Option<u32> {
    let number =
        |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?;
    let (process, count) = name.strip_prefix(".gpusched-")?.strip_suffix(".part")?.split_once('-')?;
    number(count).and(number(process)).and_then(|process: u64| process.try_into().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_folder_is_no_error_of_its_file() {
        let opened = |kind: io::ErrorKind| force_to_disk(Err(kind.into())).map_err(|error| error.kind());
        assert_eq!(opened(io::ErrorKind::PermissionDenied), Ok(()));
        for kind in [io::ErrorKind::NotFound, io::ErrorKind::Interrupted, io::ErrorKind::Other] {
            assert_eq!(opened(kind), Err(kind));
        }
    }
}
