//! `include/gpusched.h` is what the sources say.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// In the order in which a reader meets them.
const FILES: [&str; 8] =
    ["status", "logging", "scheduler", "device", "task_run", "task", "fd_model", "fd_shot"];

fn generate() -> String {
    let config = cbindgen::Config::from_file(root().join("cbindgen.toml")).expect("cbindgen.toml");
    let mut builder = cbindgen::Builder::new().with_config(config);
    for file in FILES.iter().chain(&["legacy"]) {
        builder = builder.with_src(root().join("src/ffi").join(file).with_extension("rs"));
    }
    let mut text = Vec::new();
    builder.generate().expect("the sources in src/ffi").write(&mut text);
    String::from_utf8(text).expect("UTF-8")
}

#[test]
fn committed_header_is_fresh() {
    let path = root().join("include/gpusched.h");
    let fresh = generate();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &fresh).expect("include/gpusched.h");
    }
    let committed = std::fs::read_to_string(&path).expect("include/gpusched.h");
    assert!(
        committed == fresh,
        "include/gpusched.h is stale; repair it with: UPDATE=1 cargo test --test header"
    );
}
