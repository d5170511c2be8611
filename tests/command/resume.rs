//! `run --resume`: the shots that are kept, the reasons for those computed again, and the equality
//! with one run's result.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use testkit::c;
use testkit::command::{Ended, SURVEY, Workspace, brief, one_shot};
use testmodels::bits::fused_or_skip;

use crate::{finished, flip_a_bit, run_well};

const RESUME: &[&str] = &["run", "survey.toml", "--json", "--resume"];

fn cut(path: &Path) {
    let bytes = fs::read(path).unwrap();
    fs::write(path, &bytes[..bytes.len() - 1]).unwrap();
}

fn replace(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{} lacks {from}", path.display());
    fs::write(path, text.replace(from, to)).unwrap();
}

const RECORD: &str = "shot_0002.bin";
const SIDE: &str = "shot_0002.json";
const FIRST: &str = "shot_0002_step_000000.bin";
const SECOND: &str = "shot_0002_step_000003.bin";

fn remove(path: &Path) {
    fs::remove_file(path).unwrap();
}

/// The damaged file of shot 2, the damage, and a part of the reason for computing it again; "" if
/// it is only missing.
type Harm = (&'static str, fn(&Path), &'static str);

const HARMS: [Harm; 12] = [
    (SIDE, |side| [RECORD, SIDE, FIRST].iter().for_each(|name| remove(&side.with_file_name(name))), ""),
    (SIDE, remove, "shot_0002.bin has no shot_0002.json"),
    (RECORD, remove, "shot_0002.bin: No such file"),
    (RECORD, flip_a_bit, "shot_0002.bin is damaged: its checksum differs"),
    (RECORD, cut, "shot_0002.bin is not 192 bytes long"),
    (SECOND, remove, "shot_0002_step_000003.bin: No such file"),
    (FIRST, flip_a_bit, "shot_0002_step_000000.bin is damaged: its checksum differs"),
    (SIDE, cut, "shot_0002.json is damaged"),
    (SIDE, |side| fs::write(side, b"\xff\0[[[").unwrap(), "damaged, or another program"),
    (SIDE, |side| replace(side, "\"step\": 3", "\"step\": 2"), "shot_0002_step_000003.bin is not described"),
    (SIDE, |side| replace(side, "\"key\": \"", "\"key\": \"0"), "other parameters, or another model"),
    (RECORD, put_behind_a_link, "shot_0002.bin: not a plain file"),
];

fn put_behind_a_link(path: &Path) {
    fs::rename(path, path.with_file_name("../elsewhere.bin")).unwrap();
    std::os::unix::fs::symlink("../elsewhere.bin", path).unwrap();
}

/// A pipe would block the command. The link leads to the state of another survey.
#[test]
fn states_that_are_no_plain_files_are_neither_opened_nor_followed() {
    let folder = finished(&brief());
    (1..=2).for_each(|number| remove(&folder.at(format!("out/shot_000{number}.json"))));
    assert!(Command::new("mkfifo").arg(folder.at("out/shot_0001.paused")).status().unwrap().success());
    let other = json!({ "key": "k", "kind": "", "done": 1, "values": 0, "snapshots": { "3": 1 } });
    fs::write(folder.at("other"), format!("{other}\n")).unwrap();
    std::os::unix::fs::symlink("../other", folder.at("out/shot_0002.paused")).unwrap();
    for what in ["status", "collect"] {
        let ended = folder.gpusched(&[what, "out"]);
        let lines = "2 of 4 shots done, 2 missing\nnot done: 1-2\n";
        assert_eq!((ended.status, ended.out.as_str()), (1, lines), "{what}: {ended:?}");
    }
    let ended = run_well(&folder, &["--json", "--resume", "--shots", "1-2"]);
    let warned =
        |event: &&Value| event["warning"].as_str().is_some_and(|why| why.contains("not a plain file"));
    assert_eq!(ended.events().iter().filter(warned).count(), 2, "{ended:?}");
}

#[test]
fn only_missing_or_damaged_shots_are_computed_again() {
    let folder = finished(&brief());
    let whole = folder.results();
    for (file, harm, why) in HARMS {
        harm(&folder.at("out").join(file));
        let ended = folder.gpusched(RESUME);
        assert_eq!(ended.status, 0, "{file}, {why}: {ended:?}");
        assert_eq!((ended.shots("kept"), ended.shots("done")), (vec![1, 3, 4], vec![2]), "{why}: {ended:?}");
        let events = ended.events();
        let reasons: Vec<_> = events.iter().filter(|event| event["event"] == "redo").collect();
        match reasons.as_slice() {
            [] => assert_eq!(why, "", "{file}"),
            [reason] => {
                assert_eq!(reason["shot"], 2, "{reason}");
                assert!(!why.is_empty() && reason["why"].as_str().unwrap().contains(why), "{why}: {reason}");
            }
            _ => panic!("{why}: {reasons:?}"),
        }
        assert!(folder.results() == whole, "{file}, {why}: other files than of one run");
    }
    // The target of the link is unchanged.
    assert_eq!(fs::read(folder.at("elsewhere.bin")).unwrap(), whole["shot_0002.bin"]);
}

/// As on a file server that fails for a moment. For all shots, or for one that arrives later.
#[test]
fn shot_whose_files_cannot_be_read_now_is_not_computed_again() {
    let preload = c::preload("opens", &c::scratch("unread"));
    let folder = finished(&brief());
    let whole = folder.results();
    for file in ["out/shot_0001.bin", "out/shot_0001.json", "out/shot_0001_step_000003.bin"] {
        for (code, more) in [(libc::ESTALE, &[][..]), (libc::EMFILE, &["--shots-from", "-"])] {
            let mut command = folder.command(&[RESUME, more].concat());
            command.env("LD_PRELOAD", &preload).env("FAULT_MARK", folder.at("mark"));
            command.env("FAULT_PATH", file).env("FAULT_COUNT", "1").env("FAULT_HOW", code.to_string());
            let mut run = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            drop(run.stdin.take().unwrap().write_all(b"1\n"));
            let ended = Ended::from(run.wait_with_output().unwrap());
            let why = ended.events().into_iter().find_map(|event| Some(event["error"].as_str()?.to_owned()));
            let why = why.unwrap_or_default();
            let name = file.rsplit('/').next().unwrap();
            assert!(why.contains(name) && why.contains(&format!("(os error {code})")), "{file}: {ended:?}");
            if more.is_empty() {
                assert_eq!((ended.status, ended.events().len() > 2), (2, false), "{ended:?}");
                assert!(why.contains("start the run again, or remove the file"), "{ended:?}");
            } else {
                assert_eq!((ended.status, ended.shots("failed")), (1, vec![1]), "{ended:?}");
            }
            assert!(shots(&folder) == whole, "{file}: a file was changed");
        }
    }
    assert_eq!(folder.gpusched(RESUME).shots("kept"), [1, 2, 3, 4]);
}

/// Returns the files without the reports of parts.
fn shots(folder: &Workspace) -> BTreeMap<String, Vec<u8>> {
    folder.results().into_iter().filter(|(name, _)| !name.starts_with("survey.")).collect()
}

#[test]
fn complete_survey_is_kept_and_reported() {
    let folder = finished(&brief().replace("pictures = 0", "pictures = 1"));
    let whole = folder.results();
    let ended = folder.gpusched(RESUME);
    assert_eq!((ended.status, ended.shots("kept"), ended.shots("done")), (0, vec![1, 2, 3, 4], vec![]));
    let events = ended.events();
    let end = events.last().unwrap();
    assert_eq!((&end["done"], &end["kept"], &end["failed"]), (&4.into(), &4.into(), &0.into()));
    let manifest = folder.json("out/survey.json");
    assert_eq!(manifest["state"], "done");
    for shot in manifest["shots"].as_array().unwrap() {
        assert_eq!((&shot["state"], &shot["kept"]), (&"done".into(), &true.into()), "{shot}");
        assert!(shot.get("device").is_none(), "nobody knows any more: {shot}");
    }
    let files = [".bin", ".json", "_step_000000.bin", "_step_000003.bin", "_gather.png", "_snapshot.png"];
    assert_eq!(manifest["shots"][0]["files"], json!(files.map(|end| format!("shot_0001{end}"))));
    assert!(folder.results() == whole);

    remove(&folder.at("out/shot_0003.json"));
    let words = run_well(&folder, &["--resume"]).out;
    for part in [
        "not kept: shot 3: shot_0003.bin has no shot_0003.json",
        "resume: 3 of 4 shots kept, 1 computed again, 0 missing",
        "4 of 4 shots written, 3 kept and 1 computed in ",
    ] {
        assert!(words.contains(part), "{part}: {words}");
    }
    let shots = &folder.json("out/survey.json")["shots"];
    assert_eq!((&shots[1]["kept"], &shots[2]["device"]), (&true.into(), &"cpu:0".into()));
    assert!(shots[2].get("kept").is_none());
}

/// `key::tests` of the command has the changes that change results.
#[test]
fn shots_of_a_survey_that_is_written_otherwise_are_kept() {
    let indifferent = [
        ("title = \"Test\"", "# Once more.\ntitle = \"Another\""),
        ("spacing_m = 10.0", "spacing_m = [10, 10, 10]"),
        ("every = [2, 4]", "every = [2, 4]\ndepth_m = 0"),
        ("pictures = 1", "pictures = 2\nclip_percentile = 98"),
        ("pictures = 1", "pictures = 1\n[run]\nslots = 2"),
    ];
    let folder = finished(SURVEY);
    for (from, to) in indifferent {
        assert!(SURVEY.contains(from), "{from}");
        fs::write(folder.at("survey.toml"), SURVEY.replace(from, to)).unwrap();
        assert_eq!(folder.gpusched(RESUME).shots("kept"), [1, 2, 3, 4], "{to}");
    }
}

/// The content of the files decides: here one value of one cell.
#[test]
fn another_model_in_the_same_file_is_another_survey() {
    let survey = brief().replace("rho = \"gardner\"", "rho = \"rho.bin\"");
    let folder = Workspace::with_survey(&survey);
    let rho: Vec<u8> = [1000f32; 24 * 8 * 16].iter().flat_map(|value| value.to_le_bytes()).collect();
    fs::write(folder.at("rho.bin"), &rho).unwrap();
    run_well(&folder, &[]);
    fs::write(folder.at("rho.bin"), &rho).unwrap();
    assert_eq!(folder.gpusched(RESUME).shots("kept"), [1, 2, 3, 4]);
    flip_a_bit(&folder.at("rho.bin"));
    assert_eq!(folder.gpusched(RESUME).shots("done"), [1, 2, 3, 4]);
}

/// For all shots, or for two that were killed after their snapshots and before their descriptions
/// had names.
#[test]
fn files_of_other_parameters_are_removed_when_a_shot_is_computed_again() {
    let fewer = finished(&brief().replace("every = 3", "every = 2"));
    let killed = ["shot_0002.bin", "shot_0002.json", "shot_0003.bin", "shot_0003.json"];
    let paused = Some("shot_0003.paused");
    for (lost, left, more) in [
        (&[][..], None, &["--resume"][..]),
        (&killed, None, &[]),
        (&killed, paused, &[]),
        (&killed, paused, &["--resume"]),
    ] {
        let folder = finished(&brief());
        lost.iter().for_each(|name| remove(&folder.at("out").join(name)));
        left.iter().for_each(|name| fs::write(folder.at("out").join(name), "x").unwrap());
        replace(&folder.at("survey.toml"), "every = 3", "every = 2");
        run_well(&folder, more);
        assert!(folder.results() == fewer.results(), "{lost:?} {left:?}");
    }
}

/// A hostile description cannot cause the removal of any file that is not the shot's own.
#[test]
fn a_description_can_not_have_other_files_removed() {
    let folder = finished(&brief());
    fs::write(folder.at("precious"), "x").unwrap();
    for file in ["../precious", "shot_0001.bin", "shot_0003_step_000000.bin"] {
        replace(&folder.at("out/shot_0002.json"), "\"shot_0002_step_000000.bin\"", &format!("{file:?}"));
        replace(&folder.at("out/shot_0002.json"), "\"key\": \"", "\"key\": \"0");
        assert_eq!(folder.gpusched(RESUME).shots("kept"), [1, 3, 4], "{file}");
        assert!(folder.at("precious").exists());
    }
}

#[test]
fn dry_run_reports_kept_shots_and_writes_nothing() {
    let folder = finished(&brief());
    remove(&folder.at("out/shot_0004.json"));
    fs::write(folder.at("out/.gpusched-4294967295-0.part"), "x").unwrap();
    let before = folder.results();
    let ended = run_well(&folder, &["--resume", "--dry-run"]);
    assert!(ended.out.contains("resume: 3 of 4 shots kept, 1 computed again, 0 missing"), "{ended:?}");
    assert!(folder.results() == before);
    let unborn = Workspace::with_survey(&brief());
    let ended = run_well(&unborn, &["--resume", "--dry-run"]);
    assert!(ended.out.contains("resume: 0 of 4 shots kept, 0 computed again, 4 missing"), "{ended:?}");
    assert!(!unborn.at("out").exists());
}

/// Fields that do not affect the result are updated without computing the shot.
#[test]
fn a_description_of_another_version_is_renewed() {
    let folder = finished(&brief());
    let whole = folder.results();
    replace(&folder.at("out/shot_0002.json"), "\"version\": \"", "\"version\": \"0.0.");
    assert_eq!(folder.gpusched(RESUME).shots("kept"), [1, 2, 3, 4]);
    assert!(folder.results() == whole);
}

/// A change of any bit of a result requires a new number of the numerics, which is a part of the
/// shots' keys. Otherwise a resume would keep shots that differ from those that it computes.
#[test]
fn results_have_the_bits_of_the_numerics_number() {
    if !fused_or_skip() {
        return;
    }
    let survey = SURVEY.replace("[wavelet]", "[wavelet]\nshape = \"cut-ricker\"");
    let with = |keys: &str| survey.replace("[output]", &format!("[accuracy]\n{keys}\n[output]"));
    let surveys = [
        survey.clone(),
        survey.replace("rho = \"gardner\"", ""),
        with("stencil = \"optimised\""),
        with("storage = \"16-bit\"")
            .replace("{ top_m = 80.0", "{ top_m = 30.0, value = 1888.8 }, { top_m = 80.0"),
        with("exact_time = true").replace("[snapshots]\nevery = 30\n", ""),
        with("density_at = \"cells\""),
    ];
    let sums = surveys.map(|survey| {
        let side = finished(&one_shot(&survey)).json("out/shot_0001.json");
        [&side["record"], &side["snapshots"][1]]
            .map(|file| file["crc32"].as_str().unwrap_or_default().to_owned())
    });
    let known = (
        11,
        [
            ["cb278a5d", "eb8f4063"],
            ["1e9f3e25", "588d9b99"],
            ["14379aec", "67819417"],
            ["0191434e", "2a7bb1fe"],
            ["abc79643", ""],
            ["44a79ac7", "1164b1b4"],
        ],
    );
    assert!(
        (gpusched::fd::NUMERICS, &sums) == (known.0, &known.1.map(|of| of.map(str::to_owned))),
        "results have other bits than those of {}: raise gpusched::fd::NUMERICS, and put it and these sums here: {sums:?}",
        known.0
    );
}

/// A survey that was computed with one wavelet is computed again with the other.
#[test]
fn shots_with_the_cut_wavelet_are_not_those_of_the_default() {
    let folder = finished(&brief());
    let whole = folder.results();
    replace(&folder.at("survey.toml"), "[wavelet]", "[wavelet]\nshape = \"cut-ricker\"");
    assert_eq!(folder.gpusched(RESUME).shots("done"), [1, 2, 3, 4]);
    assert!(folder.results() != whole);
    replace(&folder.at("survey.toml"), "\"cut-ricker\"", "\"ricker\"");
    assert_eq!(folder.gpusched(RESUME).shots("done"), [1, 2, 3, 4]);
    assert!(folder.results() == whole);
    replace(&folder.at("survey.toml"), "shape = \"ricker\"", "");
    assert_eq!(folder.gpusched(RESUME).shots("kept"), [1, 2, 3, 4]);
}

#[test]
fn without_the_option_all_is_computed_again_and_pictures_of_other_parameters_go() {
    let folder = finished(&brief().replace("pictures = 0", "pictures = 1"));
    let picture = folder.at("out/shot_0001_gather.png");
    assert!(picture.exists());
    replace(&folder.at("survey.toml"), "pictures = 1", "pictures = 0");
    assert_eq!(run_well(&folder, &["--json"]).shots("done"), [1, 2, 3, 4]);
    assert!(!picture.exists());
}

/// The state remains if a run was killed before it removed it, or if a part was stopped after
/// another had written the shot.
#[test]
fn state_of_a_complete_shot_is_removed() {
    let folder = finished(&brief());
    let state = folder.at("out/shot_0002.paused");
    fs::write(&state, "a state").unwrap();
    assert_eq!(folder.gpusched(&[RESUME, &["--dry-run"]].concat()).status, 0);
    assert!(state.exists(), "a dry run removes nothing");
    for list in [&[][..], &["--shots", "2"]] {
        fs::write(&state, "a state").unwrap();
        let events = run_well(&folder, &[&["--json", "--resume"], list].concat()).events();
        assert_eq!(events.last().unwrap()["kept"], if list.is_empty() { 4 } else { 1 });
        assert!(!state.exists(), "{list:?}");
    }
}
