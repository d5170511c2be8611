//! `gpusched init`: writes a survey file to start from.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::Path;

use gpusched::{Error, Result, descriptor};

use crate::say::say;

const SURVEY: &str = include_str!("../../../examples/quickstart/survey.toml");

/// Writes the example with all keys. An existing file is not overwritten.
pub fn write(path: &Path) -> Result<bool> {
    let written = descriptor::create_new(path).and_then(|mut file| {
        // A failed write removes the file, so it is complete or absent.
        file.write_all(SURVEY.as_bytes()).inspect_err(|_| drop(fs::remove_file(path)))
    });
    written.map_err(|why| match why.kind() {
        ErrorKind::AlreadyExists => Error::io("create", path, "the file exists; choose another name"),
        ErrorKind::NotFound => Error::io("create", path, "its folder does not exist; create it first"),
        _ => Error::io("create", path, why),
    })?;
    // A name with a leading dash would be parsed as an option.
    let folder = if path.as_os_str().as_encoded_bytes().starts_with(b"-") { "./" } else { "" };
    say!("{} written; edit it, then: gpusched run {folder}{0}", path.display());
    Ok(true)
}
