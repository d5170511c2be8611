//! Tests that need a driver's libraries: each case runs in a process of its own, with its own virtual machine,
//! because a process loads a library and reads its variables once.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Many cases wait for most of their time.
const AT_ONCE: usize = 3;
/// A case that takes longer hangs.
const LONGEST: Duration = Duration::from_secs(600);
/// What a program leaves running has so long to end, too.
const LEFT: Duration = Duration::from_secs(20);

pub struct Case {
    pub name: &'static str,
    /// `FAKECUDA`.
    pub machine: &'static str,
    /// Further variables. `CASE_NVML`: which libraries there are, `both` if not said; `470`, `none` (of
    /// NVML), `nothing`.
    pub variables: &'static [(&'static str, &'static str)],
    pub run: fn(),
}

/// A case by its function's name.
#[macro_export]
macro_rules! case {
    ($module:ident :: $f:ident, $machine:expr $(, $key:literal = $value:expr)*) => {
        $crate::harness::Case {
            name: stringify!($f), machine: $machine, variables: &[$(($key, $value)),*], run: $module::$f,
        }
    };
}

/// Runs those of the cases that the command line names, or all; `temporary` is a folder for the libraries.
pub fn main(cases: &[Case], temporary: &str) -> ExitCode {
    if let Ok(name) = std::env::var("CASE") {
        let case = cases.iter().find(|case| case.name == name).expect("a case of that name");
        (case.run)();
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let run: Vec<&Case> = cases
        .iter()
        .filter(|c| wanted.is_empty() || wanted.iter().any(|w| c.name.contains(w.as_str())))
        .collect();
    if std::env::args().any(|word| word == "--list") {
        run.iter().for_each(|case| println!("{}: test", case.name));
        return ExitCode::SUCCESS;
    }
    println!("\nrunning {} tests", run.len());
    let libraries = Libraries::lay_out(temporary);
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(case) = run.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let output = output(&mut libraries.command(case)).expect("this program once more");
                    let ok = output.status.success();
                    println!("test {} ... {}", case.name, if ok { "ok" } else { "FAILED" });
                    if !ok {
                        let text = String::from_utf8_lossy(&output.stderr).into_owned();
                        let entry = format!("---- {} ({}) ----\n{text}", case.name, output.status);
                        failed.lock().expect("no panic here").push(entry);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("no panic there");
    for entry in &failed {
        println!("\n{entry}");
    }
    let word = if failed.is_empty() { "ok" } else { "FAILED" };
    let passed = run.len() - failed.len();
    println!("\ntest result: {word}. {passed} passed; {} failed; 0 ignored", failed.len());
    ExitCode::from(u8::from(!failed.is_empty()))
}

/// What a program says, and how it ends; killed if it hangs, and what it has started with it.
pub fn output(command: &mut Command) -> std::io::Result<Output> {
    output_within(command, LONGEST)
}

/// The same with another limit.
pub fn output_within(command: &mut Command, longest: Duration) -> std::io::Result<Output> {
    // A group of its own, as whoever is left of it could keep the pipes open for ever.
    command.process_group(0).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let readers = [reader(child.stdout.take()), reader(child.stderr.take())];
    let status = wait(&mut child, longest)?;
    let end = Instant::now() + LEFT.min(longest);
    while !readers.iter().all(JoinHandle::is_finished) {
        if Instant::now() > end {
            eprintln!("killed: what is left of process {}", child.id());
            kill_group(&child);
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let [stdout, stderr] = readers.map(|reader| reader.join().expect("no panic there"));
    Ok(Output { status, stdout: stdout?, stderr: stderr? })
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<std::io::Result<Vec<u8>>> {
    let mut pipe = pipe.expect("a pipe");
    std::thread::spawn(move || {
        let mut text = Vec::new();
        pipe.read_to_end(&mut text).map(|_| text)
    })
}

fn wait(child: &mut Child, longest: Duration) -> std::io::Result<std::process::ExitStatus> {
    let begun = Instant::now();
    loop {
        match child.try_wait()? {
            Some(status) => return Ok(status),
            None if begun.elapsed() > longest => {
                eprintln!("killed after {} s: process {}", longest.as_secs(), child.id());
                kill_group(child);
                return child.wait();
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

fn kill_group(child: &Child) {
    // SAFETY: takes numbers only. The group is of the child, and keeps its number while anybody is in it.
    unsafe { libc::kill(-(child.id() as libc::pid_t), libc::SIGKILL) };
}

/// Directories with the libraries under the names that programs look for.
struct Libraries {
    root: PathBuf,
}

impl Libraries {
    fn lay_out(temporary: &str) -> Self {
        let built = std::env::current_exe().expect("a path").parent().expect("a directory").to_path_buf();
        let root = Path::new(temporary).join("fakecuda");
        let link = |directory: &str, name: &str, library: &str| {
            let directory = root.join(directory);
            std::fs::create_dir_all(&directory).expect("a directory");
            let _ = std::fs::remove_file(directory.join(name));
            let library = built.join(library);
            assert!(library.exists(), "{} was not built", library.display());
            std::os::unix::fs::symlink(library, directory.join(name)).expect("a link");
        };
        for directory in ["both", "470", "none"] {
            // The first name too: a machine with a real driver must not give us its own.
            link(directory, "libcuda.so", "libfakecuda_driver.so");
            link(directory, "libcuda.so.1", "libfakecuda_driver.so");
        }
        std::fs::create_dir_all(root.join("nothing")).expect("a directory");
        link("both", "libnvidia-ml.so.1", "libfakecuda_nvml.so");
        link("470", "libnvidia-ml.so.1", "libfakecuda_nvml470.so");
        Libraries { root }
    }

    fn command(&self, case: &Case) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("a path"));
        for name in [
            "FAKECUDA_FAULTS",
            "FAKECUDA_NODE",
            "FAKECUDA_REPORT",
            "CUDA_VISIBLE_DEVICES",
            "CUDA_DEVICE_ORDER",
        ] {
            command.env_remove(name);
        }
        let nvml =
            case.variables.iter().find(|(key, _)| *key == "CASE_NVML").map_or("both", |(_, value)| *value);
        command.env("CASE", case.name).env("FAKECUDA", case.machine);
        command.env("LD_LIBRARY_PATH", self.root.join(nvml));
        // Cases run side by side, and their cards have the same names.
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        command.env("GPUSCHED_LEASE_DIR", self.root.join(format!("leases-{number}")));
        command.envs(case.variables.iter().copied());
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str) -> Output {
        output_within(Command::new("sh").args(["-c", text]), Duration::from_millis(500)).expect("sh")
    }

    #[test]
    fn what_hangs_is_killed_with_all_that_it_has_started() {
        let begun = Instant::now();
        let ended = shell("echo begun; sleep 1000 & sleep 1000");
        assert!(!ended.status.success() && ended.stdout == b"begun\n");
        // Who has ended, and left somebody who has its pipes.
        let ended = shell("echo ended; echo well >&2; sleep 1000 &");
        assert!(ended.status.success() && ended.stdout == b"ended\n" && ended.stderr == b"well\n");
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
}
