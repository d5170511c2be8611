//! The shared library as linkers and loaders see it, checked in the binary itself.

use std::collections::BTreeSet;
use std::process::Command;

use testkit::{library, root};

fn output(program: &str, args: &[&str]) -> String {
    let out = Command::new(program).args(args).output().unwrap_or_else(|why| {
        panic!("{program} (package binutils) does not run: {why}");
    });
    assert!(out.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).expect("UTF-8")
}

fn dynamic(tag: &str) -> Vec<String> {
    let so = library();
    let table = output("readelf", &["-dW", so.to_str().expect("UTF-8")]);
    let lines = table.lines().filter(|line| line.contains(&format!("({tag})")));
    lines.map(|line| line.rsplit_once("  ").map_or(line, |(_, value)| value).trim().to_owned()).collect()
}

#[test]
fn exports_are_exactly_the_listed_symbols() {
    let table = output("nm", &["-D", "--defined-only", library().to_str().expect("UTF-8")]);
    let exported: BTreeSet<&str> = table.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    let listed = std::fs::read_to_string(root().join("abi/symbols.txt")).expect("abi/symbols.txt");
    assert_eq!(exported, listed.lines().collect());
}

#[test]
fn soname_is_what_was_asked_for() {
    let wanted = option_env!("GPUSCHED_SONAME").unwrap_or("libgpusched.so");
    assert_eq!(dynamic("SONAME"), [format!("Library soname: [{wanted}]")]);
}

#[test]
fn needs_the_c_runtime_and_nothing_else() {
    // The library must load on a machine without a GPU and its driver.
    const RUNTIME: [&str; 6] = ["libc.so", "libm.so", "libgcc_s.so", "libdl.so", "libpthread.so", "ld-linux"];
    for needed in dynamic("NEEDED") {
        let name = needed.split('[').nth(1).unwrap_or_default();
        assert!(RUNTIME.iter().any(|known| name.starts_with(known)), "unexpected: {needed}");
    }
}
