//! Programs in C that use the shared library.

use std::collections::BTreeSet;
use std::os::fd::IntoRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use crate::process::{isolated, output};
use crate::{built, root};

pub fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|out| out.status.success())
}

/// Returns a folder in `target` that belongs to this process alone; it is not deleted.
pub fn scratch(name: &str) -> PathBuf {
    let folder = built().with_file_name("ctests").join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder in target");
    folder
}

pub fn compiler() -> String {
    std::env::var("CC").unwrap_or_else(|_| "gcc".into())
}

pub fn cpp_compiler() -> String {
    std::env::var("CXX").unwrap_or_else(|_| "g++".into())
}

pub fn program(name: &str) -> PathBuf {
    program_with(name, &[])
}

pub fn program_with(name: &str, options: &[&str]) -> PathBuf {
    compile(&compiler(), &format!("c/{name}.c"), &[&["-std=c11"], options].concat())
}

pub fn cpp_program(name: &str, standard: &str) -> PathBuf {
    compile(&cpp_compiler(), &format!("cpp/{name}.cpp"), &[&format!("-std={standard}")])
}

fn compile(compiler: &str, file: &str, options: &[&str]) -> PathBuf {
    static BUILT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let source = root().join("ctests").join(file);
    let name = source.file_stem().and_then(|name| name.to_str()).expect("UTF-8");
    let out = scratch(&format!("{name}{}", options.concat())).join(name);
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if built.contains(&out) {
        return out;
    }
    let folder = crate::built();
    if let Some(soname) = option_env!("GPUSCHED_SONAME") {
        // Another process may have made the link.
        let _ = std::os::unix::fs::symlink("libgpusched.so", folder.join(soname));
    }
    let folder = folder.display().to_string();
    let status = Command::new(compiler)
        .args(["-g", "-O1", "-Wall", "-Wextra", "-pedantic", "-Werror", "-pthread", "-o"])
        .arg(&out)
        .arg(&source)
        .args(["include", "ctests/c"].map(|folder| format!("-I{}", root().join(folder).display())))
        .arg(format!("-L{folder}"))
        .arg(format!("-Wl,-rpath,{folder}"))
        // A program that opens the library itself is not linked with it.
        .args(["-Wl,--as-needed", "-lgpusched", "-lm", "-ldl"])
        .args(options)
        .status();
    assert!(status.expect("a compiler").success(), "ctests/{file} does not compile");
    built.insert(out.clone());
    out
}

/// Compiles `ctests/doubles/faults/NAME.c`; returns a value of LD_PRELOAD that is valid while this
/// process runs.
pub fn preload(name: &str, folder: &Path) -> PathBuf {
    let library = folder.join(name).with_extension("so");
    let status = Command::new(compiler())
        .args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(root().join("ctests/doubles/faults").join(name).with_extension("c"))
        .arg("-ldl")
        .status();
    assert!(status.expect("a C compiler").success(), "ctests/doubles/faults/{name}.c does not compile");
    // LD_PRELOAD ends a path at a space. The folder's path may contain one, a descriptor's path
    // does not.
    let file = std::fs::File::open(library).expect("the library");
    format!("/proc/{}/fd/{}", std::process::id(), file.into_raw_fd()).into()
}

pub fn run(program: &Path) -> String {
    run_with(program, &[])
}

pub fn run_with(program: &Path, args: &[&str]) -> String {
    let mut command = if has("valgrind") {
        let mut valgrind = isolated("valgrind");
        // By default valgrind takes a frame of more than 2 MiB for a change of stacks.
        let options = "-q --error-exitcode=99 --leak-check=full --show-leak-kinds=definite --fair-sched=try \
                       --errors-for-leak-kinds=definite --max-stackframe=8388608";
        valgrind.args(options.split_whitespace()).arg(program);
        valgrind
    } else {
        crate::skip(&format!("valgrind is not installed: {} runs without it", program.display()));
        isolated(program)
    };
    command.args(args);
    said(command, program)
}

pub fn run_plain(program: &Path, args: &[&str]) -> String {
    let mut command = isolated(program);
    command.args(args);
    said(command, program)
}

fn said(mut command: Command, program: &Path) -> String {
    // Cargo's own value has the folder of the last `cargo build` in front.
    command.env("LD_LIBRARY_PATH", built());
    succeeds(&mut command, &program.display().to_string())
}

/// Runs a command and returns its standard output. Panics if it does not end with status 0.
pub fn succeeds(command: &mut Command, name: &str) -> String {
    let Output { status, stdout, stderr } = output(command).expect(name);
    let (said, errors) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{name}: {status}\n{said}\n{errors}");
    said.into_owned()
}
