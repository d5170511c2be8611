//! `include/gpusched.h` and `gpusched_legacy.h` match the sources, and any compiler accepts them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use gpusched::ffi::sched_status_name;
use testkit::c::{compiler, cpp_compiler, has};
use testkit::{Folder, assert_committed, root, skip};

/// In the order of the header.
const FILES: &str = "status log_callback scheduler_handle scheduler device run_control task_run device_memory \
    submit task range observability model_handle fd_model fd_shot fd_submit";

fn generate() -> String {
    let mut config = cbindgen::Config::from_file(root().join("cbindgen.toml")).expect("cbindgen.toml");
    let mut own = String::from("\n/** Version of the library that this header belongs to. */\n");
    for (part, number) in ["MAJOR", "MINOR", "PATCH"].into_iter().zip(env!("CARGO_PKG_VERSION").split('.')) {
        writeln!(own, "#define SCHED_VERSION_{part} {number}").expect("a string");
    }
    own.push_str(
        "\n#ifndef __cplusplus\n\
         /** Initialiser of a struct that begins with `size`: all defaults. */\n\
         #define SCHED_INIT(type) {.size = sizeof(type)}\n\
         #endif",
    );
    config.after_includes = Some(own);
    written(config, FILES)
}

fn generate_legacy() -> String {
    let mut config = cbindgen::Config::from_file(root().join("cbindgen.toml")).expect("cbindgen.toml");
    let about = "/*\n * gpusched: the entry points of the old packages, for programs that called those.\n */";
    config.header = Some(about.into());
    config.include_guard = Some("GPUSCHED_LEGACY_H".into());
    config.sys_includes = vec!["stdbool.h".into()];
    written(config, "legacy")
}

/// Returns the header of some files of `src/ffi`: negative constants in parentheses, short comments
/// on one line.
fn written(config: cbindgen::Config, files: &str) -> String {
    let files = files.split_whitespace().map(|file| root().join(format!("src/ffi/{file}.rs")));
    let builder = cbindgen::Builder::new().with_config(config);
    let builder = files.fold(builder, |builder, file| builder.with_src(file));
    let mut text = Vec::new();
    builder.generate().expect("the sources in src/ffi").write(&mut text);
    let text = String::from_utf8(text).expect("UTF-8");
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let above = lines.len().saturating_sub(2);
        match (line.trim_start(), &lines[above..]) {
            ("*/", [begin, comment]) if begin.trim_start() == "/**" => {
                let whole = format!("{begin} {} */", comment.trim_start().trim_start_matches("* "));
                lines.truncate(above);
                lines.push(whole);
            }
            _ => lines.push(match line.rsplit_once(' ') {
                Some((define, number)) if define.starts_with("#define ") && number.starts_with('-') => {
                    format!("{define} ({number})")
                }
                _ => line.into(),
            }),
        }
    }
    lines.join("\n") + "\n"
}

#[test]
fn committed_headers_are_fresh() {
    assert_committed("include/gpusched.h", &generate(), "header");
    assert_committed("include/gpusched_legacy.h", &generate_legacy(), "header");
}

fn compiles(compiler: &str, language: &str, standard: &str, source: &Path) {
    let out = Command::new(compiler)
        .args(["-fsyntax-only", "-Wall", "-Wextra", "-pedantic", "-Werror", "-D_GNU_SOURCE"])
        .arg(format!("-std={standard}"))
        .args(["-x", language, "-I"])
        .arg(root().join("include"))
        .arg(source)
        .output()
        .expect("a compiler");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{} as {standard}:\n{said}", source.display());
}

#[test]
fn header_compiles_alone_twice_and_beside_the_systems_own() {
    let folder = Folder::new();
    for (name, text) in [
        ("alone.c", "#include \"gpusched.h\"\nint nothing;\n"),
        ("legacy.c", "#include \"gpusched_legacy.h\"\nint nothing;\n"),
        ("behind.c", "#include <sched.h>\n#include <pthread.h>\n#include \"gpusched.h\"\nint nothing;\n"),
    ] {
        std::fs::write(folder.at(name), text).expect("a file");
    }
    let cpp = cpp_compiler();
    if !has(&cpp) {
        return skip(&format!("{cpp} is not installed: the header is not compiled as C++"));
    }
    for source in
        [folder.at("alone.c"), folder.at("legacy.c"), folder.at("behind.c"), root().join("ctests/c/header.c")]
    {
        for standard in ["c99", "c11", "c17"] {
            compiles(&compiler(), "c", standard, &source);
        }
        for standard in ["c++11", "c++20"] {
            compiles(&cpp, "c++", standard, &source);
        }
    }
}

/// Built programs rely on `abi/layout.txt`: sizes of structs, offsets and sizes of fields. Lines
/// may only be added.
#[test]
#[cfg(target_pointer_width = "64")]
fn layout_is_as_promised_and_without_holes() {
    let promised = std::fs::read_to_string(root().join("abi/layout.txt")).expect("abi/layout.txt");
    let mut source = String::from("#include \"gpusched.h\"\n");
    let mut promise = |what: &str, size: usize, name: &str| {
        writeln!(source, "_Static_assert({what} == {size}, \"{name}\");").expect("a string");
    };
    // For each struct: its size, and the end of the fields so far.
    let mut structs = BTreeMap::new();
    for line in promised.lines() {
        let (name, numbers) = line.split_once(' ').expect("numbers");
        let numbers: Vec<usize> = numbers.split(' ').map(|number| number.parse().expect(line)).collect();
        if let Some((of, field)) = name.split_once('.') {
            promise(&format!("offsetof({of}, {field})"), numbers[0], name);
            promise(&format!("sizeof((({of} *)0)->{field})"), numbers[1], name);
            let (_, end) = structs.get_mut(of).expect("the struct of a field");
            assert_eq!(numbers[0], *end, "a hole before {name}: its bytes would be of nobody's making");
            *end += numbers[1];
        } else {
            promise(&format!("sizeof({name})"), numbers[0], name);
            structs.insert(name, (numbers[0], 0));
        }
    }
    for (name, (size, end)) in &structs {
        assert_eq!(size, end, "a hole at the end of {name}, or a field that abi/layout.txt lacks");
    }
    let header = generate();
    let declared: Vec<&str> =
        header.lines().filter_map(|line| line.strip_prefix("typedef struct ")?.strip_suffix(" {")).collect();
    let is_listed = declared.iter().all(|name| structs.contains_key(name));
    assert!(is_listed, "abi/layout.txt lacks one of {declared:?}");
    let folder = Folder::new();
    std::fs::write(folder.at("layout.c"), source).expect("a file");
    compiles(&compiler(), "c", "c11", &folder.at("layout.c"));
}

/// Returns the comment of each function in a header.
fn comments(header: &str) -> BTreeMap<&str, &str> {
    let mut comments = BTreeMap::new();
    for part in header.split("/**").skip(1) {
        let (comment, code) = part.split_once("*/").expect("the end of a comment");
        let name = code.split_once('(').and_then(|(before, _)| before.rsplit([' ', '*']).next());
        if let Some(name) = name.filter(|name| name.starts_with("sched_") && !code.contains("typedef")) {
            comments.insert(name, comment);
        }
    }
    comments
}

/// Returns true if the comment of a function states a status, itself or by `as` another function.
fn is_listed(comments: &BTreeMap<&str, &str>, function: &str, status: &str) -> bool {
    let comment = comments[function].replace("as in ", "as ");
    let words = comment.split([' ', '\n', '.', ',', ';', '(', ')']).filter(|word| !["", "*"].contains(word));
    let words: Vec<&str> = words.collect();
    words.contains(&status)
        || words.windows(2).any(|pair| {
            pair[0] == "as" && comments.contains_key(pair[1]) && is_listed(comments, pair[1], status)
        })
}

/// Returns the status that a statement of a test program expects of a call, and the called function.
fn expected<'a>(statement: &'a str, comments: &BTreeMap<&str, &str>) -> Option<(&'a str, &'a str)> {
    let after = |begin| statement.split_once(begin).map(|(_, rest)| rest);
    let row = || after("ROW(\"")?.split_once("\", E_").map(|(_, rest)| rest);
    let status = match after("EXPECT(SCHED_E_").or_else(row) {
        Some(rest) => rest.split(',').next()?,
        None => after("BAD(\"").map(|_| "ARGUMENT")?,
    };
    let calls = statement
        .match_indices("sched_")
        .map(|(at, _)| statement[at..].split_once('(').map(|(name, _)| name));
    let function = calls.flatten().filter(|name| comments.contains_key(name)).last()?;
    Some((status, function))
}

/// `EXPECT(STATUS, call)`, `ROW(name, STATUS, part, call)` and `BAD(name, part, call)`, an argument.
#[test]
fn each_error_that_a_test_program_expects_is_listed_at_its_function() {
    let header = generate();
    let comments = comments(&header);
    let mut seen = 0;
    for file in std::fs::read_dir(root().join("ctests/c")).expect("ctests/c") {
        let text = std::fs::read_to_string(file.expect("a file").path()).expect("UTF-8");
        for (status, function) in text.split(';').filter_map(|statement| expected(statement, &comments)) {
            // The first is in the head of the header; sched_wait returns any failure of a task.
            if status == "FORKED" || function == "sched_wait" {
                continue;
            }
            let status = format!("SCHED_E_{status}");
            assert!(is_listed(&comments, function, &status), "the header lacks {status} at {function}");
            seen += 1;
        }
    }
    assert!(seen >= 60, "only {seen} calls");
}

fn statuses(header: &str) -> Vec<(String, i32)> {
    let defines = header.lines().filter_map(|line| line.strip_prefix("#define "));
    let pairs = defines.filter_map(|define| define.split_once(' '));
    pairs
        .filter(|(name, _)| {
            name.starts_with("SCHED_E_") || ["SCHED_OK", "SCHED_PENDING", "SCHED_CANCELLED"].contains(name)
        })
        .map(|(name, number)| (name.to_owned(), number.trim_matches(['(', ')']).parse().expect("a number")))
        .collect()
}

#[test]
fn every_status_has_its_name_and_every_name_its_status() {
    let name_of = |status| {
        // SAFETY: the function returns a static text that ends with NUL.
        unsafe { std::ffi::CStr::from_ptr(sched_status_name(status)) }.to_str().expect("UTF-8")
    };
    let statuses = statuses(&generate());
    for (name, number) in &statuses {
        assert_eq!(name_of(*number), name);
    }
    let named = (-800_000..800_000).filter(|&number| name_of(number) != "unknown status").count();
    assert_eq!(named, statuses.len(), "a status without a #define, or the other way round");
    assert_eq!(name_of(i32::MIN), "unknown status");
}
