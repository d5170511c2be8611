//! `include/gpusched.hpp`, as C++11 and as C++17, without a warning.

use testkit::{c, skip};

use std::process::Command;

fn works(standard: &str) {
    let compiler = c::cpp_compiler();
    if !c::has(&compiler) {
        return skip(&format!("{compiler} is not installed"));
    }
    let program = c::scratch("wrapper").join(standard);
    let folder = testkit::built();
    let status = Command::new(compiler)
        .arg(format!("-std={standard}"))
        .args(["-g", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread", "-o"])
        .arg(&program)
        .arg(testkit::root().join("ctests/cpp/wrapper.cpp"))
        .arg("-I")
        .arg(testkit::root().join("include"))
        .arg("-L")
        .arg(&folder)
        .arg(format!("-Wl,-rpath,{}", folder.display()))
        .arg("-lgpusched")
        .status();
    assert!(status.expect("a C++ compiler").success(), "ctests/cpp/wrapper.cpp as {standard}");
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
