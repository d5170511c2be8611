//! Owners of files.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Returns true if only another user may replace a file of this folder. In a folder with the sticky
/// bit, such as `/tmp`, that takes the owner of the file or of the folder, or root.
pub fn is_for_another_user(file: &Metadata, folder: &Path) -> bool {
    // SAFETY: the call takes no argument and can't fail.
    let user = unsafe { libc::geteuid() };
    if user == 0 || file.uid() == user {
        return false;
    }
    fs::metadata(folder).is_ok_and(|folder| folder.mode() & libc::S_ISVTX != 0 && folder.uid() != user)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown};

    use testkit::{Folder, skip};

    use super::*;
    use crate::io::atomic::Output;

    /// In a folder such as /tmp only the owner of a file, or of the folder, may replace it. Hours of
    /// computation may lie between the creation of an output and its commit.
    #[test]
    fn file_that_another_user_owns_is_refused_before_it_is_written() {
        const US: u32 = 65534;
        const OTHER: u32 = 65533;
        let folder = Folder::new();
        // SAFETY: takes nothing.
        if unsafe { libc::geteuid() } != 0 {
            return skip("only root can give a file to another user");
        }
        for (mode, [folder_owner, file_owner], is_ours) in [
            (0o1777, [0, OTHER], false),
            (0o1777, [0, US], true),
            (0o1777, [US, OTHER], true),
            (0o777, [0, OTHER], true),
        ] {
            let path = folder.at("record.bin");
            fs::write(&path, "old").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
            chown(&path, Some(file_owner), None).unwrap();
            chown(folder.path(), Some(folder_owner), None).unwrap();
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
            let write = || {
                // SAFETY: the bare system call changes the user of this thread alone.
                let done = unsafe { libc::syscall(libc::SYS_setresuid, US, US, US) };
                assert_eq!(done, 0);
                (Output::create(&path).and_then(Output::commit), Output::create(&folder.at("new")).map(drop))
            };
            let (replaced, new) = std::thread::scope(|scope| scope.spawn(write).join().unwrap());
            new.unwrap();
            if is_ours {
                replaced.unwrap();
            } else {
                let refused = replaced.unwrap_err().to_string();
                assert!(
                    refused.starts_with("create ") && refused.contains("another user owns it"),
                    "{refused}"
                );
                // Root may replace any file.
                Output::create(&path).and_then(Output::commit).unwrap();
            }
            assert_eq!(folder.names(), ["record.bin"]);
        }
    }
}
