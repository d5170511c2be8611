//! No function of the C ABI lets an error or a panic past its guard.

use testkit::root;

/// Functions that cannot fail; `sched_last_error` must not change the error that it returns.
const BARE: [&str; 4] = ["sched_abi_version", "sched_last_error", "sched_status_name", "sched_version"];

/// The statement that may precede a guard, which changes the caller's floating-point mode. It
/// cannot fail.
const MODE: &str = "let mode = CallbackMode::of_this_thread();";

const GUARDS: [&str; 3] = ["guard(|| ", "guard_status(|| ", "guard_in_callers_mode(|| "];

#[test]
fn every_exported_function_is_one_guard() {
    let (mut bare, mut exported) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(root().join("src/ffi")).expect("src/ffi") {
        let path = entry.expect("an entry").path();
        let source = std::fs::read_to_string(&path).expect("a source file");
        for part in source.split("#[unsafe(no_mangle)]").skip(1) {
            let (signature, body) = part.split_once('{').expect("a body");
            let (_, name) = signature.split_once("fn ").expect("a function");
            let name = name.split('(').next().expect("a name").to_owned();
            exported.push(name.clone());
            let body = body.trim_start();
            let body = body.strip_prefix(MODE).map_or(body, str::trim_start);
            if !GUARDS.iter().any(|guard| body.starts_with(guard)) {
                bare.push(name);
                continue;
            }
            // The guard is the whole body: nothing stands behind its closing parenthesis.
            let inner = body.split("\n}\n").next().expect("an end").trim_end();
            assert!(inner.ends_with(')'), "{path:?}: {name} does something outside its guard");
        }
    }
    bare.sort();
    assert_eq!(bare, BARE, "functions whose body is not one guard");
    exported.sort();
    let listed = std::fs::read_to_string(root().join("abi/symbols.txt")).expect("abi/symbols.txt");
    assert_eq!(exported, listed.lines().collect::<Vec<_>>());
}
