//! Files import downwards and form no circle, equations are named in few files, `unsafe` stays where
//! it belongs, and one module opens files.

use std::collections::BTreeSet;

use testkit::{names_below, root};

use crate::imports::{Files, circle, imports};

const UNSAFE: &str = "fork.rs write_signals.rs node/linux/sys.rs backend/cpu backend/cuda backend/callback_mode.rs \
    backend/float_mode.rs backend/thread.rs fd/centred fd/equation fd/one_pass fd/record.rs fd/tiled \
    fd/time_loop/cpu.rs fd/vector io/owner.rs io/space.rs ffi";

/// Calls that open a descriptor. `sys.rs` passes its descriptors through `src/descriptor.rs`.
const OPENS: &str = "File::open File::create fs::read( fs::read_to_string( fs::write( fs::copy( try_clone( \
    try_clone_to_owned( Command::new( UnixStream:: UnixListener:: UnixDatagram:: TcpStream:: TcpListener:: \
    UdpSocket:: io::pipe( libc::open libc::creat libc::fopen libc::dup libc::pipe libc::socket libc::eventfd \
    libc::inotify_init libc::memfd_create";

fn all() -> Files {
    let src = root().join("src");
    let names = names_below(&src).into_iter().filter(|name| name.ends_with(".rs"));
    names.map(|name| (name.clone(), std::fs::read_to_string(src.join(name)).expect("UTF-8"))).collect()
}

fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

/// Tables in comments, by folder. A row names files or folders, which import from its own row and from
/// those above it only.
const TABLES: [(&str, &str); 9] = [
    ("", "lib.rs"),
    ("sched/", "sched/mod.rs"),
    ("fd/", "fd/mod.rs"),
    ("store/", "store/mod.rs"),
    ("node/", "node/mod.rs"),
    ("node/linux/", "node/linux/mod.rs"),
    ("backend/", "backend/mod.rs"),
    ("backend/cuda/", "backend/cuda/mod.rs"),
    ("bin/gpusched/", "bin/gpusched/main.rs"),
];

#[test]
fn files_import_downwards_and_form_no_circle() {
    let files = all();
    let imports = imports(&files);
    assert_eq!(circle(imports.clone()), [""; 0], "each of these files of src imports from the next");
    for (folder, table) in TABLES {
        let first_cell = |line: &str| Some(line.strip_prefix("//! | ")?.split(" | ").next()?.to_owned());
        let rows: Vec<_> =
            files[table].lines().filter_map(first_cell).filter(|row| row.contains('`')).collect();
        let names_of = |row: &String| -> Vec<String> {
            let names = row.split('`').skip(1).step_by(2);
            names.map(|name| name.trim_end_matches('/').trim_end_matches(".rs").to_owned()).collect()
        };
        let order: Vec<_> = rows.iter().map(names_of).collect();
        let height = |file: &str| {
            let entry = file.strip_prefix(folder)?.split(['/', '.']).next()?.to_owned();
            let height = order.iter().position(|row| row.contains(&entry));
            Some(height.unwrap_or_else(|| panic!("src/{file} has no row in the table of src/{table}")))
        };
        let is_below = |file: &&String| {
            file.starts_with(folder) && *file != table && (!folder.is_empty() || !file.starts_with("bin/"))
        };
        for (file, used) in imports.iter().filter(|(file, _)| is_below(file)) {
            let is_upward = |used: &&String| *used != table && height(used) > height(file);
            assert_eq!(used.iter().find(is_upward), None, "src/{file} must not import from there");
        }
        let is_stale =
            |row: &&String| !imports.keys().any(|file| file.starts_with(&format!("{folder}{row}")));
        let stale = order.iter().flatten().find(is_stale);
        assert_eq!(stale, None, "no such file or folder for the table of src/{table}");
    }
}

/// An equation is added with its folder and a row of the list in `fd/equation/mod.rs`.
#[test]
fn nothing_but_the_list_imports_an_equation() {
    let is_of_one = |used: &&String| used.starts_with("fd/equation/") && used.matches('/').count() > 2;
    for (file, used) in imports(&all()).iter().filter(|(file, _)| !file.starts_with("fd/equation/")) {
        assert_eq!(used.iter().find(is_of_one), None, "src/{file} must reach it through EQUATIONS");
    }
}

/// Returns the files outside the folder and the kernels of an equation that name it, apart from unit
/// tests and comments.
fn files_that_name(equation: &str, kernels: &[&str]) -> BTreeSet<String> {
    let below = |folder: &'static str| {
        names_below(&root().join(folder)).into_iter().map(move |name| format!("{folder}/{name}"))
    };
    let own = [format!("src/fd/equation/{equation}"), format!("src/legacy/{equation}.rs")];
    let is_own = |name: &str| {
        own.iter().map(String::as_str).chain(kernels.iter().copied()).any(|own| name.starts_with(own))
    };
    let mark = |name: &str| match name.rsplit_once('.')?.1 {
        "rs" | "cu" | "cuh" | "hpp" => Some("//"),
        "f90" | "inc" => Some("!"),
        "py" => Some("#"),
        "h" => Some(" *"),
        _ => None,
    };
    let names_it = |name: &String| {
        let Some(mark) = mark(name) else { return false };
        let text = std::fs::read_to_string(root().join(name)).expect("UTF-8");
        let product = text.lines().take_while(|line| *line != "mod tests {");
        let code = product.map(|line| line.split(mark).next().unwrap_or_default());
        let mut words = code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric()));
        words.any(|word| word.eq_ignore_ascii_case(equation))
    };
    let all =
        ["src", "kernels", "bindings", "include"].into_iter().flat_map(below).chain(["build.rs".into()]);
    all.filter(|name| !is_own(name) && names_it(name)).collect()
}

/// The page for those who add an equation lists every file that they have to change.
#[test]
fn only_the_listed_files_name_an_equation() {
    let page = std::fs::read_to_string(root().join("docs/architecture.md")).expect("UTF-8");
    let (_, section) = page.split_once("### Places of an equation\n").expect("the section");
    let rows = section.split("\n## ").next().into_iter().flat_map(str::lines);
    let cells = rows.filter_map(|line| line.strip_suffix(" |")?.rsplit_once(" | "));
    let files = cells.flat_map(|(_, files)| files.split('`').skip(1).step_by(2));
    let listed: BTreeSet<_> =
        files.filter(|file| !file.contains("NAME") && !file.starts_with("tests/")).collect();

    let kernels: [(&str, &[&str]); 3] = [
        ("acoustic2", &["kernels/acoustic2"]),
        ("vti", &["kernels/vti"]),
        ("tti", &["kernels/tti", "kernels/tilted"]),
    ];
    let mut found = BTreeSet::new();
    for (equation, kernels) in kernels {
        for file in files_that_name(equation, kernels) {
            let row = listed.iter().find(|row| file == **row || file.ends_with(&format!("/{row}")));
            found.insert(
                *row.unwrap_or_else(|| {
                    panic!("{file} names {equation}; docs/architecture.md does not list it")
                }),
            );
        }
    }
    assert_eq!(found, listed, "files that docs/architecture.md lists, and those that name an equation");
    // The toy equation runs without an entry anywhere but its module's.
    assert_eq!(Vec::from_iter(files_that_name("advection", &[])), ["src/fd/equation/mod.rs"]);
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
            // A command that replaces the process opens nothing.
            let mut found = opens().filter(|_| !line.contains(".exec()"));
            let Some(call) = found.find(|call| line.contains(call)) else { continue };
            let is_allowed = ["descriptor.rs", "node/linux/sys.rs"].contains(&file.as_str());
            assert!(is_allowed, "src/{file}:{number} calls {call}; accepted: those of src/descriptor.rs");
            opened += 1;
        }
    }
    assert!(opened >= 5, "only {opened} calls that open files were found");
}
