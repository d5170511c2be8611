//! `devices`, `init`, `bench` and `--help`.

use std::fs;

use gpusched::fd::equation::EQUATIONS;
use gpusched::fd::model::Property;
use testkit::command::Workspace;

#[test]
fn devices_are_listed_for_people_and_programs() {
    let folder = Workspace::new();
    let plain = folder.gpusched(&["devices"]);
    assert_eq!(plain.status, 0, "{plain:?}");
    assert!(plain.out.contains("cpu:0"), "{plain:?}");

    let events = folder.gpusched(&["devices", "--json"]).events();
    let cpu = &events[0]["devices"][0];
    assert_eq!(cpu["device"], "cpu:0");
    assert!(cpu["total_bytes"].as_u64().unwrap() >= cpu["free_bytes"].as_u64().unwrap());
}

#[test]
fn survey_of_init_is_valid_and_not_overwritten() {
    let folder = Workspace::new();
    assert_eq!(folder.gpusched(&["init"]).status, 0);
    let checked = folder.gpusched(&["run", "survey.toml", "--dry-run"]);
    assert_eq!((checked.status, checked.err.as_str()), (0, ""));
    // Each commented key is accepted, too: one at a time, since some exclude each other.
    let written = fs::read_to_string(folder.at("survey.toml")).unwrap();
    for table in "equation [accuracy] [mute] [run] record_every shape clip_percentile any_values".split(' ') {
        let begin = written.find(&format!("# {table}")).expect(table);
        let (before, after) = written.split_at(begin);
        let (block, rest) = after.split_once("\n\n").unwrap_or((after, ""));
        let block: Vec<_> = block.lines().map(|line| line.strip_prefix("# ").unwrap_or(line)).collect();
        fs::write(folder.at("other.toml"), format!("{before}{}\n\n{rest}", block.join("\n"))).unwrap();
        let checked = folder.gpusched(&["run", "other.toml", "--dry-run"]);
        assert_eq!(checked.status, 0, "{table}: {checked:?}");
    }
    fs::write(folder.at("survey.toml"), "mine").unwrap();
    let refused = folder.gpusched(&["init", "survey.toml"]);
    assert!(refused.status == 2 && refused.err.contains("survey.toml: the file exists"), "{refused:?}");
    assert_eq!(fs::read_to_string(folder.at("survey.toml")).unwrap(), "mine");
    let refused = folder.gpusched(&["init", "line1/survey.toml"]);
    assert!(
        refused.status == 2 && refused.err.contains("its folder does not exist; create it"),
        "{refused:?}"
    );
    let dashed = folder.gpusched(&["init", "--", "-x"]).out;
    assert!(dashed.ends_with("gpusched run ./-x\n"), "{dashed}");
}

#[test]
fn survey_of_init_has_every_key_of_the_page() {
    let folder = Workspace::new();
    assert_eq!(folder.gpusched(&["init"]).status, 0);
    let written = fs::read_to_string(folder.at("survey.toml")).unwrap();
    let is_written =
        |key: &str| written.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == key);
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/survey.md")).unwrap();
    let (keys, _) = page.split_once("\n## Output files").unwrap();
    let rows = keys.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" |"));
    let named =
        rows.flat_map(|(cell, _)| cell.split('`').skip(1).step_by(2)).filter(|key| !key.contains('"'));
    let (there, missing): (Vec<_>, Vec<_>) = named.partition(|key| is_written(key));
    assert_eq!(missing, [""; 0]);
    assert!(there.len() > 40, "{there:?}");
}

#[test]
fn page_has_the_properties_of_each_equation() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/survey.md")).unwrap();
    for equation in EQUATIONS {
        let properties = equation.properties();
        let state = |property: &Property| {
            let default = properties.optional.iter().find(|(optional, _)| optional == property);
            match default {
                _ if properties.required.contains(property) => "required".to_owned(),
                Some((_, default)) => format!("optional, {default}"),
                None => "refused".to_owned(),
            }
        };
        let states: Vec<_> = Property::ALL.iter().map(state).collect();
        let row = format!("| `\"{}\"` | {} |", equation.name(), states.join(" | "));
        assert!(page.contains(&row), "{row}");
    }
}

#[test]
fn lost_help_is_an_error() {
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let ended = Workspace::new().command(&["--help"]).stdout(full).output().unwrap();
    assert!(ended.status.code() == Some(1) && ended.stderr.starts_with(b"gpusched: standard output "));
}

#[test]
fn help_of_each_command_states_the_exit_status() {
    for command in ["", "devices", "init", "run", "simulate", "bench fd"] {
        let args: Vec<_> = command.split_whitespace().chain(["--help"]).collect();
        let help = Workspace::new().gpusched(&args).out;
        assert!(help.contains("\nExit status:") && !help.contains("docs/"), "{command}: {help}");
    }
}

/// Other programs parse these names.
#[test]
fn the_benchmark_prints_one_line_with_the_agreed_names() {
    let args = "bench fd --equation acoustic1 --n 20 18 16 --nt 3 --threads 1 --repeats 1 --json";
    let args: Vec<_> = args.split(' ').collect();
    let ended = Workspace::new().gpusched(&args);
    assert_eq!(ended.status, 0, "{ended:?}");
    let events = ended.events();
    assert_eq!(events.len(), 1, "{ended:?}");
    let line = &events[0];
    assert_eq!(line["n"], serde_json::json!([20, 18, 16]));
    assert_eq!((&line["device"], &line["pml"], &line["nt"]), (&"cpu:0".into(), &20.into(), &3.into()));
    let names = "seconds mcells_per_s interior_mcells_per_s rate_to_silent covered_mcells_per_s computed bytes_per_cell_resident copy_gb_per_s";
    for name in names.split(' ') {
        assert!(line[name].as_f64().is_some_and(|value| value > 0.0), "{name} in {line}");
    }
    // Layers of 20 cells around 20 x 18 x 16.
    let ratio = line["mcells_per_s"].as_f64().unwrap() / line["interior_mcells_per_s"].as_f64().unwrap();
    assert!((ratio - (60 * 58 * 56) as f64 / (20 * 18 * 16) as f64).abs() < 1e-6, "{ratio}");
}

/// Each equation with each of its absorbing layers, whose default number of cells is in the line.
#[test]
fn the_benchmark_measures_every_equation_and_layer() {
    for (equation, layer, cells) in [
        ("acoustic1", None, 20),
        ("acoustic2", Some("sponge"), 54),
        ("acoustic2", Some("pml"), 20),
        ("vti", None, 20),
        ("tti", Some("sponge"), 40),
        ("tti", Some("pml"), 40),
    ] {
        let args = "bench fd --n 6 5 4 --nt 3 --threads 1 --repeats 1 --json --equation";
        let mut args: Vec<_> = args.split(' ').chain([equation]).collect();
        args.extend(layer.iter().flat_map(|layer| ["--absorbing-layer", layer]));
        let ended = Workspace::new().gpusched(&args);
        assert_eq!(ended.status, 0, "{ended:?}");
        let line = &ended.events()[0];
        assert_eq!((&line["equation"], &line["pml"]), (&equation.into(), &cells.into()), "{line}");
        assert!(line["seconds"].as_f64().is_some_and(|value| value > 0.0), "{line}");
        if let Some(layer) = layer {
            assert_eq!(line["absorbing_layer"], layer, "{line}");
        }
    }
}
