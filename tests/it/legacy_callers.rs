//! Programs of the old library's users, in C and Python, through a link of the old name.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use testkit::process::isolated;
use testkit::{Folder, library, root};

/// A folder with the link `acoustic1order.so` and an empty folder `out`.
struct Bench(Folder);

impl Bench {
    fn new() -> Bench {
        let bench = Bench(Folder::new());
        bench.0.make("out");
        std::os::unix::fs::symlink(library(), bench.old_library()).unwrap();
        bench
    }

    fn old_library(&self) -> PathBuf {
        self.0.at("acoustic1order.so")
    }

    fn out(&self) -> PathBuf {
        self.0.at("out")
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.out()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Compiles the C program; the compiler is `$CC`, else `cc`.
    fn c_program(&self) -> PathBuf {
        let program = self.0.at("legacy");
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let built = Command::new(compiler)
            .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", "-o"])
            .arg(&program)
            .arg(root().join("ctests/c/legacy.c"))
            .args(["-ldl", "-lm"])
            .output()
            .expect("a C compiler, as $CC or cc");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        program
    }
}

fn case() -> PathBuf {
    root().join("tests/golden/iso1_multishot")
}

/// Ends well and without a word: the library is a guest in its caller's terminal.
fn silent_success(output: &Output) {
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "{}: {said}", output.status);
    assert_eq!(said, "");
}

fn snapshots(prefix: &str) -> Vec<String> {
    let shots = (0..3).flat_map(|shot| [(shot, 0), (shot, 60)]);
    shots.map(|(shot, step)| format!("{prefix}ishot_{shot}it_{step}.bin")).collect()
}

#[test]
fn a_c_program_opens_the_library_by_its_old_name() {
    let bench = Bench::new();
    let run = |device: &str, mode: Option<&str>| {
        let mut command = isolated(bench.0.at("legacy"));
        command.arg(bench.old_library()).args([case(), bench.out()]).arg(device);
        if let Some(mode) = mode {
            command.env("GPUSCHED_LEGACY_DEVICE", mode);
        }
        command.output().unwrap()
    };
    bench.c_program();

    // A card number that is not there: a hint, unless it is to be obeyed.
    silent_success(&run("7", None));
    let mut expected = snapshots("");
    expected.push("shot.bin".into());
    assert_eq!(bench.names(), expected);
    for name in bench.names() {
        fs::remove_file(bench.out().join(name)).unwrap();
    }
    for (device, mode, sentence) in [
        ("7", "strict", "it asks for device 7 and GPUSCHED_LEGACY_DEVICE is strict; there are: cpu:0"),
        ("-1", "strict", "it asks for device -1"),
        ("0", "always", "GPUSCHED_LEGACY_DEVICE is always; accepted: dynamic (the default) or strict"),
    ] {
        let output = run(device, Some(mode));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(sentence), "{said:?} lacks {sentence:?}");
        assert_eq!(bench.names(), [""; 0]);
    }
    silent_success(&run("0", Some("strict")));
    assert_eq!(bench.names(), expected);
}

#[test]
fn the_python_package_calls_it_without_argument_types() {
    let bench = Bench::new();
    let output = isolated("python3")
        .arg("-B")
        .arg(root().join("ctests/python/legacy.py"))
        .arg(bench.old_library())
        .args([case(), bench.out()])
        .output()
        .expect("python3");
    silent_success(&output);
    let mut expected = Vec::new();
    for name in ["alone", "first", "second"] {
        expected.push(format!("{name}.bin"));
        expected.extend(snapshots(&format!("{name}_")));
    }
    expected.sort();
    assert_eq!(bench.names(), expected);
}
