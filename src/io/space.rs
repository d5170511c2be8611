//! Free space of file systems.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Returns the free bytes that this user may write in the file system of `path`. `None`: the file
/// system states no size.
pub fn free_bytes(path: &Path) -> io::Result<Option<u64>> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: a struct of numbers, all of which may be 0.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: `path` ends with a zero byte, and `found` is a valid struct.
    if unsafe { libc::statvfs(path.as_ptr(), &mut found) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let is_stated = found.f_blocks > 0;
    Ok(is_stated.then(|| (found.f_bavail as u64).saturating_mul(found.f_frsize as u64)))
}
