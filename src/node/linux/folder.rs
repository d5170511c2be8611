//! Which folder the leases are in, and whether it will do.

use std::ffi::CStr;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::sys::{self, Descriptor};
use crate::descriptor;
use crate::error::{Error, Result};

/// The version is in the name: libraries that write it otherwise take another file.
pub(super) const NAME: &CStr = c"leases-1";
pub(super) const VARIABLE: &str = "GPUSCHED_LEASE_DIR";

/// File systems that other machines write to as well, whose locks, if any, they may not see. One more that
/// is not listed shows by what another machine has written into the file.
const SHARED: [(u32, &str); 14] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0x00c3_6400, "Ceph"),
    (0x0102_1997, "9p"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x0116_1970, "GFS2"),
    (0xaad7_aaea, "PanFS"),
];

/// The folders to be tried, of which the first that will do is taken; `None`: there are to be no leases.
pub(super) fn candidates(named: Option<&Path>) -> Result<Option<Vec<PathBuf>>> {
    let told = std::env::var_os(VARIABLE).filter(|told| !told.is_empty());
    let candidates = match (named, told) {
        (Some(named), _) => vec![named.to_owned()],
        (None, Some(told)) if told == "none" => return Ok(None),
        (None, Some(told)) => vec![PathBuf::from(told)],
        (None, None) => usual(),
    };
    let whole = |path: PathBuf| std::path::absolute(&path).map_err(|error| no(&path, error));
    candidates.into_iter().map(whole).collect::<Result<_>>().map(Some)
}

fn usual() -> Vec<PathBuf> {
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let temporary = std::env::temp_dir().join(format!("gpusched-{}", sys::user()));
    session.map(|path| path.join("gpusched")).into_iter().chain([temporary]).collect()
}

/// The first of the folders that will do, and the open file in it.
pub(super) fn first(candidates: &[PathBuf]) -> Result<(PathBuf, Descriptor)> {
    let mut last = Error::Internal("no folder for leases was thought of".into());
    for candidate in candidates {
        match enter(candidate) {
            Ok(file) => return Ok((candidate.clone(), file)),
            Err(error) => {
                log::info!("leases: {error}");
                last = error;
            }
        }
    }
    Err(last)
}

/// Makes the folder if it is not there, and the file in it.
fn enter(path: &Path) -> Result<Descriptor> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(no(path, "the folder above it is not there, and only the last one is made"));
        }
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(no(path, error)),
        _ => {}
    }
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let opened = descriptor::open(OpenOptions::new().read(true).custom_flags(flags), path);
    let opened = opened.map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP | libc::ENOTDIR) => no(path, "it is a link or a file; it has to be a folder"),
        _ => no(path, error),
    })?;
    check(&opened, sys::file_system).map_err(|why| no(path, why))?;
    file(&opened).map_err(|why| no(&path.join("leases-1"), why))
}

/// Says why a folder will not do. `file_system` returns the type of the file system that a folder is on.
fn check(folder: &File, file_system: impl Fn(&File) -> io::Result<u32>) -> std::result::Result<(), String> {
    let found = folder.metadata().map_err(|error| error.to_string())?;
    if found.uid() != sys::user() {
        return Err(format!("user {} owns it, not user {}, who runs this", found.uid(), sys::user()));
    }
    if found.mode() & 0o022 != 0 {
        return Err(format!(
            "others may write to it (its mode is {:04o}); accepted: 0700 to 0755",
            found.mode() & 0o7777
        ));
    }
    let system = file_system(folder).map_err(|error| error.to_string())?;
    if let Some((_, name)) = SHARED.iter().find(|(number, _)| *number == system) {
        return Err(format!(
            "it is on a network file system ({name}), which other machines see, too; \
             name a folder of this machine by {VARIABLE}"
        ));
    }
    Ok(())
}

fn file(folder: &File) -> std::result::Result<Descriptor, String> {
    // What another has removed between the two steps is made again.
    for _ in 0..8 {
        let file = Descriptor::open_at(folder, NAME).map_err(|error| match error.raw_os_error() {
            Some(libc::ELOOP) => "it is a link; delete it".into(),
            Some(libc::EISDIR) => "it is a folder; delete it".into(),
            Some(libc::ENXIO) => "it is a device or a socket; delete it".into(),
            _ => error.to_string(),
        })?;
        let found = file.status().map_err(|error| error.to_string())?;
        if !found.is_file {
            return Err("it is no plain file; delete it".into());
        }
        if found.owner != sys::user() {
            return Err(format!("user {} owns it, not user {}, who runs this", found.owner, sys::user()));
        }
        if found.links > 1 {
            return Err(format!("it has {} names; delete it", found.links));
        }
        if found.mode & 0o777 != 0o600 {
            file.set_mode(0o600).map_err(|error| error.to_string())?;
        }
        if found.links == 1 {
            return Ok(file);
        }
    }
    Err("somebody removes it again and again".into())
}

fn no(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::io("keep leases in", path, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_on_a_network_file_system_is_refused_with_its_name() {
        let folder = testkit::Folder::new();
        let path = folder.at("leases");
        DirBuilder::new().mode(0o700).create(&path).unwrap();
        let folder = File::open(&path).unwrap();
        for (number, name) in SHARED {
            let refused = check(&folder, |_| Ok(number)).unwrap_err();
            assert!(refused.starts_with(&format!("it is on a network file system ({name})")), "{refused}");
            assert!(refused.contains("GPUSCHED_LEASE_DIR"), "{refused}");
        }
        // ext4, XFS, Btrfs, tmpfs, overlay.
        for number in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630] {
            assert_eq!(check(&folder, |_| Ok(number)), Ok(()));
        }
        let unknown = check(&folder, |_| Err(io::Error::from_raw_os_error(libc::EIO)));
        assert!(unknown.unwrap_err().contains("Input/output error"));
    }
}
