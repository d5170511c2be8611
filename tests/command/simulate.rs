//! `simulate`: the agreed names, the refusals, the exit status.

use std::fs;

use serde_json::Value;

use testkit::command::{Ended, Workspace};

const SCENARIO: &str = r#"{"seed":1,"devices":[{"name":"1080Ti","speed":2.2,"prior":2.0,"memory_bytes":11e9,"slots":1,
"fail_at_s":null},{"name":"780Ti","speed":1,"memory_bytes":3e9}],
"tasks":[{"work":60.0,"hint":55.0,"device_bytes":1e9},{"work":44.0,"hint":null,"device_bytes":4000000000},{"work":10.5}]}"#;

fn simulate(text: &str, more: &[&str]) -> Ended {
    let folder = Workspace::new();
    fs::write(folder.at("world.json"), text).unwrap();
    folder.gpusched(&[&["simulate", "world.json"], more].concat())
}

fn line(ended: &Ended) -> Value {
    let events = ended.events();
    assert_eq!(events.len(), 1, "{ended:?}");
    events[0].clone()
}

#[test]
fn one_line_with_the_agreed_names() {
    let ended = simulate(SCENARIO, &["--json"]);
    assert_eq!((ended.status, ended.err.as_str()), (0, ""));
    let agreed = r#"{"makespan_s":"#;
    assert!(ended.out.starts_with(agreed), "{ended:?}");
    let line = line(&ended);
    let bound = 114.5 / 3.2;
    assert!((line["lower_bound_s"].as_f64().unwrap() - bound).abs() < 1e-9, "{line}");
    let makespan = line["makespan_s"].as_f64().unwrap();
    assert!((line["ratio"].as_f64().unwrap() - makespan / bound).abs() < 1e-9, "{line}");
    assert_eq!([&line["finished"], &line["failed"], &line["retried"]], [3, 0, 0]);
    let devices = line["per_device"].as_array().unwrap();
    assert_eq!([&devices[0]["name"], &devices[1]["name"]], ["1080Ti", "780Ti"]);
    let tasks: u64 = devices.iter().map(|device| device["tasks"].as_u64().unwrap()).sum();
    assert_eq!(tasks, 3);
    let busy = |at: usize| devices[at]["busy_s"].as_f64().unwrap();
    assert!(busy(0) * 2.2 + busy(1) > 114.5 - 1e-6, "all of it was done, some of it perhaps twice: {line}");
    assert_eq!(ended.out, simulate(SCENARIO, &["--json"]).out, "the same scenario, the same run");
}

#[test]
fn simulate_prints_a_table_by_default() {
    let ended = simulate(SCENARIO, &[]);
    assert_eq!(ended.status, 0, "{ended:?}");
    for part in ["3 of 3 tasks finished", "at least 35.8 s", "1080Ti", "780Ti"] {
        assert!(ended.out.contains(part), "{part}: {ended:?}");
    }
}

#[test]
fn status_is_0_only_if_every_task_finished() {
    let too_large = SCENARIO.replace("4000000000", "40e9");
    let ended = simulate(&too_large, &["--json"]);
    assert_eq!(ended.status, 1, "{ended:?}");
    let told = line(&ended);
    assert_eq!([&told["finished"], &told["failed"]], [2, 1]);
    let why = told["errors"][0]["error"].as_str().unwrap();
    assert!(why.contains("37.25 GiB") && why.contains("10.24 GiB"), "{why}");
    assert!(why.contains("sim:0 (1080Ti)"), "{why}");

    let lost = SCENARIO.replace(r#""fail_at_s":null"#, r#""fail_at_s":5.0"#);
    let ended = simulate(&lost, &["--json"]);
    let told = line(&ended);
    assert_eq!([&told["finished"], &told["failed"]], [2, 1], "{told}");
    assert!((told["lower_bound_s"].as_f64().unwrap() - (114.5 - 11.0)).abs() < 1e-9, "{told}");
    assert_eq!((ended.status, &told["per_device"][0]["tasks"]), (1, &Value::from(0)), "{told}");
}

#[test]
fn missing_keys_of_a_scenario_have_defaults() {
    let ended = simulate(r#"{"devices":[{"speed":2}],"tasks":[{"work":3}, {"work":5e0}]}"#, &["--json"]);
    assert_eq!(ended.status, 0, "{ended:?}");
    let line = line(&ended);
    assert_eq!([&line["makespan_s"], &line["lower_bound_s"], &line["ratio"]], [4.0, 4.0, 1.0]);
    assert_eq!(line["per_device"][0]["name"], "device 0");
}

#[test]
fn faults_are_simulated() {
    let text = r#"{"devices":[
        {"speed":1,"slots":2,"faults":[{"at_s":1,"kind":"slow","factor":0.5},{"at_s":2,"kind":"out_of_memory","seconds":3}]},
        {"speed":1,"faults":[{"at_s":3,"kind":"poisoned"}]}],
        "tasks":[{"work":4,"devices":[1]},{"work":4,"after":[0],"retries":2,"failures":1,"priority":-3},
        {"work":2,"submit_at_s":1.5,"cancel_at_s":1.75,"idempotent":false,"deadline_s":100}]}"#;
    let ended = simulate(text, &["--json"]);
    let line = line(&ended);
    assert_eq!([&line["finished"], &line["failed"], &line["cancelled"]], [2, 0, 1], "{line}");
    assert_eq!(ended.status, 1, "a cancelled task has not finished");
}

#[test]
fn every_sentence_names_a_device_alike() {
    let faults = [
        r#""fail_at_s":1"#,
        r#""faults":[{"at_s":0,"kind":"out_of_memory","seconds":1e6}]"#,
        r#""faults":[{"at_s":1,"kind":"poisoned"},{"at_s":2,"kind":"poisoned"},{"at_s":3,"kind":"poisoned"}]"#,
        r#""memory_bytes":5"#,
    ];
    for fault in faults {
        let text = format!(
            r#"{{"devices":[{{"speed":1,{fault}}}],
            "tasks":[{{"work":4,"device_bytes":9,"idempotent":false}},{{"work":4}}]}}"#
        );
        let line = line(&simulate(&text, &["--json"]));
        let why = line["errors"][0]["error"].as_str().unwrap_or_else(|| panic!("{fault}: {line}"));
        assert!(why.contains("sim:0") && !why.contains("cpu"), "{fault}: {why}");
    }
}

#[test]
fn a_trace_has_the_schedule_in_virtual_time() {
    let folder = Workspace::new();
    let text = r#"{"devices":[{"name":"a","speed":2,"slots":2},{"speed":1,"faults":[{"at_s":3,"kind":"poisoned"}]}],
        "tasks":[{"work":8},{"work":8,"failures":1,"retries":1},{"work":6},{"work":4},{"work":2},{"work":2}]}"#;
    fs::write(folder.at("world.json"), text).unwrap();
    let traced = folder.gpusched(&["simulate", "world.json", "--json", "--trace", "trace.json"]);
    assert_eq!(traced.status, 0, "{traced:?}");
    let alone = folder.gpusched(&["simulate", "world.json", "--json"]);
    assert_eq!(traced.out, alone.out, "a trace changes nothing");
    let line = line(&traced);

    let trace = folder.json("trace.json");
    let events = trace["traceEvents"].as_array().unwrap();
    let kind = |ph: &'static str| events.iter().filter(move |event| event["ph"] == ph);
    let ended = |how: &'static str| {
        kind("X").filter(move |bar| bar["args"]["ended"] == how).map(|bar| bar["name"].clone())
    };
    let mut done: Vec<Value> = ended("done").collect();
    done.sort_by_key(Value::to_string);
    assert_eq!(done, ["0", "1", "2", "3", "4", "5"], "each task once, named by its position");
    assert!(ended("retried").any(|name| name == "1"));
    let names: Vec<&Value> = kind("M").filter(|event| event["name"] == "process_name").collect();
    assert_eq!([&names[0]["args"]["name"], &names[1]["args"]["name"]], ["sim:0 a", "sim:1 device 1"]);

    let ends = kind("X").map(|bar| bar["ts"].as_f64().unwrap() + bar["dur"].as_f64().unwrap());
    let last = ends.fold(0.0, f64::max);
    // Times in the file are whole nanoseconds.
    assert!((last - 1e6 * line["makespan_s"].as_f64().unwrap()).abs() < 2e-3, "{last}: {line}");
    assert!(kind("i").any(|flag| flag["name"].as_str().unwrap().contains("sim:1")), "no poisoned context");

    for (place, words) in [("no/such/trace.json", "trace.json"), ("./world.json", "overwrite")] {
        let refused = folder.gpusched(&["simulate", "world.json", "--trace", place]);
        assert_eq!((refused.status, refused.out.as_str()), (2, ""), "{refused:?}");
        assert!(refused.err.contains(words), "{refused:?}");
    }
}

/// A change of the scenario, and the required message.
#[rustfmt::skip]
const REFUSED: &[(&str, &str, &[&str])] = &[
    ("{\"seed\"", "[\"seed\"", &["world.json: the text is not JSON", "one JSON object"]),
    ("\"seed\":1,", "\"sead\":1,", &["world.json: key sead is unknown", "`seed`, `devices`, `tasks`"]),
    ("\"speed\":2.2,", "", &["devices[0].speed is missing", "a positive, finite number"]),
    ("\"speed\":2.2", "\"speed\":0", &["devices[0].speed is 0", "a positive, finite number"]),
    ("\"speed\":2.2", "\"speed\":NaN", &["world.json: the text is not JSON", "at line 1 column"]),
    ("\"speed\":2.2", "\"speed\":\"fast\"", &["devices[0].speed is \"fast\"", "a positive, finite number"]),
    ("\"memory_bytes\":11e9", "\"memory_bytes\":-1", &["devices[0].memory_bytes is -1", "a whole number"]),
    ("\"memory_bytes\":11e9", "\"memory_bytes\":1e30", &["devices[0].memory_bytes is 1e+30", "a whole number"]),
    ("\"slots\":1", "\"slots\":0", &["devices[0].slots is 0", "1 to 64"]),
    ("\"fail_at_s\":null", "\"fail_at_s\":-2", &["devices[0].fail_at_s is -2", "seconds, 0 or more"]),
    ("\"fail_at_s\":null", "\"faults\":[{\"at_s\":1}]", &["devices[0].faults[0].kind is missing", "\"hang\""]),
    ("\"fail_at_s\":null", "\"faults\":[{\"at_s\":1,\"kind\":\"slow\"}]", &["devices[0].faults[0].factor is missing"]),
    ("\"name\":\"780Ti\"", "\"name\":780", &["devices[1].name is 780", "a text"]),
    ("\"work\":60.0,", "", &["tasks[0].work is missing", "positive"]),
    ("\"work\":60.0", "\"work\":1e300", &["all work over the slowest device's speed is 1e300 s", "at most 1e12 s"]),
    ("{\"work\":10.5}", "{\"work\":1e9,\"failures\":4000,\"retries\":4000}", &["all work over the slowest device's speed is"]),
    ("{\"work\":10.5}", "{\"work\":10.5,\"after\":[2]}", &["tasks[2].after is [2]", "positions of tasks before this one"]),
    ("{\"work\":10.5}", "{\"work\":10.5,\"devices\":[2]}", &["tasks[2].devices is [2]", "0 to 1"]),
    ("{\"work\":10.5}", "{\"work\":10.5,\"priority\":0.5}", &["tasks[2].priority is 0.5", "-2147483648"]),
    ("{\"work\":10.5}", "{\"work\":10.5,\"idempotent\":1}", &["tasks[2].idempotent is 1", "true or false"]),
    ("{\"work\":10.5}", "7", &["tasks[2] is 7", "an object with `work`"]),
];

#[test]
fn a_scenario_with_a_mistake_is_refused() {
    for (old, new, said) in REFUSED {
        assert!(SCENARIO.contains(old), "{old} is not in the scenario");
        let refused = simulate(&SCENARIO.replacen(old, new, 1), &["--json"]);
        let events = refused.events();
        let [event] = events.as_slice() else { panic!("{new}: {refused:?}") };
        let object = serde_json::json!({ "event": "error", "error": event["error"] });
        assert_eq!((refused.status, event), (2, &object), "{new}: {refused:?}");
        let error = format!("gpusched: {}\n", event["error"].as_str().unwrap());
        assert_eq!(refused.err, error, "{new}: {refused:?}");
        for part in *said {
            assert!(refused.err.contains(part), "{new}: '{part}' is missing in: {}", refused.err);
        }
        assert!(refused.err.contains("world.json"), "{new}: {}", refused.err);
    }
}

#[test]
fn no_devices_no_tasks_and_other_bytes_than_text_are_refused() {
    let devices = r#"{"speed":1},"#.repeat(64);
    for (text, said) in [
        (r#"{"devices":[],"tasks":[{"work":1}]}"#, "devices is []; accepted: at least one device"),
        (r#"{"devices":[{"speed":1}]}"#, "tasks is missing; accepted: at least one task"),
        (&format!(r#"{{"devices":[{devices}{{}}]}}"#), "devices is a list of 65; accepted: at most 64"),
        ("{\0}", "world.json: byte 1 is 0x00; accepted: UTF-8 text"),
    ] {
        let refused = simulate(text, &["--json"]);
        assert!(refused.status == 2 && refused.err.contains(said), "{refused:?}");
    }
}
