//! `include/gpusched.hpp`, as C++11 and as C++17, without a warning.

#[path = "support/c.rs"]
mod c;

use std::process::Command;

fn works(standard: &str) {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "g++".into());
    if !c::there(&compiler) {
        eprintln!("{compiler} is not installed: the C++ header was not looked at");
        return;
    }
    let program = c::scratch("wrapper").join(standard);
    let folder = c::built();
    let status = Command::new(compiler)
        .arg(format!("-std={standard}"))
        .args(["-g", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread", "-o"])
        .arg(&program)
        .arg(c::root().join("ctests/wrapper.cpp"))
        .arg("-I")
        .arg(c::root().join("include"))
        .arg("-L")
        .arg(&folder)
        .arg(format!("-Wl,-rpath,{}", folder.display()))
        .arg("-lgpusched")
        .status();
    assert!(status.expect("a C++ compiler").success(), "ctests/wrapper.cpp as {standard}");
    c::run(&program);
}

#[test]
fn the_wrapper_in_cpp11() {
    works("c++11");
}

#[test]
fn the_wrapper_in_cpp17() {
    works("c++17");
}
