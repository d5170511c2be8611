//! Wrong calls of the C API: each gets its status and a message, and none changes its outputs.

use testkit::{assert_committed, c};

/// Masks parts that differ between runs and machines: numbers become "N", and parts in brackets are
/// removed.
fn masked(message: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    let mut brackets = 0;
    for letter in message.chars() {
        brackets += i32::from(letter == '(');
        let digit = letter.is_ascii_digit() || (inside && (letter.is_ascii_hexdigit() || letter == 'x'));
        if brackets == 0 && !(digit && inside) {
            out.push(if digit { 'N' } else { letter });
        }
        inside = digit;
        brackets -= i32::from(letter == ')');
    }
    let sizes = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].map(|unit| format!("N.N {unit}"));
    sizes
        .iter()
        .fold(out, |out, size| out.replace(size, "N"))
        .replace("  ", " ")
        .replace(" :", ":")
        .trim_end()
        .to_owned()
}

fn table(said: &str) -> (String, usize) {
    let mut text = String::from(
        "# Errors of the C API\n\nThis page is for callers of the C API. It lists wrong calls, the status that each \
         returns, and the\nmessage of `sched_last_error()`. N stands for a number that depends on the machine or the \
         run. Calls\nthat are accepted are not listed.\n\nGenerated from `ctests/c/bad_calls.c` by \
         `UPDATE=1 cargo test --test it bad_calls`.\n",
    );
    let mut rows = 0;
    for line in said.lines() {
        if let Some(section) = line.strip_prefix("# ") {
            text += &format!("\n## {section}\n\n| call | status | message |\n|---|---|---|\n");
            continue;
        }
        let [call, status, message] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("not a row: {line}");
        };
        if !status.starts_with("SCHED_E_") {
            continue;
        }
        let message = message.strip_prefix('~').map_or(message.to_owned(), masked);
        text += &format!("| {call} | {status} | {} |\n", message.replace('|', "\\|"));
        rows += 1;
    }
    (text, rows)
}

#[test]
fn every_wrong_call_returns_its_status_and_changes_no_output() {
    let (fresh, rows) = table(&c::run(&c::program("bad_calls")));
    assert!(rows >= 60, "only {rows} bad calls");
    assert_committed("docs/errors.md", &fresh, "bad_calls");
}
