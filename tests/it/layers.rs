//! Files import downwards and form no circle, `unsafe` stays where it belongs, and one module opens
//! files.

use testkit::{names_below, root};

use crate::imports::{Files, circle, imports};

const UNSAFE: &str = "fork.rs node/linux/sys.rs backend/cpu backend/cuda backend/callback_mode.rs \
    backend/float_mode.rs backend/thread.rs fd/bench.rs fd/centred fd/equation fd/one_pass fd/record.rs fd/tiled \
    fd/time_loop/cpu.rs fd/vector io/space.rs ffi";

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

/// A row of a table in comments names a folder or file, which imports from rows above it only.
#[test]
fn files_import_downwards_and_form_no_circle() {
    let files = all();
    let imports = imports(&files);
    assert_eq!(circle(imports.clone()), [""; 0], "each of these files of src imports from the next");
    for (folder, table) in [("", "lib.rs"), ("sched/", "sched/mod.rs"), ("fd/", "fd/mod.rs")] {
        let rows = files[table].lines().filter_map(|line| line.strip_prefix("//! | ")?.split('`').nth(1));
        let order: Vec<_> = rows.map(|row| row.trim_end_matches('/')).collect();
        let height = |file: &str| {
            let entry = file.strip_prefix(folder)?.split(['/', '.']).next();
            let height = order.iter().position(|row| Some(*row) == entry);
            Some(height.unwrap_or_else(|| panic!("src/{file} has no row in the table of src/{table}")))
        };
        for (file, used) in imports.iter().filter(|(file, _)| *file != table && !file.starts_with("bin/")) {
            let is_upward = |used: &&String| height(file).is_some_and(|own| height(used) > Some(own));
            assert_eq!(used.iter().find(is_upward), None, "src/{file} must not import from there");
        }
        let is_stale = |row: &&&str| !imports.keys().any(|file| file.starts_with(&format!("{folder}{row}")));
        assert_eq!(order.iter().find(is_stale), None, "no such file or folder for the table of src/{table}");
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
