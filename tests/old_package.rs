//! The old package and its many processes, on a node of four virtual cards that all of them share: the programs of
//! `ctests/old_package`, each of which says on standard error what is wrong.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use fakecuda::harness::{output, output_within};

/// What cargo has built beside this test's executable.
fn built(name: &str) -> PathBuf {
    let path = std::env::current_exe().unwrap().with_file_name(name);
    assert!(path.exists(), "{} is missing; `cargo test` builds it", path.display());
    path
}

/// The virtual driver and NVML under the names that programs look for.
fn virtual_libraries() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("old-package");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, library) in [
        ("libcuda.so", "libfakecuda_driver.so"),
        ("libcuda.so.1", "libfakecuda_driver.so"),
        ("libnvidia-ml.so.1", "libfakecuda_nvml.so"),
    ] {
        // Another test of this program, or of an earlier run, may have made it.
        match symlink(built(library), folder.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => panic!("{name}: {error}"),
            _ => {}
        }
    }
    folder
}

fn passes(script: &str, arguments: &[&str]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("ctests/old_package");
    let mut python = Command::new("python3");
    python
        .arg("-B")
        .arg(folder.join(script))
        .args([built("libgpusched.so"), virtual_libraries()])
        .args(arguments);
    let ended = output(&mut python).expect("python3");
    let said = String::from_utf8_lossy(&ended.stderr);
    print!("{}", String::from_utf8_lossy(&ended.stdout));
    assert!(ended.status.success() && said.is_empty(), "{}\n{said}", ended.status);
}

#[test]
fn a_pool_by_fork_with_sleeps_through_a_link() {
    passes("pool.py", &["fork", "--pause", "0.02"]);
}

#[test]
fn a_pool_by_spawn_without_sleeps_through_a_copy_and_two_shots_that_fail() {
    passes("pool.py", &["spawn", "--copy", "--shots", "16", "--bad", "7"]);
}

#[test]
fn calls_in_children_of_a_process_that_calls() {
    passes("forks.py", &[]);
}

#[test]
fn twelve_processes_at_the_same_moment() {
    passes("twelve.py", &[]);
}

#[test]
fn three_of_twelve_are_killed() {
    passes("twelve.py", &["--kill"]);
}

#[test]
fn twelve_beside_a_process_that_knows_of_no_leases() {
    passes("twelve.py", &["--foreign"]);
}

const SURVEY: &str = "[grid]
n = [1, 6, 3]
spacing_m = 10.0
[model]
velocity = 1500.0
density = \"gardner\"
[time]
dt_s = 0.002
nt = 4
[wavelet]
peak_hz = 20.0
[sources]
first_m = [0.0, 0.0, 0.0]
step_m = [10.0, 10.0]
count = [1, 6]
";

/// A survey on one virtual card of a node; to be run.
fn survey(folder: &Path, name: &str) -> Command {
    std::fs::create_dir_all(folder.join(name)).unwrap();
    std::fs::write(folder.join(name).join("survey.toml"), SURVEY).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpusched"));
    command
        .args(["run", "survey.toml"])
        .current_dir(folder.join(name))
        .env_remove("GPUSCHED_DEVICES")
        .env("FAKECUDA", "pace=60;dev=name:A,mem:2G")
        .env("FAKECUDA_NODE", folder.join("node"))
        .env("LD_LIBRARY_PATH", virtual_libraries())
        .env("GPUSCHED_LEASE_DIR", folder.join("leases"))
        .env("XDG_CACHE_HOME", folder.join("cache"));
    command
}

/// Its first thread is the worker. So many after that it does not get.
fn without_threads(command: &mut Command, folder: &Path, count: u32) {
    let preload = folder.join("no_thread.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("ctests/faults/no_thread.c");
    let mut compiler = Command::new(std::env::var("CC").unwrap_or_else(|_| "gcc".into()));
    compiler.args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]);
    assert!(compiler.arg(&preload).arg(source).arg("-ldl").status().expect("a C compiler").success());
    command.env("LD_PRELOAD", preload).envs([("FAULT_AT", "2".into()), ("FAULT_COUNT", count.to_string())]);
}

fn folder_of(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Its shots are tried again after a while, when memory was short.
#[test]
fn who_gets_no_thread_to_watch_the_time_goes_on() {
    let folder = folder_of("no-time");
    let mut command = survey(&folder, "survey");
    without_threads(&mut command, &folder, 1000);
    let faults: Vec<String> = (1..=6).map(|call| format!("0:alloc:{call}:2")).collect();
    let ended =
        output_within(command.env("FAKECUDA_FAULTS", faults.join(";")), Duration::from_secs(120)).unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("refused") && ended.status.success(), "{}: {said}", ended.status);
    std::fs::remove_dir_all(folder).unwrap();
}

/// Nobody would tell it that the card is free again, so it begins beside the other, and does not wait for ever.
#[test]
fn who_gets_no_thread_to_stand_in_line_goes_on() {
    let folder = folder_of("no-thread");
    let mut first = survey(&folder, "first").stdout(Stdio::null()).spawn().unwrap();
    let works = || std::fs::read_to_string(folder.join("node.log")).is_ok_and(|log| log.contains(" begin "));
    while !works() && first.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(10));
    }
    // It finds the card taken.
    let mut second = survey(&folder, "second");
    without_threads(&mut second, &folder, 3);
    let ended = output_within(&mut second, Duration::from_secs(120)).unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(first.wait().unwrap().success());
    assert!(said.contains("refused"), "the card was free already: {said}");
    assert!(ended.status.success(), "{}: {said}", ended.status);
    std::fs::remove_dir_all(folder).unwrap();
}
