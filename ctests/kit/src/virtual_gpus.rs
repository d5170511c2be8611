//! Test cases with libraries of a driver. Each runs in its own process, because a process loads a
//! library and reads its variables once.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use crate::process::{isolate, output};
use crate::skip::SKIPPED;
use crate::{Folder, built};

/// Concurrent cases, because many wait for most of their time.
const AT_ONCE: usize = 3;

pub struct Case {
    pub name: &'static str,
    pub machine: &'static str,
    /// Further variables. `CASE_NVML` selects the libraries: `both` (default), `none` (no NVML),
    /// `nothing`.
    pub variables: &'static [(&'static str, &'static str)],
    pub run: fn(),
}

/// Makes a case from a function; without a machine the process finds no driver.
#[macro_export]
macro_rules! case {
    ($module:ident :: $f:ident) => { $crate::case!($module::$f, "", "CASE_NVML" = "nothing") };
    ($module:ident :: $f:ident, $machine:expr $(, $key:literal = $value:expr)*) => {
        $crate::virtual_gpus::Case {
            name: concat!(stringify!($module), "::", stringify!($f)), machine: $machine, variables: &[$(($key, $value)),*], run: $module::$f,
        }
    };
}

/// Runs the cases that the command line names, or all, except those that `--skip` names.
pub fn main(cases: &[Case]) -> ExitCode {
    if let Ok(name) = std::env::var("CASE") {
        let case = cases.iter().find(|case| case.name == name).expect("a case of that name");
        (case.run)();
        return ExitCode::SUCCESS;
    }
    let (mut wanted, mut skipped): (Vec<String>, Vec<String>) = Default::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--skip" => skipped.extend(words.next()),
            option if option.starts_with('-') => {}
            _ => wanted.push(word),
        }
    }
    let has = |words: &[String], case: &&Case| words.iter().any(|word| case.name.contains(word.as_str()));
    let run: Vec<&Case> = cases
        .iter()
        .filter(|case| (wanted.is_empty() || has(&wanted, case)) && !has(&skipped, case))
        .collect();
    if std::env::args().any(|word| word == "--list") {
        run.iter().for_each(|case| println!("{}: test", case.name));
        return ExitCode::SUCCESS;
    }
    println!("\nrunning {} tests", run.len());
    let leases = Folder::new();
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(case) = run.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let output = output(&mut command(case, leases.path())).expect("this program once more");
                    let ok = output.status.success();
                    let errors = String::from_utf8_lossy(&output.stderr);
                    errors
                        .lines()
                        .filter(|line| line.starts_with(SKIPPED))
                        .for_each(|line| eprintln!("{line}"));
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

/// Libraries of NVIDIA's driver that a program finds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Driver {
    Both,
    NoNvml,
    Nothing,
}

/// Returns the folder, for `LD_LIBRARY_PATH`, that holds the virtual libraries under their names.
pub fn libraries(driver: Driver) -> &'static Path {
    static LAID_OUT: [OnceLock<PathBuf>; 3] = [const { OnceLock::new() }; 3];
    LAID_OUT[driver as usize].get_or_init(|| lay_out(driver))
}

fn lay_out(driver: Driver) -> PathBuf {
    let built = built();
    let folder = built.with_file_name("virtual-gpus").join(format!("{driver:?}"));
    std::fs::create_dir_all(&folder).expect("a folder in target");
    // Includes libcuda.so: otherwise a program would find that of a real driver.
    let names: &[&str] = match driver {
        Driver::Both => &["libcuda.so", "libcuda.so.1", "libnvidia-ml.so.1"],
        Driver::NoNvml => &["libcuda.so", "libcuda.so.1"],
        Driver::Nothing => &[],
    };
    let library = built.join("libfakecuda_driver.so");
    assert!(library.exists(), "{} was not built", library.display());
    for name in names {
        // Put in place whole: other processes use the folder.
        let link = folder.join(format!(".{name}.{}", std::process::id()));
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(&library, &link).expect("a link");
        std::fs::rename(&link, folder.join(name)).expect("a link");
    }
    folder
}

/// Sets up a program with the virtual GPUs of `machine` (`FAKECUDA`), the library of this build,
/// and a lease folder.
pub fn attach<'a>(command: &'a mut Command, machine: &str, leases: &Path) -> &'a mut Command {
    isolate(command).env_remove("GPUSCHED_DEVICES");
    let path = format!("{}:{}", libraries(Driver::Both).display(), built().display());
    command.env("LD_LIBRARY_PATH", path).env("FAKECUDA", machine).env("GPUSCHED_LEASE_DIR", leases)
}

fn command(case: &Case, leases: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a path"));
    // Cases run side by side, and their GPUs have the same names.
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    attach(&mut command, case.machine, &leases.join(number.to_string()));
    let nvml = case.variables.iter().find(|(key, _)| *key == "CASE_NVML").map(|(_, value)| *value);
    let driver = match nvml {
        None | Some("both") => Driver::Both,
        Some("none") => Driver::NoNvml,
        Some("nothing") => Driver::Nothing,
        Some(other) => panic!("CASE_NVML is {other}"),
    };
    command.env("CASE", case.name).env("LD_LIBRARY_PATH", libraries(driver));
    command.envs(case.variables.iter().copied());
    command
}
