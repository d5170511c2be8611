//! The shared library, and C programs that use it.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Command;

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder that holds the library, built along with this test: target/debug or target/release.
pub fn built() -> PathBuf {
    let test = std::env::current_exe().expect("this test's own path");
    test.ancestors().nth(2).expect("target/PROFILE/deps/TEST").to_owned()
}

pub fn library() -> PathBuf {
    let path = built().join("libgpusched.so");
    assert!(path.exists(), "{} is not there: cargo build", path.display());
    path
}

/// Whether a program can be started at all.
pub fn there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|out| out.status.success())
}

/// A folder of this test alone.
pub fn scratch(name: &str) -> PathBuf {
    let folder = built().join("ctests").join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder in target");
    folder
}

pub fn compiler() -> String {
    std::env::var("CC").unwrap_or_else(|_| "gcc".into())
}

/// Compiles `ctests/NAME.c` against the header and the library.
pub fn program(name: &str) -> PathBuf {
    let out = scratch(name).join(name);
    let folder = built();
    let status = Command::new(compiler())
        .args(["-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-pedantic", "-Werror", "-pthread", "-o"])
        .arg(&out)
        .arg(root().join("ctests").join(name).with_extension("c"))
        .arg("-I")
        .arg(root().join("include"))
        .arg("-L")
        .arg(&folder)
        .arg(format!("-Wl,-rpath,{}", folder.display()))
        .args(["-lgpusched", "-lm"])
        .status();
    assert!(status.expect("a C compiler").success(), "ctests/{name}.c does not compile");
    out
}

/// Runs a program, under valgrind where that is installed; returns what it printed.
pub fn run(program: &Path) -> String {
    let mut command = if there("valgrind") {
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["-q", "--error-exitcode=99", "--leak-check=full", "--errors-for-leak-kinds=definite"]);
        valgrind.arg("--fair-sched=try").arg(program);
        valgrind
    } else {
        eprintln!("valgrind is not installed: {} runs without", program.display());
        Command::new(program)
    };
    // The tests' own environment must not decide which devices there are.
    for name in ["GPUSCHED_DEVICES", "GPUSCHED_SLOTS", "GPUSCHED_LOG"] {
        command.env_remove(name);
    }
    let out = command.output().expect("the program");
    let (said, errors) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{}: {}\n{said}\n{errors}", program.display(), out.status);
    said.into_owned()
}
