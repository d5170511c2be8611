//! Files on their way that their process never finished, because it was killed.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

use super::atomic::writer_of;
use crate::descriptor;

/// Removes from a folder the files that [`super::atomic`] began in processes that are no more, and tells how
/// many. What is no plain file stays, and what has another name; and a file that somebody holds locked, as
/// each that is being written is, or whose name has the number of a living process other than this one.
/// On file systems without locks nothing is removed. Call it while this process writes nothing there.
pub fn remove(folder: &Path) -> io::Result<usize> {
    let mut removed = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Some(writer) = entry.file_name().to_str().and_then(writer_of) else { continue };
        if !entry.file_type()?.is_file() || lives(writer) || is_written(&entry.path()) {
            continue;
        }
        match fs::remove_file(entry.path()) {
            Ok(()) => removed += 1,
            Err(error) => log::warn!("could not remove {}: {error}", entry.path().display()),
        }
    }
    Ok(removed)
}

/// Another process of this machine. Its files may wait for their name, closed and not locked any more.
fn lives(process: u32) -> bool {
    process != std::process::id() && Path::new("/proc").join(process.to_string()).exists()
}

/// Where nobody can tell, it is.
fn is_written(path: &Path) -> bool {
    !open(path).is_ok_and(|file| file.try_lock().is_ok())
}

/// To lock it, which on some file systems needs the right to write; nothing is written.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NOFOLLOW | libc::O_NONBLOCK);
    descriptor::open(&options, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::atomic::Output;

    #[test]
    #[cfg(target_os = "linux")]
    fn what_nobody_writes_goes_and_all_else_stays() {
        let folder = std::env::temp_dir().join(format!("gpusched-leftovers-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let at = |name: &str| folder.join(name);
        // No process has such a number.
        let (orphan, locked) = (at(".gpusched-4294967294-0.part"), at(".gpusched-4294967294-1.part"));
        let same_number = at(&format!(".gpusched-{}-4711.part", std::process::id()));
        let living = at(".gpusched-1-0.part");
        let named = ["shot_0001.bin", ".gpusched-1-.part", ".gpusched--1.part", ".gpusched-1-1.par"];
        let more = [".gpusched-x-1.part", "gpusched-4294967294-0.part", ".gpusched-4294967294-0-0.part"];
        let more_yet = [".gpusched-+4294967294-0.part", ".gpusched-4294967294-0.part "];
        let foreign: Vec<_> = named.iter().chain(&more).chain(&more_yet).map(|name| at(name)).collect();
        let plain = [&orphan, &locked, &same_number, &living];
        plain.into_iter().chain(&foreign).for_each(|path| fs::write(path, "x").unwrap());
        let held = File::open(&locked).unwrap();
        held.lock().unwrap();
        let (link, inner) = (at(".gpusched-4294967294-2.part"), at(".gpusched-4294967294-3.part"));
        std::os::unix::fs::symlink("shot_0001.bin", &link).unwrap();
        fs::create_dir(&inner).unwrap();
        let output = Output::create(&at("shot_0002.bin")).unwrap();

        assert_eq!(remove(&folder).unwrap(), 2);
        assert!(!orphan.exists() && !same_number.exists());
        assert!(locked.exists() && living.exists() && inner.exists() && link.is_symlink());
        assert!(foreign.iter().all(|path| path.exists()));
        output.commit().unwrap();

        drop(held);
        assert_eq!(remove(&folder).unwrap(), 1);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        assert!(remove(Path::new("/no/such/folder")).is_err());
    }
}
