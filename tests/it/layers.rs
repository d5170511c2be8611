//! A module uses only what stands above it, `unsafe` stays where it belongs, and one module opens files.

use std::path::{Path, PathBuf};

/// From the ground up, as in the map of `src/lib.rs`.
const LAYERS: [&str; 13] = [
    "error",
    "fork",
    "descriptor",
    "device",
    "memory",
    "node",
    "store",
    "backend",
    "sched",
    "fd",
    "io",
    "legacy",
    "ffi",
];

/// Files and folders whose subject can't be written without it.
const UNSAFE: &str =
    "fork.rs node/linux/sys.rs backend/cpu backend/cuda backend/thread.rs fd/bench.rs fd/equation ffi";

/// Calls that return a new descriptor, or use one inside. `src/descriptor.rs` opens files; `sys.rs` passes what it
/// opens through there.
const OPENS: &str = "File::open File::create fs::read( fs::read_to_string( fs::write( fs::copy( try_clone( \
    try_clone_to_owned( Command::new( UnixStream:: UnixListener:: UnixDatagram:: TcpStream:: TcpListener:: \
    UdpSocket:: io::pipe( libc::open libc::creat libc::fopen libc::dup libc::pipe libc::socket libc::eventfd \
    libc::inotify_init libc::memfd_create";

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

/// The layers that a line of code names: `crate::fd::…`, `crate::{error::…, fd}`.
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

fn height(layer: &str) -> Option<usize> {
    LAYERS.iter().position(|known| *known == layer)
}

#[test]
fn modules_look_down_only() {
    for (file, text) in all() {
        let layer = file.split(['/', '.']).next().expect("a name");
        if layer == "bin" || layer == "lib" {
            continue;
        }
        let own =
            height(layer).unwrap_or_else(|| panic!("src/{file} stands on no layer of tests/it/layers.rs"));
        for (number, line) in text.lines().enumerate() {
            for used in named(line) {
                if used == "Error" || used == "Result" {
                    continue;
                }
                let at = format!("src/{file}:{}", number + 1);
                let below =
                    height(&used).unwrap_or_else(|| panic!("{at} names crate::{used}, which is no layer"));
                assert!(below <= own, "{at}: {layer} must not know {used}");
            }
        }
    }
}

#[test]
fn the_map_in_lib_rs_has_the_same_layers() {
    let text = std::fs::read_to_string(src().join("lib.rs")).expect("src/lib.rs");
    let rows = text.lines().filter_map(|line| line.strip_prefix("//! | [`")?.split('`').next());
    assert_eq!(rows.collect::<Vec<_>>(), LAYERS);
    let modules = text.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    assert_eq!(modules.collect::<Vec<_>>(), LAYERS);
}

#[test]
fn unsafe_stays_where_it_belongs_and_says_why() {
    for (file, text) in all() {
        let allowed = UNSAFE.split_whitespace().any(|place| file.starts_with(place));
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

/// Returns the lines of a source file in front of its unit tests, with their numbers.
fn without_tests<'a>(file: &str, text: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let is_test = file.ends_with("tests.rs") || file.starts_with("bin/gpusched/fuzz");
    let all = if is_test { 0 } else { usize::MAX };
    let product = text.lines().take(all).take_while(|line| *line != "mod tests {");
    product.enumerate().map(|(number, line)| (number + 1, code(line)))
}

#[test]
fn files_are_opened_above_the_standard_streams() {
    let mut opened = 0;
    for (file, text) in all() {
        let has_options = text.contains("OpenOptions") || text.contains("File::options");
        let opens = || OPENS.split_whitespace().chain(has_options.then_some(".open("));
        for (number, line) in without_tests(&file, &text) {
            let Some(call) = opens().find(|call| line.contains(call)) else { continue };
            let is_allowed = ["descriptor.rs", "node/linux/sys.rs"].contains(&file.as_str());
            assert!(
                is_allowed,
                "src/{file}:{number} calls {call}; accepted: the functions of src/descriptor.rs"
            );
            opened += 1;
        }
    }
    assert!(opened >= 5, "only {opened} calls that open files were found");
}
