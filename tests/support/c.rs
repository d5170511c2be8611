//! The shared library, and C programs that use it.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Command;

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder that holds the library as it was built for this test: target/debug/deps, or release.
/// (What lies one folder higher is of the last `cargo build`.)
pub fn built() -> PathBuf {
    let test = std::env::current_exe().expect("this test's own path");
    test.parent().expect("target/PROFILE/deps").to_owned()
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
    let folder = built().with_file_name("ctests").join(format!("{name}-{}", std::process::id()));
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
        // A program that opens the library itself is not linked with it.
        .args(["-Wl,--as-needed", "-lgpusched", "-lm", "-ldl"])
        .status();
    assert!(status.expect("a C compiler").success(), "ctests/{name}.c does not compile");
    out
}

/// Runs a program, under valgrind where that is installed; returns what it printed.
pub fn run(program: &Path) -> String {
    run_with(program, &[])
}

/// The same, with arguments.
pub fn run_with(program: &Path, args: &[&str]) -> String {
    let mut command = if there("valgrind") {
        let mut valgrind = Command::new("valgrind");
        valgrind.args([
            "-q",
            "--error-exitcode=99",
            "--leak-check=full",
            "--show-leak-kinds=definite",
            "--errors-for-leak-kinds=definite",
            // A function with more than 2 MiB of its own is taken for a change of stacks otherwise.
            "--max-stackframe=8388608",
        ]);
        valgrind.arg("--fair-sched=try").arg(program);
        valgrind
    } else {
        eprintln!("valgrind is not installed: {} runs without", program.display());
        Command::new(program)
    };
    command.args(args);
    said(command, program)
}

/// Runs a program as it is.
pub fn run_plain(program: &Path, args: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(args);
    said(command, program)
}

fn said(mut command: Command, program: &Path) -> String {
    // Cargo's own value has the folder of the last `cargo build` in front.
    command.env("LD_LIBRARY_PATH", built());
    // Neither this machine's cards nor the tests' own environment must decide what is printed.
    command.env("GPUSCHED_DEVICES", "cpu").env_remove("GPUSCHED_SLOTS").env_remove("GPUSCHED_LOG");
    let out = fakecuda::harness::output(&mut command).expect("the program");
    let (said, errors) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{}: {}\n{said}\n{errors}", program.display(), out.status);
    said.into_owned()
}
