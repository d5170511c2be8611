//! The real cudarc and nvml-wrapper on our two libraries. Each case runs in a process of its
//! own with its own virtual machine.

#[path = "../common/mod.rs"]
mod common;

mod failures;
mod nvml;
mod raw;
mod work;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

pub struct Case {
    name: &'static str,
    /// `FAKECUDA`.
    machine: &'static str,
    /// Further variables.
    variables: &'static [(&'static str, &'static str)],
    run: fn(),
}

/// A case by its function's name.
macro_rules! case {
    ($module:ident :: $f:ident, $machine:expr $(, $key:literal = $value:expr)*) => {
        $crate::Case { name: stringify!($f), machine: $machine, variables: &[$(($key, $value)),*], run: $module::$f }
    };
}

const ONE: &str = "dev=cc:7.0,mem:1G";
const TWO: &str = "dev=name:GTX 1080 Ti,cc:6.1,mem:11G,speed:2.2;dev=name:Tesla K40,cc:3.5,mem:3G,speed:1";
/// The order of NVML (by PCI) is not that of the driver (by speed).
const MIXED: &str = "dev=speed:1,pci:0000:01:00.0,cc:8.0,mem:8G;dev=speed:3,pci:0000:03:00.0,mem:2G;\
                     dev=speed:2,pci:0000:02:00.0,mem:3G";

fn cases() -> Vec<Case> {
    vec![
        case!(work::a_stencil_on_two_cards, TWO),
        case!(work::launches_are_asynchronous, "pace=20;dev=cc:7.0,mem:1G"),
        case!(work::speeds_are_kept, "pace=40;dev=speed:4,mem:1G;dev=speed:1,mem:1G"),
        case!(work::events_have_generations, "pace=20;dev=cc:7.0,mem:1G"),
        case!(work::memory_is_counted, "dev=mem:64M,ctx:8M"),
        case!(work::fresh_memory_is_poisoned_and_no_host_memory, ONE),
        case!(work::modules_are_checked, "driver=11040;dev=cc:3.5,mem:1G;dev=cc:3.0,mem:1G"),
        case!(work::launch_limits, ONE),
        case!(work::sixteen_threads, TWO),
        case!(work::nothing_is_left_and_the_unused_card_untouched, TWO),
        case!(work::a_child_of_a_fork_gets_nothing, ONE),
        case!(work::no_cards, ""),
        case!(failures::codes_come_back_as_they_are, ONE, "FAKECUDA_FAULTS" = failures::CODES),
        case!(failures::a_poisoned_card_poisons_no_other, TWO, "FAKECUDA_FAULTS" = "0:launch:2:719"),
        case!(
            failures::every_sticky_code_stays,
            "dev=mem:1G",
            "FAKECUDA_FAULTS" = "0:sync:1:214;0:sync:2:715"
        ),
        case!(failures::out_of_bounds_is_illegal_address, TWO, "FAKECUDA_QUIET" = "1"),
        case!(failures::kernels_that_go_wrong, "fuel=1e6;dev=mem:1G", "FAKECUDA_QUIET" = "1"),
        case!(failures::a_hang_ends_with_a_reset, TWO, "FAKECUDA_FAULTS" = "0:launch:1:hang"),
        case!(failures::a_card_falls_out, TWO, "FAKECUDA_FAULTS" = "0:launch:2:lost"),
        case!(failures::memory_taken_by_another, ONE, "FAKECUDA_FAULTS" = "0:alloc:2:take=900e6"),
        case!(
            failures::cards_that_may_not_be_used,
            "dev=mode:prohibited;dev=mode:exclusive,other:1M;dev=mode:exclusive"
        ),
        case!(nvml::orders_disagree_and_names_agree, MIXED),
        case!(
            nvml::masks_hide_from_the_driver_only,
            MIXED,
            "CUDA_VISIBLE_DEVICES" = "1",
            "CUDA_DEVICE_ORDER" = "PCI_BUS_ID"
        ),
        case!(nvml::what_a_card_tells, MIXED),
        case!(nvml::mig, "dev=cc:9.0,mem:80G,mig:2,name:H100"),
        case!(nvml::profile_470, "driver=11040;dev=cc:3.5,mem:3G", "CASE_NVML" = "470"),
        case!(nvml::no_library, ONE, "CASE_NVML" = "none"),
        case!(nvml::driver_not_loaded, "nvml=notloaded;dev=mem:1G"),
        case!(nvml::events, ONE, "FAKECUDA_FAULTS" = "0:launch:1:700"),
    ]
}

fn main() -> ExitCode {
    let cases = cases();
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
    let libraries = Libraries::lay_out();
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
    fn lay_out() -> Self {
        let built = std::env::current_exe().expect("a path").parent().expect("a directory").to_path_buf();
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fakecuda");
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
