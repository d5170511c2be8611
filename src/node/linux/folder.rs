//! Choice and checks of the folder of the table.

use std::ffi::CStr;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::sys::{self, Descriptor};
use crate::descriptor;
use crate::error::{Error, Result};

/// Name of the table file. It contains the version of the layout, so libraries with another layout
/// use another file.
pub(super) const FILE_NAME: &CStr = c"leases-2";
pub(super) const VARIABLE: &str = "GPUSCHED_LEASE_DIR";

/// File systems shared between machines, whose locks may not reach other machines. On one that is
/// not listed, a foreign boot id in the table reveals the other machine.
const NETWORK_FILE_SYSTEMS: [(u32, &str); 14] = [
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

/// Returns the folders to try, in order. `None`: leases are switched off.
pub(super) fn candidates(named: Option<&Path>) -> Result<Option<Vec<PathBuf>>> {
    let variable = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
    let candidates = match (named, variable) {
        (Some(named), _) => vec![named.to_owned()],
        (None, Some(value)) if value == "none" => return Ok(None),
        (None, Some(value)) => vec![PathBuf::from(value)],
        (None, None) => default_folders(),
    };
    let absolute = |path: PathBuf| std::path::absolute(&path).map_err(|error| folder_error(&path, error));
    candidates.into_iter().map(absolute).collect::<Result<_>>().map(Some)
}

fn default_folders() -> Vec<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let own = format!("gpusched-{}", sys::effective_user());
    let session = variable("XDG_RUNTIME_DIR").map(|path| path.join("gpusched"));
    let temporary = variable("TMPDIR").map(|path| path.join(&own));
    let mut folders: Vec<_> = [session, temporary].into_iter().flatten().collect();
    let common = Path::new("/tmp").join(own);
    if !folders.contains(&common) {
        folders.push(common);
    }
    folders
}

/// Returns the first folder that passes the checks and has room for the table, and the result of
/// `join`. Any other error of `join` is returned, and the want of descriptors: members that use the
/// folder would not see the leases of one that is elsewhere.
pub(super) fn first_usable<T>(
    candidates: &[PathBuf],
    mut join: impl FnMut(&Path, Descriptor) -> Result<T>,
) -> Result<(PathBuf, T)> {
    let mut last = Error::Internal("the list of lease folders is empty".into());
    for candidate in candidates {
        let file = match open_table(candidate) {
            Ok(file) => file,
            Err(error) if error.is_out_of_descriptors() => return Err(error),
            Err(error) => {
                log::info!("leases: {error}");
                last = error;
                continue;
            }
        };
        match join(candidate, file) {
            Ok(joined) => return Ok((candidate.clone(), joined)),
            Err(error) if !error.is_os_error(&[libc::ENOSPC, libc::EDQUOT]) => return Err(error),
            Err(error) => {
                log::warn!("leases: {error}");
                last = error;
            }
        }
    }
    Err(last)
}

/// Creates the folder and the table file if they are missing, checks both and opens the file.
fn open_table(path: &Path) -> Result<Descriptor> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(folder_error(path, "its parent folder does not exist; create it"));
        }
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(folder_error(path, error)),
        _ => {}
    }
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let opened = descriptor::open(OpenOptions::new().read(true).custom_flags(flags), path);
    let opened = opened.map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP | libc::ENOTDIR) => folder_error(path, "it is a link or a file; accepted: a folder"),
        _ => folder_error(path, error),
    })?;
    check_folder(&opened, sys::file_system_type).map_err(|why| folder_error(path, why))?;
    open_file(&opened).map_err(|why| folder_error(&path.join("leases-2"), why))
}

/// Returns why the folder is refused. `file_system` returns the type of its file system.
fn check_folder(
    folder: &File,
    file_system: impl Fn(&File) -> io::Result<u32>,
) -> std::result::Result<(), String> {
    let found = folder.metadata().map_err(|error| error.to_string())?;
    check_owner(&found)?;
    if found.mode() & 0o022 != 0 {
        return Err(format!(
            "others may write to it (its mode is {:04o}); accepted: 0700 to 0755",
            found.mode() & 0o7777
        ));
    }
    let system = file_system(folder).map_err(|error| error.to_string())?;
    if let Some((_, name)) = NETWORK_FILE_SYSTEMS.iter().find(|(number, _)| *number == system) {
        return Err(format!(
            "it is on a network file system ({name}), which other machines share; \
             set {VARIABLE} to a folder of this machine"
        ));
    }
    Ok(())
}

fn check_owner(found: &Metadata) -> std::result::Result<(), String> {
    let (owner, user) = (found.uid(), sys::effective_user());
    match owner == user {
        true => Ok(()),
        false => Err(format!("it belongs to user {owner}, and this process runs as user {user}")),
    }
}

/// Opens the table file. If another process deletes it meanwhile, the member joins the next file at
/// its first lock.
fn open_file(folder: &File) -> std::result::Result<Descriptor, String> {
    let file = Descriptor::open_at(folder, FILE_NAME).map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => "it is a link; delete it".into(),
        Some(libc::EISDIR) => "it is a folder; delete it".into(),
        Some(libc::ENXIO) => "it is a device or a socket; delete it".into(),
        _ => error.to_string(),
    })?;
    let found = file.metadata().map_err(|error| error.to_string())?;
    if !found.is_file() {
        return Err("it is no plain file; delete it".into());
    }
    check_owner(&found)?;
    if found.nlink() > 1 {
        return Err(format!("it has {} names; delete it", found.nlink()));
    }
    if found.mode() & 0o777 != 0o600 {
        file.set_mode(0o600).map_err(|error| error.to_string())?;
    }
    Ok(file)
}

fn folder_error(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::io("keep leases in", path, why)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn folder_on_a_network_file_system_is_refused_with_its_name() {
        let folder = testkit::Folder::new();
        let path = folder.at("leases");
        DirBuilder::new().mode(0o700).create(&path).unwrap();
        let folder = File::open(&path).unwrap();
        for (number, name) in NETWORK_FILE_SYSTEMS {
            let refused = check_folder(&folder, |_| Ok(number)).unwrap_err();
            assert!(refused.starts_with(&format!("it is on a network file system ({name})")), "{refused}");
            assert!(refused.contains("GPUSCHED_LEASE_DIR"), "{refused}");
        }
        // ext4, XFS, Btrfs, tmpfs, overlay.
        for number in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630] {
            assert_eq!(check_folder(&folder, |_| Ok(number)), Ok(()));
        }
        let unknown = check_folder(&folder, |_| Err(io::Error::from_raw_os_error(libc::EIO)));
        assert!(unknown.unwrap_err().contains("Input/output error"));
    }
    #[test]
    fn next_folder_is_used_where_joining_the_first_fails() {
        let folder = testkit::Folder::new();
        let candidates = [folder.at("full"), folder.at("free")];
        for full in [libc::ENOSPC, libc::EDQUOT] {
            let (used, ()) = first_usable(&candidates, |path, _| match path.ends_with("full") {
                true => Err(folder_error(path, io::Error::from_raw_os_error(full))),
                false => Ok(()),
            })
            .unwrap();
            assert_eq!(used, candidates[1]);
        }
        fs::remove_dir_all(&candidates[0]).unwrap();
        fs::write(&candidates[0], "").unwrap();
        let refused = first_usable(&candidates[..1], |_, _| Ok(())).unwrap_err().to_string();
        assert!(refused.contains("it is a link or a file"), "{refused}");
    }
}
