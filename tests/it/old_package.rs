//! The old package and its many processes, on a node of four virtual GPUs that all of them share:
//! the programs of `ctests/python/old_package`, each of which says on standard error what is wrong.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use testkit::process::{isolated, output, output_within};
use testkit::virtual_gpus::{Driver, attach, libraries};
use testkit::{Folder, c};

fn passes(script: &str, arguments: &[&str]) {
    let folder = testkit::root().join("ctests/python/old_package");
    let mut python = isolated("python3");
    python
        .arg("-B")
        .arg(folder.join(script))
        .args([testkit::library().as_path(), libraries(Driver::Both)])
        .args(arguments);
    let ended = output(&mut python).expect("python3");
    let said = String::from_utf8_lossy(&ended.stderr);
    print!("{}", String::from_utf8_lossy(&ended.stdout));
    assert!(ended.status.success() && said.is_empty(), "{}\n{said}", ended.status);
}

macro_rules! cases {
    ($($name:ident $script:literal $arguments:expr;)*) => {
        $(#[test]
        fn $name() {
            passes($script, &$arguments);
        })*
    };
}

cases! {
    a_whole_call_in_every_device_mode "whole.py" [];
    calls_in_children_of_a_process_that_calls "forks.py" [];
    twelve_processes_at_the_same_moment "twelve.py" [];
    three_of_twelve_are_killed "twelve.py" ["--kill"];
}

#[test]
fn the_four_classes_alone_and_in_pools_have_the_records_of_surveys() {
    let command = testkit::command::executable();
    passes("classes.py", &[command.to_str().expect("UTF-8")]);
}

/// A run on another node with the same output folder removes the unfinished files of a process that
/// has none of them locked. The record is the last to get its name.
#[test]
fn record_is_locked_until_all_files_have_their_names() {
    let folder = Folder::new();
    let out = std::fs::canonicalize(folder.make("out")).unwrap();
    let program = "import sys, shots
call, out = shots.Shot('iso1_multishot'), sys.argv[2]
said = call.call(shots.load(sys.argv[1]), out + '/shot.bin', FNsnap=out + '/')
shots.check([said] if said else [])";
    let mut python = isolated("python3");
    python
        .args(["-B", "-c", program])
        .arg(testkit::library())
        .arg(&out)
        .env("PYTHONPATH", testkit::root().join("ctests/python/old_package"))
        .env("GPUSCHED_DEVICES", "cpu")
        .env("LD_PRELOAD", c::preload("inject", folder.path()))
        .envs([("FAULT_AT", "1"), ("FAULT_HOW", "watch"), ("FAULT_LASTS", "1")])
        .env("FAULT_FOLDER", &out)
        .env("FAULT_MARK", folder.at("mark"));
    let ended = output(&mut python).expect("python3");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let calls = std::fs::read_to_string(folder.at("mark")).unwrap();
    let renames: Vec<&str> = calls.lines().filter(|line| line.starts_with("rename")).collect();
    assert_eq!(renames.len(), 7, "{calls}");
    assert!(!renames[6].starts_with("rename unlocked"), "{renames:?}");
}

const SURVEY: &str = "grid = { n = [1, 6, 3], spacing_m = 10.0 }
model = { vp = 1500.0, rho = 'gardner' }
time = { dt_s = 0.002, nt = 4 }
wavelet.frequency_hz = 20.0
sources = { first_m = [0.0, 0.0, 0.0], step_m = [10.0, 10.0], count = [1, 2] }
";

/// Returns the command that runs a survey on the only virtual GPU of a node.
fn survey(folder: &Path, name: &str, text: &str) -> Command {
    std::fs::create_dir_all(folder.join(name)).unwrap();
    std::fs::write(folder.join(name).join("survey.toml"), text).unwrap();
    let mut command = Command::new(testkit::command::executable());
    attach(&mut command, "pace=60;dev=name:A,mem:2G", &folder.join("leases"));
    command
        .args(["run", "survey.toml"])
        .current_dir(folder.join(name))
        .env("FAKECUDA_NODE", folder.join("node"))
        .env("XDG_CACHE_HOME", folder.join("cache"));
    command
}

/// Makes the process fail to start `count` threads, after its first three: the command's own two and
/// the worker.
fn without_threads(command: &mut Command, folder: &Path, count: u32) {
    let preload = c::preload("no_thread", folder);
    command.env("LD_PRELOAD", preload).envs([("FAULT_AT", "4".into()), ("FAULT_COUNT", count.to_string())]);
}

/// Its shots are tried again after a pause, when memory was short.
#[test]
fn survey_without_a_timer_thread_completes() {
    let folder = Folder::new();
    let mut command = survey(folder.path(), "survey", SURVEY);
    without_threads(&mut command, folder.path(), 1000);
    let faults: Vec<String> = (1..=2).map(|call| format!("0:alloc:{call}:2")).collect();
    let ended =
        output_within(command.env("FAKECUDA_FAULTS", faults.join(";")), Duration::from_secs(120)).unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("refused") && ended.status.success(), "{}: {said}", ended.status);
}

/// Nobody would wake it when the GPU becomes free, so it begins beside the other and does not wait
/// for ever.
#[test]
fn survey_without_a_watcher_thread_completes() {
    let folder = Folder::new();
    // The first survey runs until it is killed: the second finds the GPU in use, however late it
    // comes.
    let endless = SURVEY.replace("nt = 4", "nt = 10000000");
    let mut first = survey(folder.path(), "first", &endless).stdout(Stdio::null()).spawn().unwrap();
    let works = || std::fs::read_to_string(folder.at("node.log")).is_ok_and(|log| log.contains(" begin "));
    while !works() && first.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut second = survey(folder.path(), "second", SURVEY);
    without_threads(&mut second, folder.path(), 3);
    let ended = output_within(&mut second, Duration::from_secs(120)).unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    let has_first_ended = first.try_wait().unwrap();
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(has_first_ended.is_none(), "the first run holds the GPU: {has_first_ended:?}");
    assert!(said.contains("refused"), "the second asked for no thread: {said}");
    assert!(ended.status.success(), "{}: {said}", ended.status);
}
