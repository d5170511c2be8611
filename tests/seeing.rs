//! Progress and a trace, asked for from C.

#[path = "support/c.rs"]
mod c;

use std::process::Command;

#[test]
fn progress_is_told_to_c_and_a_trace_is_written() {
    let program = c::program("seeing");
    let trace = program.with_file_name("trace.json");
    // Cargo's own value has the folder of the last `cargo build` in front.
    let out = Command::new(&program).arg(&trace).env("LD_LIBRARY_PATH", c::built()).output();
    let out = out.expect("the program");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let trace: serde_json::Value =
        serde_json::from_slice(&std::fs::read(trace).expect("a trace")).expect("JSON");
    let bars = trace["traceEvents"].as_array().expect("events").iter();
    let bars: Vec<_> = bars.filter(|event| event["ph"] == "X").collect();
    assert_eq!(bars.len(), 3);
    assert!(bars.iter().all(|bar| bar["name"] == "a \"task\"" && bar["args"]["work"] == 2.5));
}
