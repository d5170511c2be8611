//! No function of the C ABI lets an error or a panic past the landing pad.

use std::path::Path;

/// These do nothing that can fail, and `sched_last_error` must not disturb what it tells.
const BARE: [&str; 4] = ["sched_abi_version", "sched_version", "sched_status_name", "sched_last_error"];

/// The statement that may precede a guard: it reads the caller's floating-point mode before the guard
/// changes it, and cannot fail.
const MODE: &str = "let mode = CallbackMode::of_this_thread();";

/// Name and first statement of each exported function in a source text.
fn exported(source: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for part in source.split("#[unsafe(no_mangle)]").skip(1) {
        let (signature, body) = part.split_once('{').expect("a body");
        let (_, name) = signature.split_once("fn ").expect("a function");
        let name = name.split('(').next().expect("a name");
        found.push((name.to_owned(), body.trim_start().to_owned()));
    }
    found
}

fn sources() -> impl Iterator<Item = (String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ffi");
    std::fs::read_dir(folder).expect("src/ffi").map(|entry| {
        let path = entry.expect("an entry").path();
        (path.display().to_string(), std::fs::read_to_string(&path).expect("a source file"))
    })
}

#[test]
fn nobody_forgot_the_guard() {
    let mut guarded = 0;
    let mut bare = Vec::new();
    for (file, source) in sources() {
        for (name, body) in exported(&source) {
            let body = body.strip_prefix(MODE).map_or(body.as_str(), str::trim_start);
            if ["guard(|| ", "done(|| ", "without_arithmetic(|| "].iter().any(|guard| body.starts_with(guard))
            {
                // The guard is the whole body: nothing stands behind its closing parenthesis.
                let inner = body.split("\n}\n").next().expect("an end").trim_end();
                assert!(inner.ends_with(')'), "{file}: {name} does something outside its guard");
                guarded += 1;
            } else {
                bare.push(name);
            }
        }
    }
    bare.sort();
    let mut expected = BARE;
    expected.sort();
    assert_eq!(bare, expected, "functions whose body is not one guard");
    assert!(guarded > 20, "only {guarded} functions were found: has the way they are declared changed?");
}

#[test]
fn every_export_is_found_here_and_listed() {
    let mut here: Vec<String> =
        sources().flat_map(|(_, source)| exported(&source)).map(|(name, _)| name).collect();
    here.sort();
    let list = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("abi/symbols.txt"));
    assert_eq!(here, list.expect("abi/symbols.txt").lines().collect::<Vec<_>>());
}
