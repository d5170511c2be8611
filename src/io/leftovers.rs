//! Removes temporary files that a killed process has left.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::atomic::writer_of;
use crate::descriptor;

/// Removes the temporary files of [`super::atomic`] in a folder whose process has ended. Returns
/// the number of removed files. The calling process must not write files there meanwhile.
///
/// A file stays if the process id in its name is that of another living process of this machine. It
/// also stays if that process holds one of its files locked: on a network file system the process
/// may be on another machine. Files that are not plain, or have other names, stay. On file systems
/// without locks nothing is removed.
pub fn remove(folder: &Path) -> io::Result<usize> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let writer = entry.file_name().to_str().and_then(writer_of);
        if let Some(writer) = writer.filter(|&writer| !lives(writer))
            && entry.file_type()?.is_file()
        {
            found.push((writer, entry.path()));
        }
    }
    let is_written = |(writer, path): &(u32, PathBuf)| is_written(path).then_some(*writer);
    let writing: BTreeSet<u32> = found.iter().filter_map(is_written).collect();
    let mut removed = 0;
    for (_, path) in found.iter().filter(|(writer, _)| !writing.contains(writer)) {
        match fs::remove_file(path) {
            Ok(()) => removed += 1,
            Err(error) => log::warn!("could not remove {}: {error}", path.display()),
        }
    }
    Ok(removed)
}

/// Returns true if the process is a living one of this machine, and not the calling one. Its sealed
/// files are closed and not locked, so the lock alone does not show them.
fn lives(process: u32) -> bool {
    process != std::process::id() && Path::new("/proc").join(process.to_string()).exists()
}

/// Returns true if another process may hold the file locked. A file that can't be opened counts as
/// locked.
fn is_written(path: &Path) -> bool {
    !open(path).is_ok_and(|file| file.try_lock().is_ok())
}

/// Opens a file to lock it. Some file systems require write access for that; nothing is written.
fn open(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    descriptor::open(OpenOptions::new().write(true).custom_flags(flags), path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::atomic::Output;

    #[test]
    fn only_files_of_ended_processes_are_removed() {
        let folder = testkit::Folder::new();
        let at = |name: &str| folder.at(name);
        // No process has such an id.
        let (orphan, locked) = (at(".gpusched-4294967293-0.part"), at(".gpusched-4294967294-1.part"));
        let beside = at(".gpusched-4294967294-5.part");
        let same_number = at(&format!(".gpusched-{}-4711.part", std::process::id()));
        let living = at(".gpusched-1-0.part");
        let named = ["shot_0001.bin", ".gpusched-1-.part", ".gpusched--1.part", ".gpusched-1-1.par"];
        let more = [".gpusched-x-1.part", "gpusched-4294967294-0.part", ".gpusched-4294967294-0-0.part"];
        let more_yet = [".gpusched-+4294967294-0.part", ".gpusched-4294967294-0.part "];
        let foreign: Vec<_> = named.iter().chain(&more).chain(&more_yet).map(|name| at(name)).collect();
        let plain = [&orphan, &locked, &beside, &same_number, &living];
        plain.into_iter().chain(&foreign).for_each(|path| fs::write(path, "x").unwrap());
        let held = File::open(&locked).unwrap();
        held.lock().unwrap();
        let (link, inner) = (at(".gpusched-4294967294-2.part"), at(".gpusched-4294967294-3.part"));
        std::os::unix::fs::symlink("shot_0001.bin", &link).unwrap();
        fs::create_dir(&inner).unwrap();
        let output = Output::create(&at("shot_0002.bin")).unwrap();

        assert_eq!(remove(folder.path()).unwrap(), 1);
        assert!(!orphan.exists() && same_number.exists());
        assert!(locked.exists() && beside.exists() && living.exists() && inner.exists() && link.is_symlink());
        assert!(foreign.iter().all(|path| path.exists()));
        output.commit().unwrap();

        // A child that another test forks may keep the file open.
        held.unlock().unwrap();
        assert_eq!(remove(folder.path()).unwrap(), 3);
    }

    #[test]
    fn missing_folder_is_an_error() {
        assert!(remove(Path::new("/no/such/folder")).is_err());
    }
}
