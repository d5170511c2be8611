//! The recorded results of the old kernel; `tests/golden/README.md` says how they lie in their files.

use std::path::{Path, PathBuf};

use serde_json::Value;

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

pub fn floats(path: &Path) -> Vec<f32> {
    let bytes = std::fs::read(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    assert_eq!(bytes.len() % 4, 0, "{} is no array of float32", path.display());
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

pub fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

pub fn float(value: &Value) -> f32 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number")) as f32
}

pub fn count(value: &Value) -> usize {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no count")) as usize
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}
