//! Temporary folders.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

pub struct Folder {
    path: PathBuf,
}

impl Folder {
    #[allow(clippy::new_without_default)] // it touches the disk
    pub fn new() -> Folder {
        Folder::below(&std::env::temp_dir())
    }

    /// Creates a folder below `parent`, for tests that need a certain file system.
    pub fn below(parent: &Path) -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("gpusched-test-{}-{number}", std::process::id()));
        // An earlier process of this number may have been killed.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a temporary folder");
        Folder { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn at(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    pub fn make(&self, name: impl AsRef<Path>) -> PathBuf {
        let path = self.at(name);
        fs::create_dir(&path).expect("a folder in a temporary folder");
        path
    }

    pub fn names(&self) -> Vec<String> {
        names_below(&self.path)
    }
}

/// Returns the relative paths of all files and folders below a folder, hidden ones included,
/// sorted.
pub fn names_below(folder: &Path) -> Vec<String> {
    fn walk(folder: &Path, before: &str, names: &mut Vec<String>) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let entry = entry.expect("an entry");
            let name = format!("{before}{}", entry.file_name().to_str().expect("UTF-8"));
            if entry.file_type().expect("its type").is_dir() {
                walk(&entry.path(), &format!("{name}/"), names);
            }
            names.push(name);
        }
    }
    let mut names = Vec::new();
    walk(folder, "", &mut names);
    names.sort();
    names
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
