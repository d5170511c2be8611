//! Raw files of little-endian float32 values without a header.

use std::fs::File;
use std::path::Path;

pub use super::floats::write as write_to;
use super::{atomic, floats};
use crate::error::{Error, Result};

/// Reads a file of exactly `count` values.
pub fn read(path: &Path, count: usize) -> Result<Vec<f32>> {
    let mut file = open(path, count)?;
    let mut data = floats::reserve(path, count)?;
    floats::read(&mut file, &mut data, count, f32::from_le_bytes)
        .map_err(|error| Error::io("read", path, error))?;
    Ok(data)
}

/// Checks that the file can be read and has the size of `count` values. Does not read the values.
pub fn check(path: &Path, count: usize) -> Result<()> {
    open(path, count).map(|_| ())
}

fn open(path: &Path, count: usize) -> Result<File> {
    let (file, found) = floats::open(path)?;
    let expected = count as u128 * 4;
    if u128::from(found) != expected {
        return Err(Error::io(
            "read",
            path,
            format_args!("expected {expected} bytes ({count} values of 4 bytes), found {found} bytes"),
        ));
    }
    Ok(file)
}

/// Writes a file with these values: a complete file, or none.
pub fn write(path: &Path, data: &[f32]) -> Result<()> {
    begin(path, data)?.commit()
}

/// As [`write()`], but returns the complete file under its temporary name.
pub fn begin(path: &Path, data: &[f32]) -> Result<atomic::Output> {
    let mut output = atomic::Output::create(path)?;
    write_to(&mut output, data).map_err(|error| Error::io("write", path, error))?;
    Ok(output)
}
