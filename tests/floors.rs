//! A module uses only what stands above it, and `unsafe` stays where it belongs.

use std::path::{Path, PathBuf};

/// From the ground up, as in the map of `src/lib.rs`.
const FLOORS: [&str; 10] =
    ["error", "device", "memory", "node", "backend", "sched", "fd", "io", "legacy", "ffi"];

/// Files and folders whose subject can't be written without it.
const UNSAFE: [&str; 7] = [
    "node/linux/sys.rs",
    "backend/cpu",
    "backend/cuda",
    "backend/thread.rs",
    "fd/bench.rs",
    "fd/equation",
    "ffi",
];

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Every source file, with its path below src.
fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let name = path.strip_prefix(src()).expect("below src").display().to_string();
            found.push((name, std::fs::read_to_string(&path).expect("a source file")));
        }
    }
}

fn all() -> Vec<(String, String)> {
    let mut found = Vec::new();
    sources(&src(), &mut found);
    assert!(found.len() > 20, "only {} source files were found", found.len());
    found
}

fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

/// The floors that a line of code names: `crate::fd::…`, `crate::{error::…, fd}`.
fn named(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for rest in code(line).split("crate::").skip(1) {
        let list = rest.strip_prefix('{').map_or(rest, |rest| rest.split('}').next().unwrap_or(rest));
        let items = if rest.starts_with('{') { list.split(',').collect() } else { vec![list] };
        for item in items {
            let end =
                item.trim().find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(item.trim().len());
            found.push(item.trim()[..end].to_owned());
        }
    }
    found
}

fn height(floor: &str) -> Option<usize> {
    FLOORS.iter().position(|known| *known == floor)
}

#[test]
fn names_are_understood() {
    assert_eq!(named("use crate::fd::grid::Grid; // crate::ffi"), ["fd"]);
    assert_eq!(named("use crate::{error::Error, sched};"), ["error", "sched"]);
    assert_eq!(named("let x = crate::io::raw(crate::fd::X);"), ["io", "fd"]);
}

#[test]
fn modules_look_down_only() {
    for (file, text) in all() {
        let floor = file.split(['/', '.']).next().expect("a name");
        if floor == "bin" || floor == "lib" {
            continue;
        }
        let own = height(floor).unwrap_or_else(|| panic!("src/{file} stands on no floor of tests/floors.rs"));
        for (number, line) in text.lines().enumerate() {
            for used in named(line) {
                if used == "Error" || used == "Result" {
                    continue;
                }
                let at = format!("src/{file}:{}", number + 1);
                let below =
                    height(&used).unwrap_or_else(|| panic!("{at} names crate::{used}, which is no floor"));
                assert!(below <= own, "{at}: {floor} must not know {used}");
            }
        }
    }
}

#[test]
fn the_map_in_lib_rs_has_the_same_floors() {
    let text = std::fs::read_to_string(src().join("lib.rs")).expect("src/lib.rs");
    let rows = text.lines().filter_map(|line| line.strip_prefix("//! | [`")?.split('`').next());
    assert_eq!(rows.collect::<Vec<_>>(), FLOORS);
    let modules = text.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    assert_eq!(modules.collect::<Vec<_>>(), FLOORS);
}

#[test]
fn unsafe_stays_where_it_belongs_and_says_why() {
    for (file, text) in all() {
        let allowed = UNSAFE.iter().any(|place| file.starts_with(place));
        let lines: Vec<&str> = text.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            let line = code(line);
            let at = format!("src/{file}:{}", number + 1);
            let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
            if !words.contains(&"unsafe") || line.contains("no_mangle") {
                continue;
            }
            assert!(allowed, "{at}: unsafe outside {UNSAFE:?}");
            if line.contains("unsafe {") || line.contains("unsafe impl") {
                let above = &lines[number.saturating_sub(8)..=number];
                assert!(above.iter().any(|line| line.contains("SAFETY")), "{at}: unsafe without a reason");
            }
        }
    }
}
