//! Shared tools of the tests. The crate `testmodels` holds the part that needs the propagator.

pub mod c;
pub mod command;
pub mod folder;
pub mod fuzz;
pub mod process;
pub mod random;
pub mod skip;
pub mod virtual_gpus;
pub mod worlds;

use std::path::{Path, PathBuf};

pub use folder::{Folder, names_below};
pub use random::Random;
pub use skip::skip;

pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Checks that a committed file is `fresh`, or makes it so with `UPDATE=1`. `test` is a test in
/// `tests/it`.
pub fn assert_committed(file: &str, fresh: &str, test: &str) {
    let path = root().join(file);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, fresh).expect(file);
    }
    let is_fresh = std::fs::read_to_string(&path).is_ok_and(|there| there == fresh);
    assert!(is_fresh, "{file} is stale; repair it with: UPDATE=1 cargo test --test it {test}");
}

/// Returns the folder `target/PROFILE/deps`. (The folder above holds the libraries of the last
/// `cargo build`.)
pub fn built() -> PathBuf {
    let test = std::env::current_exe().expect("this test's own path");
    let folder = test.parent().expect("a folder");
    // An example or the command itself lies one folder higher.
    let deps = folder.join("deps");
    if deps.exists() { deps } else { folder.to_owned() }
}

pub fn library() -> PathBuf {
    let path = built().join("libgpusched.so");
    assert!(path.exists(), "{} does not exist: cargo build", path.display());
    path
}

/// Returns an NPY file of this shape, in Python's notation.
pub fn npy(shape: &str, values: impl Iterator<Item = f32>) -> Vec<u8> {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n");
    let length = (header.len() as u16).to_le_bytes();
    let bytes = values.flat_map(f32::to_le_bytes);
    b"\x93NUMPY\x01\x00".iter().copied().chain(length).chain(header.bytes()).chain(bytes).collect()
}
