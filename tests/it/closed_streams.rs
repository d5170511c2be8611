//! A C program whose standard streams are closed, as a daemon's are, or lead to a pipe without a
//! reader.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use testkit::{Folder, c, root, virtual_gpus};

fn run(case: &str, log: &str, devices: &str) {
    let out = Folder::new();
    let setting = log.replace("OUT", &out.path().display().to_string());
    run_in(&out, case, setting.as_ref(), devices);
}

fn run_in(out: &Folder, case: &str, log: &OsStr, devices: &str) {
    let mut command = Command::new(c::program("closed_streams"));
    command.arg(case).arg(root().join("tests/golden/iso1_multishot")).arg(out.path());
    virtual_gpus::attach(&mut command, "dev=mem:2G", &out.at("leases"));
    command.env("GPUSCHED_DEVICES", devices);
    command.env("GPUSCHED_LOG", log);
    c::succeeds(&mut command, &format!("closed_streams {case} on {devices}, GPUSCHED_LOG={}", log.display()));
}

#[test]
fn files_of_the_library_leave_the_standard_descriptors_free() {
    for log in ["off", "debug", "debug:OUT/log"] {
        run("files", log, "cpu");
    }
}

#[test]
fn leases_leave_the_standard_descriptors_free() {
    run("files", "off", "cuda");
}

#[test]
fn log_without_standard_error_goes_to_no_file_of_the_program() {
    run("log", "debug", "cpu");
    run("log", "no level", "cpu");
}

#[test]
fn log_to_a_pipe_without_a_reader_does_not_end_the_program() {
    run("pipe", "debug", "cpu");
}

#[test]
fn write_beyond_the_limit_of_file_sizes_does_not_end_the_program() {
    run("limit", "off", "cpu");
    run("limit", "debug:OUT/log", "cpu");
    run("leases", "off", "cuda");
}

#[test]
fn log_goes_to_a_file_whose_name_is_not_utf_8() {
    let out = Folder::new();
    let path = out.path().join(OsStr::from_bytes(b"l\xe9.log"));
    let mut setting = OsString::from("debug:");
    setting.push(&path);
    run_in(&out, "files", &setting, "cpu");
    assert!(!fs::read(&path).expect("the log").is_empty());
}
