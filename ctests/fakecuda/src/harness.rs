//! Tests that need a driver's libraries: each case runs in a process of its own, with its own virtual machine,
//! because a process loads a library and reads its variables once.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

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
    println!("\nrunning {} tests", run.len());
    let libraries = Libraries::lay_out(temporary);
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(case) = run.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let output = libraries.command(case).output().expect("this program once more");
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
        for name in ["FAKECUDA_FAULTS", "FAKECUDA_REPORT", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"] {
            command.env_remove(name);
        }
        let nvml =
            case.variables.iter().find(|(key, _)| *key == "CASE_NVML").map_or("both", |(_, value)| *value);
        command.env("CASE", case.name).env("FAKECUDA", case.machine);
        command.env("LD_LIBRARY_PATH", self.root.join(nvml));
        command.envs(case.variables.iter().copied());
        command
    }
}
