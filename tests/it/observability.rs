//! Progress, a trace and the log, asked for from C.

use testkit::c;
use testkit::process::isolated;

#[test]
fn progress_is_told_to_c_and_a_trace_is_written() {
    let program = c::program("observability");
    let trace = program.with_file_name("trace.json");
    // Cargo's own value has the folder of the last `cargo build` in front.
    let out = isolated(&program).arg(&trace).env("LD_LIBRARY_PATH", testkit::built()).output();
    let out = out.expect("the program");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let trace: serde_json::Value =
        serde_json::from_slice(&std::fs::read(trace).expect("a trace")).expect("JSON");
    let bars = trace["traceEvents"].as_array().expect("events").iter();
    let bars: Vec<_> = bars.filter(|event| event["ph"] == "X").collect();
    assert_eq!(bars.len(), 3);
    assert!(bars.iter().all(|bar| bar["name"] == "a \"task\"" && bar["args"]["work"] == 2.5));
}

/// One line for the first shot with a step that is not sure to be stable, with the largest that is.
#[test]
fn the_log_warns_of_a_step_that_jumps_of_density_make_unsure() {
    let said = c::run_plain(&c::program("density_contrast"), &[]);
    let mut told = Vec::new();
    let mut numbers = Vec::new();
    for line in said.lines() {
        let Some((start, rest)) = line.split_once("only up to ") else {
            let mut words = line.split(' ');
            told.push((words.next().unwrap(), 0));
            numbers = words.map(|word| word.parse::<f64>().unwrap()).collect();
            continue;
        };
        assert!(start.starts_with("2 ") && start.ends_with(": density jumps from cell to cell: "), "{line}");
        let (name, lines) = told.last_mut().unwrap();
        *lines += 1;
        let [most, dt] = numbers[..] else { panic!("{said}") };
        // Half of the derivative along z meets a density a third as large.
        let courant = if *name == "optimised" { 0.9634 } else { 1.0 };
        let sure: f64 = rest.split(' ').next().unwrap().parse().unwrap();
        assert!((sure / (courant * most * 0.75_f64.sqrt()) - 1.0).abs() < 1e-4, "{said}");
        let (_, rest) = rest.split_once(" s is a step sure to be stable, and dt_s is ").unwrap();
        let (found, rest) = rest.split_once(' ').unwrap();
        assert!((found.parse::<f64>().unwrap() / dt - 1.0).abs() < 1e-6, "{said}");
        assert_eq!(rest, "s; a shot that blows up fails");
    }
    assert_eq!(told, [("even", 0), ("sure", 0), ("unsure", 1), ("again", 0), ("optimised", 1)], "{said}");
}
