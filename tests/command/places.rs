//! The command creates files in the named folders only, whatever names the survey has and whatever
//! the folders contain.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use testkit::Folder;
use testkit::command::Workspace;

const SURVEY: &str = "[grid]\nn = [6, 6, 6]\nspacing_m = 10\n[model]\nvp = 2000\n[time]\ndt_s = 0.001\nnt = 3\n\
                      [wavelet]\nfrequency_hz = 40\n[sources]\nfirst_m = [0, 0, 0]\n[snapshots]\nevery = 2\n";

/// Returns everything below a folder with its content. Does not follow links.
fn all(folder: &Folder) -> BTreeMap<String, Vec<u8>> {
    let content = |name: String| {
        let path = folder.at(&name);
        let content = match fs::read_link(&path) {
            Ok(to) => to.into_os_string().into_encoded_bytes(),
            Err(_) if path.is_dir() => b"folder".to_vec(),
            Err(_) => fs::read(&path).expect("a file"),
        };
        (name, content)
    };
    folder.names().into_iter().map(content).collect()
}

/// An `output.folder` in TOML, and the folder that it selects below `work/survey`. `None`: refused.
type Case = (&'static str, Option<&'static str>);

const FOLDERS: &[Case] = &[
    ("'out'", Some("out")),
    ("'./a/../b'", Some("")),
    ("'../beside'", Some("../beside")),
    ("'deep/er'", Some("deep")),
    ("'with\ttab'", Some("with\ttab")),
    ("\"with\\nnewline \\u001b[2J\"", Some("with\nnewline \u{1b}[2J")),
    ("\"nul\\u0000in it\"", None),
    ("'link'", Some("../elsewhere")),
    ("'dangling'", None),
    ("'file'", None),
    ("'file/below'", None),
    ("'locked/below'", None),
    ("'/proc/none'", None),
    ("'/dev/null'", None),
];

#[test]
fn files_are_made_only_in_the_folders_that_are_named() {
    let folder = Workspace::new();
    let work = folder.at("work");
    for &(named, allowed) in FOLDERS {
        let _ = fs::remove_dir_all(&work);
        fs::create_dir_all(work.join("survey/locked")).expect("a folder");
        fs::create_dir(work.join("elsewhere")).expect("a folder");
        fs::write(work.join("survey/file"), "kept").expect("a file");
        symlink("../elsewhere", work.join("survey/link")).expect("a link");
        symlink("nowhere", work.join("survey/dangling")).expect("a link");
        // Root may write into any folder: a file of the name serves as well.
        fs::write(work.join("survey/locked/below"), "kept").expect("a file");
        fs::write(work.join("survey/survey.toml"), format!("{SURVEY}[output]\nfolder = {named}\n"))
            .expect("a survey");
        let before = all(&folder);
        let tried = folder.gpusched(&["run", "work/survey/survey.toml", "--dry-run"]);
        assert!(all(&folder) == before, "{named}: a dry run has changed a file");
        let ended = folder.gpusched(&["run", "work/survey/survey.toml"]);
        assert_eq!(tried.status, ended.status, "{named}: {ended:?}");
        assert!(named != "'dangling'" || ended.err.contains("is a link to nowhere, which does"), "{ended:?}");
        assert_eq!(ended.status, if allowed.is_some() { 0 } else { 2 }, "{named}: {ended:?}");
        let plain = |line: &str| !line.chars().any(char::is_control);
        let kind = |line: &str| ["warning: ", "gpusched: "].iter().any(|kind| line.starts_with(kind));
        assert!(ended.err.lines().all(|line| plain(line) && kind(line)), "{named}: {ended:?}");
        let after = all(&folder);
        let home = allowed.map(|allowed| work.join("survey").join(allowed));
        for (name, content) in &after {
            let path = folder.at(name);
            let is_at = |home: &PathBuf| {
                path.starts_with(home)
                    || path.starts_with(resolved(home))
                    || resolved(home) == resolved(&path)
            };
            let inside = name.starts_with("cache") || home.as_ref().is_some_and(is_at);
            assert!(inside || before.get(name) == Some(content), "{named}: {name} is new");
        }
        let gone = before.keys().find(|name| !after.contains_key(*name));
        assert_eq!(gone, None, "{named}");
    }
}

fn resolved(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

#[test]
fn inputs_and_results_are_not_overwritten() {
    let folder = Workspace::with_survey(SURVEY);
    folder.make("out");
    let model: Vec<u8> = [2000_f32; 6 * 6 * 6].into_iter().flat_map(f32::to_le_bytes).collect();
    fs::write(folder.at("out/shot_0001.bin"), model).expect("a model");
    symlink("out/shot_0001.bin", folder.at("link")).expect("a link");
    fs::write(folder.at("survey.json"), format!("{SURVEY}[output]\nfolder = '.'\n")).expect("a survey");
    let new = format!("{SURVEY}[output]\nfolder = 'new/out'\n");
    fs::write(folder.at("new.toml"), new).expect("a survey");
    for (name, file) in [("direct", "out/shot_0001.bin"), ("linked", "link")] {
        let survey = SURVEY.replace("vp = 2000", &format!("vp = '{file}'"));
        fs::write(folder.at(name), survey).expect("a survey");
    }
    let before = all(&folder);
    for args in [
        &["run", "survey.json"][..],
        &["run", "direct"],
        &["run", "linked", "--resume"],
        &["run", "survey.toml", "--trace", "survey.toml"],
        &["run", "survey.toml", "--trace", "out/shot_0001.json"],
        &["run", "direct", "--dry-run"],
        // This folder does not exist yet.
        &["run", "new.toml", "--trace", "./new/out/shot_0001.bin"],
    ] {
        let refused = folder.gpusched(args);
        assert!(refused.status == 2 && refused.err.contains("overwrite"), "{args:?}: {refused:?}");
        assert!(all(&folder) == before, "{args:?} has changed a file");
    }
}

/// The refusal comes before the run and names the file; a folder whose name no file of the survey
/// has is not touched.
#[test]
fn folder_in_place_of_a_result_is_refused() {
    let folder = Workspace::with_survey(SURVEY);
    fs::create_dir_all(folder.at("out/shot_0002.bin")).expect("a folder");
    for name in ["shot_0001.bin", "shot_0001.json", "shot_0001_step_000002.bin"] {
        let place = folder.make(format!("out/{name}"));
        let refused = folder.gpusched(&["run", "survey.toml", "--dry-run"]);
        assert!(
            refused.status == 2 && refused.err.contains(&format!("{name}: it is a folder")),
            "{refused:?}"
        );
        fs::remove_dir(place).expect("a folder");
    }
    assert_eq!(folder.gpusched(&["run", "survey.toml"]).status, 0);
}

#[test]
fn paths_need_not_be_utf8() {
    let folder = Workspace::new();
    let home = folder.make(OsStr::from_bytes(b"\xff"));
    let survey = home.join("survey.toml");
    fs::write(&survey, SURVEY).expect("a survey");
    for more in ["--json", "--dry-run", "--resume"] {
        let ended = folder.gpusched(&["run".as_ref(), survey.as_os_str(), more.as_ref()]);
        let warned = ended.err.lines().all(|line| line.starts_with("warning: "));
        assert!(ended.status == 0 && warned, "{more}: {ended:?}");
    }
    assert!(home.join("out/shot_0001.json").exists());
}

/// Links in the output folder under the names that the command uses are not followed.
#[test]
fn links_in_the_output_folder_are_not_followed() {
    let folder = Workspace::with_survey(SURVEY);
    let of_the_shot =
        [".bin", ".json", "_step_000000.bin", "_gather.png"].map(|end| format!("shot_0001{end}"));
    for name in of_the_shot.into_iter().chain(["survey.json".into()]) {
        let _ = fs::remove_dir_all(folder.at("out"));
        folder.make("out");
        fs::write(folder.at("precious"), "kept").expect("a file");
        symlink("../precious", folder.at("out").join(&name)).expect("a link");
        let ended = folder.gpusched(&["run", "survey.toml"]);
        assert!((0..=2).contains(&ended.status), "{name}: {ended:?}");
        assert_eq!(fs::read(folder.at("precious")).expect("a file"), b"kept", "{name}: {ended:?}");
    }
}

/// The survey's path, and a trace's, with hostile names.
#[test]
fn odd_paths_on_the_command_line_are_read_or_refused_in_a_sentence() {
    let folder = Workspace::with_survey(SURVEY);
    let long = "x".repeat(10_000);
    symlink("loop", folder.at("loop")).expect("a link");
    let odd = ["", "/", "..", "no/such/survey.toml", "survey.toml/", "line\nbreak", "\x1b[2J", "loop", &long];
    let before = all(&folder);
    for path in odd.map(OsStr::new).into_iter().chain([OsStr::from_bytes(b"\xff\xfe")]) {
        let refused = folder.gpusched(&["run".as_ref(), path]);
        let shown = path.to_string_lossy().chars().take(20).collect::<String>();
        assert_eq!(refused.status, 2, "{shown:?}: {refused:?}");
        // The command line's own parser reports it in several lines.
        let is_odd = |letter: char| letter.is_control() && letter != '\n';
        assert!(!refused.err.contains(is_odd), "{shown:?}: {refused:?}");
        let traced = ["run", "survey.toml", "--dry-run", "--trace"].map(OsStr::new);
        assert!(folder.gpusched(&[&traced[..], &[path]].concat()).status >= 0, "{shown:?}");
        assert_eq!(folder.gpusched(&["simulate".as_ref(), path]).status, 2);
    }
    assert_eq!(all(&folder), before);
}
