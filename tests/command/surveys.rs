//! Surveys that run: their files, their output, and the effect of a failure on the other shots.

use std::fs;
use std::sync::Arc;

use gpusched::fd::grid::Grid;
use gpusched::fd::model::Model;
use gpusched::fd::plan::Options;
use gpusched::fd::survey::{Receivers, Shot};
use gpusched::fd::wavelet::{Shape, Wavelet};
use serde_json::{Value, json};
use testkit::command::{SURVEY, Workspace, brief, one_shot};
use testkit::npy;
use testmodels::shots::fire_with;

use crate::{finished, run_well};

#[test]
fn every_shot_is_written_with_all_that_is_needed_to_read_it() {
    let folder = Workspace::with_survey(SURVEY);
    let ended = run_well(&folder, &[]);
    assert!(ended.out.contains("4 of 4 shots written"), "{ended:?}");

    let manifest = folder.json("out/survey.json");
    assert_eq!(manifest["state"], "done");
    assert_eq!(manifest["shots"].as_array().unwrap().len(), 4);
    for number in 1..=4 {
        let entry = &manifest["shots"][number - 1];
        assert_eq!(entry["state"], "done");
        assert_eq!(entry["device"], "cpu:0");
        let share = 100.0 * entry["computed"].as_f64().unwrap();
        let line = format!("on cpu:0, {share:.0} % of the cells computed\n");
        assert!(ended.out.contains(&line), "{line}: {ended:?}");
        for file in entry["files"].as_array().unwrap() {
            assert!(folder.at("out").join(file.as_str().unwrap()).is_file(), "{file}");
        }

        let side = folder.json(&format!("out/shot_{number:04}.json"));
        let record = &side["record"];
        // 24 cells by 2, 8 by 4, 60 steps by 2.
        assert_eq!(record["shape"], json!([2, 12, 30]));
        assert_eq!(record["dt_s"], 0.004);
        assert_eq!(record["first_sample_s"], 0.002);
        let frequency_hz = side["wavelet"]["frequency_hz"].as_f64().unwrap();
        let centre = side["wavelet"]["centre_s"].as_f64().unwrap();
        assert!((centre - 1.25 / frequency_hz).abs() < 1e-6, "{centre} on the axis of the record");
        assert_eq!(side["source"]["negative_pole_m"], json!([20.0 + 40.0 * number as f64, 40.0, 10.0]));
        let data = folder.floats(&format!("out/{}", record["file"].as_str().unwrap()));
        assert_eq!(data.len(), 2 * 12 * 30);
        assert!(data.iter().all(|value| value.is_finite()));
        assert!(data.iter().any(|value| value.abs() > 1e-3));
        let bytes: Vec<u8> = data.iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(record["crc32"], crc32(&bytes));

        let snapshots = side["snapshots"].as_array().unwrap();
        assert_eq!(snapshots.iter().map(|s| s["step"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 30]);
        assert_eq!(snapshots[1]["shape"], json!([8, 24, 16]));
        let field = folder.floats(&format!("out/{}", snapshots[1]["file"].as_str().unwrap()));
        assert_eq!(field.len(), 8 * 24 * 16);

        for what in ["gather", "snapshot"] {
            let path = folder.at(format!("out/shot_{number:04}_{what}.png"));
            // `pictures = 1`
            assert_eq!(path.exists(), number == 1, "{}", path.display());
            if path.exists() {
                assert!(fs::read(&path).unwrap().starts_with(b"\x89PNG\r\n\x1a\n"));
            }
        }
    }
    assert!(!folder.names().iter().any(|name| name.contains(".gpusched-")), "{:?}", folder.names());
}

/// A list with one shot's position gives the same record bit for bit; a list of receivers selects
/// the same traces.
#[test]
fn lists_of_positions_give_the_records_of_grids() {
    let grid = finished(&SURVEY.replace("count = [4, 1]", "count = [2, 1]"));
    let sources = "first_m = [60.0, 40.0, 10.0]\nstep_m = [40.0, 10.0]\ncount = [4, 1]";
    let list = SURVEY
        .replace(sources, "positions_m = [[100, 40, 10]]")
        .replace("every = [2, 4]", "positions_m = [[220, 40, 0], [0, 0, 0]]");
    let list = finished(&one_shot(&list));
    let all = grid.floats("out/shot_0002.bin");
    let some = list.floats("out/shot_0001.bin");
    let trace = |iy: usize, ix: usize| &all[(iy * 12 + ix) * 30..][..30];
    assert_eq!(some, [trace(1, 11), trace(0, 0)].concat());
}

/// `tests/numerics` has what each option does to the numbers.
#[test]
fn options_of_accuracy_change_the_record_and_are_listed() {
    let with = |keys: &str| SURVEY.replace("[wavelet]", &format!("[accuracy]\n{keys}\n[wavelet]"));
    let record = |survey: &str, exact_time: bool, stencil: &str, storage: &str| {
        let folder = finished(&one_shot(survey));
        let options = json!({
            "exact_time": exact_time, "stencil": stencil, "storage": storage, "density_at": "half-points",
            "anisotropic_source": false
        });
        assert_eq!(folder.json("out/survey.json")["accuracy"], options);
        folder.floats("out/shot_0001.bin")
    };
    let plain = record(SURVEY, false, "taylor", "float32");
    let named = with("exact_time = false\nstencil = 'taylor'\nstorage = 'float32'");
    assert_eq!(record(&named, false, "taylor", "float32"), plain);
    let exact = with("exact_time = true").replace(SNAPSHOTS, "");
    let exact = record(&exact, true, "taylor", "float32");
    let optimised = record(&with("stencil = 'optimised'"), false, "optimised", "float32");
    assert!(exact != plain && optimised != plain && exact != optimised);
    assert!([&exact, &optimised].iter().all(|other| other.len() == plain.len()));
    // 16-bit storage is exact for two rocks, and nearly so for three.
    let halved = with("storage = '16-bit'");
    assert_eq!(record(&halved, false, "taylor", "16-bit"), plain);
    let three =
        |survey: &str| survey.replace("{ top_m = 80.0", "{ top_m = 30.0, value = 1888.8 }, { top_m = 80.0");
    let whole = record(&three(SURVEY), false, "taylor", "float32");
    let halved = record(&three(&halved), false, "taylor", "16-bit");
    let most = whole.iter().fold(0.0f32, |most, v| most.max(v.abs()));
    assert!(halved != whole && whole.iter().zip(&halved).all(|(a, b)| (a - b).abs() < 1e-4 * most));
    let vti = |keys: &str| {
        let model = format!("equation = 'vti'\n{}", with(keys))
            .replace("rho = \"gardner\"", "epsilon = 0.1\ndelta = 0.05");
        finished(&one_shot(&model)).floats("out/shot_0001.bin")
    };
    assert!(vti("") != vti("anisotropic_source = true"));
    let second = |keys: &str| {
        let survey = format!("equation = 'acoustic2'\n{}", with(keys)).replace("rho = \"gardner\"", "");
        finished(&one_shot(&survey))
    };
    let [sponge, named, pml] = ["", "absorbing_layer = 'sponge'", "absorbing_layer = 'pml'"].map(|keys| {
        let folder = second(keys);
        let layer = if keys.contains("pml") { ("pml", 20) } else { ("sponge", 54) };
        for file in ["out/survey.json", "out/shot_0001.json"] {
            let content = folder.json(file);
            assert_eq!(content["equation"], "acoustic2");
            assert_eq!(content["absorbing_layer"], json!({ "name": layer.0, "cells": layer.1 }));
        }
        // Its source stays in the pressure, so each sample acts a step earlier.
        assert_eq!(folder.json("out/shot_0001.json")["wavelet"]["centre_s"], 0.0605);
        folder.floats("out/shot_0001.bin")
    });
    assert!(sponge == named && sponge != pml);
}

#[test]
fn model_files_give_the_records_of_layers() {
    let raw = Workspace::with_survey(&one_shot(SURVEY).replace(LAYERS, r#"vp = "vp.bin""#));
    let section = Workspace::with_survey(&one_shot(SURVEY).replace(LAYERS, NPY));
    let column: Vec<f32> = (0..16).map(|iz| if iz < 8 { 1500.0 } else { 2000.0 }).collect();
    let cells = column.iter().copied().cycle().take(24 * 8 * 16);
    fs::write(raw.at("vp.bin"), cells.flat_map(f32::to_le_bytes).collect::<Vec<u8>>()).unwrap();
    // Twice as many cells, and three more in front; the cells that must be skipped are far too
    // fast.
    let (nx, nz) = (2 * 24 + 3, 2 * 16);
    let taken = |ix: usize, iz: usize| ix >= 3 && (ix - 3).is_multiple_of(2) && iz.is_multiple_of(2);
    let value = |at: usize| if taken(at % nx, at / nx) { column[at / nx / 2] } else { 9000.0 };
    fs::write(section.at("section.npy"), npy(&format!("({nz}, {nx})"), (0..nz * nx).map(value))).unwrap();
    let expected = finished(&one_shot(SURVEY)).floats("out/shot_0001.bin");
    for folder in [&raw, &section] {
        run_well(folder, &[]);
        assert_eq!(folder.floats("out/shot_0001.bin"), expected);
    }
}

const LAYERS: &str = "vp = { layers = [{ value = 1500.0 }, { top_m = 80.0, value = 2000.0 }] }";
const NPY: &str = r#"vp = { file = "section.npy", extrude = true, first = [3, 0, 0], every = [2, 1, 2] }"#;

#[test]
fn a_shot_that_fails_does_not_stop_the_others() {
    let folder = Workspace::with_survey(&brief());
    // No run removes a folder.
    fs::create_dir_all(folder.at("out/shot_0002.paused")).unwrap();
    let ended = folder.gpusched(&["run", "survey.toml", "--json"]);
    assert_eq!(ended.status, 1, "{ended:?}");
    let events = ended.events();
    let end = events.last().unwrap();
    assert_eq!((&end["event"], &end["done"], &end["failed"]), (&"end".into(), &3.into(), &1.into()));

    let manifest = folder.json("out/survey.json");
    assert_eq!(manifest["state"], "failed");
    let states: Vec<_> =
        manifest["shots"].as_array().unwrap().iter().map(|s| s["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["done", "failed", "done", "done"]);
    assert!(manifest["shots"][1]["error"].as_str().unwrap().contains("shot_0002.paused"));
    for number in [1, 3, 4] {
        assert!(folder.at(format!("out/shot_{number:04}.bin")).is_file());
    }
    assert!(!folder.at("out/shot_0002.json").exists());
}

#[test]
fn a_picture_that_fails_does_not_fail_its_shot() {
    let folder = Workspace::with_survey(&SURVEY.replace("count = [4, 1]", "count = [1, 1]"));
    fs::create_dir_all(folder.at("out/shot_0001_gather.png")).unwrap();
    let ended = run_well(&folder, &[]);
    assert!(ended.err.contains("shot 1 has no picture"), "{ended:?}");
    assert!(folder.at("out/shot_0001.bin").is_file());
}

#[test]
fn picture_is_listed_if_a_later_one_fails() {
    let folder = Workspace::with_survey(&SURVEY.replace("count = [4, 1]", "count = [1, 1]"));
    fs::create_dir_all(folder.at("out/shot_0001_snapshot.png")).unwrap();
    let ended = run_well(&folder, &[]);
    assert!(ended.err.contains("shot_0001_snapshot.png"), "{ended:?}");
    assert_eq!(pictures(&folder), ["shot_0001_gather.png"]);
}

/// A section of one row or column has no picture.
#[test]
fn flat_grid_has_only_the_picture_of_its_record() {
    let survey = SURVEY.replace("count = [4, 1]", "count = [1, 1]");
    for (n, listed) in [("[30, 9, 1]", &["shot_0001_gather.png"][..]), ("[1, 9, 30]", &[])] {
        let survey = survey.replace("[24, 8, 16]", n).replace("[60.0, 40.0, 10.0]", "[0.0, 40.0, 0.0]");
        let folder = Workspace::with_survey(&survey);
        for args in [&[][..], &["--resume"]] {
            let ended = run_well(&folder, args);
            assert!(!ended.err.contains("picture"), "{n}: {ended:?}");
            assert_eq!(pictures(&folder), listed, "{n}");
        }
    }
}

/// Returns the pictures that the list of a survey has for its first shot.
fn pictures(folder: &Workspace) -> Vec<String> {
    let manifest = folder.json("out/survey.json");
    let files = manifest["shots"][0]["files"].as_array().unwrap();
    let names = files.iter().map(|name| name.as_str().unwrap().to_owned());
    names.filter(|name| name.ends_with(".png")).collect()
}

#[test]
fn dry_run_prints_the_survey_and_writes_nothing() {
    let folder = Workspace::with_survey(SURVEY);
    let ended = run_well(&folder, &["--dry-run"]);
    for part in ["24 x 8 x 16 cells", "4, of 24 traces with 30 samples", "60 steps of 0.002 s", "cpu:0"] {
        assert!(ended.out.contains(part), "{part}: {ended:?}");
    }
    assert!(!folder.at("out").exists());

    let summary = summary(SURVEY);
    assert_eq!(summary["shots"], 4);
    assert!(summary["shot_bytes"].as_u64().unwrap() > 0);
}

/// The only event of a dry run.
fn summary(survey: &str) -> Value {
    let events = run_well(&Workspace::with_survey(survey), &["--dry-run", "--json"]).events();
    assert_eq!(events.len(), 1, "{events:?}");
    events[0]["survey"].clone()
}

/// The section of the survey that exact time refuses.
const SNAPSHOTS: &str = "[snapshots]\nevery = 30\n";

const MUTED: &str = "the mute zeroes all samples";
const LATE: &str = "after the end of the record, at 0.12 s: raise frequency_hz";

/// A change of the survey at the limit of a warning, a part of the warning, and whether a dry run
/// prints it. `fd::warnings` tests the others.
#[rustfmt::skip]
const WARNINGS: &[(&str, &str, &str, bool)] = &[
    // 62.5 Hz and 41.7 Hz; the wavelet has 50 Hz.
    ("record_every = 2", "record_every = 4\n[accuracy]\nexact_time = true", "lower record_every", false),
    ("record_every = 2", "record_every = 6\n[accuracy]\nexact_time = true", "lower record_every", true),
    // Centred at 0.119 s and 0.1202 s, a cut one at 0.118 s and 0.125 s; 60 steps of 2 ms.
    ("frequency_hz = 20.0", "frequency_hz = 10.5", LATE, false),
    ("frequency_hz = 20.0", "frequency_hz = 10.4", LATE, true),
    ("frequency_hz = 20.0", "frequency_hz = 8.5\nshape = \"cut-ricker\"", LATE, false),
    ("frequency_hz = 20.0", "frequency_hz = 8.0\nshape = \"cut-ricker\"", LATE, true),
    // The last sample is at 0.118 s, and the nearest receiver 10 m away.
    ("[wavelet]", "[mute]\nvelocity_m_s = 85.0\n[wavelet]", MUTED, false),
    ("[wavelet]", "[mute]\nvelocity_m_s = 84.0\n[wavelet]", MUTED, true),
];

#[test]
fn doubtful_surveys_cause_warnings_with_the_number() {
    for &(from, to, words, expected) in WARNINGS {
        let survey = SURVEY.replace(SNAPSHOTS, "").replace(from, to);
        let err = run_well(&Workspace::with_survey(&survey), &["--dry-run"]).err;
        let warned = err.lines().any(|line| line.starts_with("warning: ") && line.contains(words));
        assert_eq!(warned, expected, "{to}: {err}");
    }
}

/// Returns a survey of `tti` with this tilt.
fn tilted(theta: &str) -> String {
    SURVEY
        .replace("rho = \"gardner\"", &format!("theta_rad = {theta}"))
        .replace("[grid]", "equation = \"tti\"\n[grid]")
        .replace("dt_s = 0.002", "dt_s = \"auto\"")
}

/// Only the absorbing layers of the old operators reflect where the axis is tilted.
#[test]
fn a_survey_whose_axis_is_nearly_horizontal_warns_of_the_layers() {
    let cases = [("0.7854", false), ("-1.2", true), ("1.9", true), ("3.1", false)];
    let sponge = cases.map(|(theta, _)| (theta, "sponge", false));
    for (theta, layer, expected) in
        cases.map(|(theta, expected)| (theta, "pml", expected)).into_iter().chain(sponge)
    {
        let survey = tilted(theta)
            .replace("[output]", &format!("[accuracy]\nabsorbing_layer = \"{layer}\"\n[output]"));
        let warnings = summary(&survey)["warnings"].to_string();
        assert_eq!(warnings.contains("rad from the vertical"), expected, "{layer}, {theta}: {warnings}");
    }
}

/// 3.1416 is pi, rounded. Azimuths up to 2 pi are common.
#[test]
fn a_tilt_beyond_pi_is_accepted_with_a_warning_that_it_looks_like_degrees() {
    let layers = "{ layers = [{ value = 0.1 }, { top_m = 80.0, value = -5.0 }] }";
    for (theta, warned) in [("3.1416\nphi_rad = 6.28", ""), ("5.0", "5"), (layers, "5"), ("-3.5", "3.5")] {
        let survey = tilted(theta);
        let dry = run_well(&Workspace::with_survey(&survey), &["--dry-run"]).err;
        let run = run_well(&Workspace::with_survey(&survey), &[]).err;
        let expected = format!(
            "warning: theta_rad is up to {warned} in magnitude, and tilts are -pi to pi radians: it looks like degrees"
        );
        for err in [dry, run] {
            assert_eq!(err.contains(&expected), !warned.is_empty(), "{theta}: {err}");
            assert!(!warned.is_empty() || err.is_empty(), "{theta}: {err}");
        }
    }
}

#[test]
fn summary_has_the_range_of_each_property_with_angles_in_degrees() {
    let properties = "epsilon = 0.2\nphi_rad = -1.5708\n\
                      theta_rad = { layers = [{ value = 0.0 }, { top_m = 80.0, value = 0.5236 }] }";
    let survey = SURVEY
        .replace("rho = \"gardner\"", properties)
        .replace("[grid]", "equation = \"tti\"\n[grid]")
        .replace("dt_s = 0.002", "dt_s = \"auto\"");
    let out = run_well(&Workspace::with_survey(&survey), &["--dry-run"]).out;
    for line in ["epsilon     0.2 to 0.2", "tilt        0 to 30 degrees", "azimuth     -90 to -90 degrees"] {
        assert!(out.contains(&format!("  {line}\n")), "{line}: {out}");
    }
}

/// A force at the border along its axis: the first of four sources along x, and all sources along
/// z.
#[test]
fn warnings_name_the_shots_that_they_are_about() {
    for (axis, first, expected) in [
        ("x", "[0.0, 40.0, 10.0]", "shot 1: a force at the border along its axis (cell 0 of 24)"),
        ("z", "[0.0, 40.0, 0.0]", "a force at the border along its axis (cell 0 of 16)"),
    ] {
        let survey = SURVEY
            .replace("first_m = [60.0, 40.0, 10.0]", &format!("kind = \"force-{axis}\"\nfirst_m = {first}"));
        let warnings = summary(&survey)["warnings"].clone();
        let of_force: Vec<_> = warnings
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|text| text.as_str())
            .filter(|text| text.contains("force"))
            .collect();
        assert!(matches!(of_force[..], [one] if one.starts_with(expected)), "{warnings}");
    }
}

#[test]
fn an_automatic_step_is_stable_and_short() {
    // 0.9 / (1.28631 * 2000 * sqrt(3) / 10) = 0.00201979
    assert_eq!(summary(&SURVEY.replace("dt_s = 0.002", "dt_s = \"auto\""))["time"]["dt_s"], 0.002);
}

/// A flat interface with three times the density below it, where the velocity is also the highest.
#[test]
fn a_density_that_jumps_makes_the_step_shorter_or_warns() {
    let density = "rho = { layers = [{ value = 800.0 }, { top_m = 80.0, value = 2400.0 }] }";
    let half_points = SURVEY.replace("rho = \"gardner\"", density);
    let survey = half_points.replace("[wavelet]", "[accuracy]\ndensity_at = \"cells\"\n[wavelet]");
    let warned = |survey: &str| {
        let summary = summary(survey);
        let warnings = summary["warnings"].to_string();
        (summary["time"]["dt_s"].as_f64().unwrap(), warnings.contains("only steps up to 0.00194"))
    };
    // sqrt(3 / 4) of 0.00224421 s, the limit by velocity.
    assert_eq!(warned(&survey.replace("dt_s = 0.002", "dt_s = \"auto\"")), (0.0019, false));
    assert_eq!(warned(&survey), (0.002, true));
    // With the mean density at the interface the limit is 0.953 of it.
    assert_eq!(warned(&half_points), (0.002, false));
    assert_eq!(warned(&SURVEY.replace("dt_s = 0.002", "dt_s = 0.0022")), (0.0022, false));
}

#[test]
fn samples_before_the_mute_are_zero_and_no_others() {
    let muted = format!("{SURVEY}[mute]\nvelocity_m_s = 1500.0\nafter_s = 0.02\n");
    let mutes = [json!(null), json!({ "velocity_m_s": 1500.0, "after_s": 0.02 })];
    let [plain, muted] = [(SURVEY, &mutes[0]), (&muted, &mutes[1])].map(|(survey, mute)| {
        let folder = finished(&one_shot(survey));
        assert_eq!(folder.json("out/survey.json")["mute"], *mute);
        folder.floats("out/shot_0001.bin")
    });
    let mut silenced = 0;
    for trace in 0..24 {
        let (x, y) = (trace % 12 * 20, trace / 12 * 40);
        let distance = f64::hypot(f64::hypot(x as f64 - 60.0, y as f64 - 40.0), 10.0);
        let end = distance / 1500.0 + 0.02;
        for sample in 0..30 {
            let at = trace * 30 + sample;
            let time = 0.002 * (2 * sample + 1) as f64;
            let expected = if time < end { 0.0 } else { plain[at] };
            silenced += usize::from(plain[at] != expected);
            assert_eq!(muted[at], expected, "trace {trace}, sample {sample}");
        }
    }
    assert!(silenced > 100, "{silenced} samples were muted");
}

/// CRC-32 bit by bit, as in PNG's specification.
fn crc32(bytes: &[u8]) -> String {
    let step = |crc: u32| if crc & 1 == 1 { 0xEDB8_8320 ^ (crc >> 1) } else { crc >> 1 };
    let crc =
        bytes.iter().fold(u32::MAX, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), |crc, _| step(crc)));
    format!("{:08x}", !crc)
}

/// The finest accepted spacings give positions in micrometres and times in picoseconds.
#[test]
fn description_of_a_fine_grid_keeps_all_digits() {
    let survey = brief()
        .replace("spacing_m = 10.0", "spacing_m = 2.5e-6")
        .replace("top_m = 80.0", "top_m = 20e-6")
        .replace("dt_s = 0.002", "dt_s = 5e-10")
        .replace("frequency_hz = 20.0", "frequency_hz = 80e6")
        .replace(
            "first_m = [60.0, 40.0, 10.0]\nstep_m = [40.0, 10.0]\ncount = [4, 1]",
            "first_m = [15e-6, 10e-6, 2.5e-6]",
        );
    let side = finished(&survey).json("out/shot_0001.json");
    assert_eq!(side["receivers"]["x"]["step_m"], 5e-6);
    assert_eq!(side["source"]["negative_pole_m"], json!([15e-6, 10e-6, 2.5e-6]));
    assert_eq!(side["source"]["positive_pole_m"][2], 7.5e-6);
    assert_eq!((&side["record"]["first_sample_s"], &side["record"]["dt_s"]), (&5e-10.into(), &1e-9.into()));
    assert_eq!(side["wavelet"]["centre_s"], 1.5625e-8);
    assert_eq!(side["snapshots"][1]["time_s"], 2e-9);
    let ended = run_well(&Workspace::with_survey(&survey), &["--dry-run"]);
    assert!(ended.err.contains("after the end of the record, at 0.000000002 s"), "{ended:?}");
    assert!(!ended.out.contains(" 0.000000 s"), "{ended:?}");
}

/// Sources along x come first, then the next row along y.
#[test]
fn sources_form_a_grid_in_x_and_y() {
    let survey = SURVEY
        .replace("step_m = [40.0, 10.0]", "step_m = [40.02, 20.04]")
        .replace("first_m = [60.0, 40.0, 10.0]", "first_m = [60.0, 10.0, 30.0]")
        .replace("count = [4, 1]", "count = [2, 3]")
        .replace("nt = 60", "nt = 20")
        .replace("pictures = 1", "pictures = 0");
    let folder = finished(&survey);
    let place = |number: usize| {
        let side = folder.json(&format!("out/shot_{number:04}.json"));
        let axis = |axis: usize| side["source"]["negative_pole_m"][axis].as_f64().unwrap();
        [0, 1, 2].map(axis)
    };
    let expected = [[60.0, 10.0], [100.0, 10.0], [60.0, 30.0], [100.0, 30.0], [60.0, 50.0], [100.0, 50.0]];
    assert_eq!([1, 2, 3, 4, 5, 6].map(place), expected.map(|[x, y]| [x, y, 30.0]));
    assert!(!folder.at("out/shot_0007.json").exists());
    // The shot's position is that of its description.
    let alone = one_shot(SURVEY)
        .replace("first_m = [60.0, 40.0, 10.0]", "first_m = [100.0, 50.0, 30.0]")
        .replace("nt = 60", "nt = 20");
    let [fifth, sixth] = [5, 6].map(|number| folder.floats(&format!("out/shot_{number:04}.bin")));
    assert_eq!(sixth, finished(&alone).floats("out/shot_0001.bin"));
    assert!(sixth != fifth);
}

#[test]
fn duration_is_rounded_to_whole_steps() {
    let steps = |duration: &str| {
        let survey = SURVEY.replace("nt = 60", &format!("duration_s = {duration}"));
        summary(&survey)["time"]["nt"].as_u64().unwrap()
    };
    // Steps of 2 ms.
    assert_eq!(["0.12", "0.1209", "0.1211", "0.0011"].map(steps), [60, 60, 61, 1]);
}

/// Each name selects the shape of that name in the library; without one it is a Ricker wavelet.
#[test]
fn wavelet_shape_of_the_survey_is_the_one_that_is_computed() {
    let names = [
        ("", Shape::Ricker),
        ("gaussian-derivative", Shape::GaussianDerivative),
        ("gaussian", Shape::Gaussian),
        ("ricker", Shape::Ricker),
        ("cut-ricker", Shape::CutRicker),
        ("cut-gaussian-derivative", Shape::CutGaussianDerivative),
        ("cut-gaussian", Shape::CutGaussian),
        ("cut-ricker-integral", Shape::CutRickerIntegral),
        ("cut-ricker-double-integral", Shape::CutRickerDoubleIntegral),
        ("cut-ricker-triple-integral", Shape::CutRickerTripleIntegral),
    ];
    let grid = Grid { n: [12, 8, 10], h: [10.0; 3] };
    let model = Arc::new(Model::new(grid, vec![1500.0; grid.cells()], None).unwrap());
    for (name, shape) in names {
        let survey = one_shot(SURVEY)
            .replace("[24, 8, 16]", "[12, 8, 10]")
            .replace(LAYERS, "vp = 1500.0")
            .replace("rho = \"gardner\"\n", "")
            .replace("frequency_hz = 20.0", &format!("frequency_hz = 20.0\nshape = \"{name}\""))
            .replace("shape = \"\"\n", "")
            .replace(SNAPSHOTS, "");
        let folder = finished(&survey);
        let shot = Shot {
            source: [6, 4, 1],
            wavelet: Wavelet::new(shape, 20.0, 0.002, 60).unwrap(),
            amplitude: 10_000.0,
            nt: 60,
            receivers: Receivers::Plane { iz: 0, every: [2, 4] },
            record_every: 2,
            ..Shot::default()
        };
        let record = fire_with(&model, 0.002, &shot, Options::default(), 1).record;
        assert!(record.iter().any(|value| *value != 0.0));
        assert!(folder.floats("out/shot_0001.bin") == record, "{name}");
        let stated = if name.is_empty() { "ricker" } else { name };
        assert_eq!(folder.json("out/shot_0001.json")["wavelet"]["shape"], stated);
    }
}
