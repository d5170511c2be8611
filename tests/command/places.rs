//! Where files are made: only in the folders that the caller named, whatever the survey is called and whatever lies there.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use testkit::Folder;
use testkit::process::isolated;

const SURVEY: &str = "[grid]\nn = [6, 6, 6]\nspacing_m = 10\n[model]\nvp = 2000\n[time]\ndt_s = 0.001\nnt = 3\n\
                      [wavelet]\nfrequency_hz = 40\n[sources]\nfirst_m = [0, 0, 0]\n[snapshots]\nevery = 2\n";

/// Everything below a folder: the kind of each entry and its content. Links are not followed.
fn tree(folder: &Path, found: &mut BTreeMap<OsString, Vec<u8>>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let kind = fs::symlink_metadata(&path).expect("an entry").file_type();
        let content = if kind.is_dir() {
            tree(&path, found);
            b"folder".to_vec()
        } else if kind.is_symlink() {
            fs::read_link(&path).expect("a link").into_os_string().into_encoded_bytes()
        } else {
            fs::read(&path).expect("a file")
        };
        found.insert(path.into_os_string(), content);
    }
}

fn all(folder: &Folder) -> BTreeMap<OsString, Vec<u8>> {
    let mut found = BTreeMap::new();
    tree(folder.path(), &mut found);
    found
}

/// Runs the command in `work`; gives its status and what it said on standard error.
fn gpusched(work: &Path, args: &[&OsStr]) -> (i32, String) {
    let mut command = isolated(testkit::command::executable());
    command.args(args).current_dir(work).env("XDG_CACHE_HOME", work.join("cache"));
    let output = command.output().expect("the command");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap_or_else(|| panic!("killed by a signal: {said}")), said)
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
    let folder = Folder::new();
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
        let (status, said) = gpusched(&work, &["run".as_ref(), "survey/survey.toml".as_ref()]);
        assert_eq!(status, if allowed.is_some() { 0 } else { 2 }, "{named}: {said}");
        assert!(!said.trim_end().chars().any(char::is_control), "{named}: {said:?}");
        let after = all(&folder);
        let home = allowed.map(|allowed| work.join("survey").join(allowed));
        for (path, content) in &after {
            let path = Path::new(path);
            let inside = path.starts_with(work.join("cache"))
                || home.as_ref().is_some_and(|home| {
                    path.starts_with(home)
                        || path.starts_with(resolved(home))
                        || resolved(home) == resolved(path)
                });
            let kept = before.get(path.as_os_str()) == Some(content);
            assert!(inside || kept, "{named}: {} is new", path.display());
        }
        for path in before.keys() {
            assert!(after.contains_key(path), "{named}: {} is gone", path.display());
        }
    }
}

fn resolved(path: &Path) -> std::path::PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

#[test]
fn inputs_and_results_are_not_overwritten() {
    let folder = Folder::new();
    folder.make("out");
    let model: Vec<u8> = [2000_f32; 6 * 6 * 6].into_iter().flat_map(f32::to_le_bytes).collect();
    fs::write(folder.at("out/shot_0001.bin"), model).expect("a model");
    symlink("out/shot_0001.bin", folder.at("link")).expect("a link");
    fs::write(folder.at("survey.toml"), SURVEY).expect("a survey");
    fs::write(folder.at("survey.json"), format!("{SURVEY}[output]\nfolder = '.'\n")).expect("a survey");
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
    ] {
        let (status, said) = gpusched(folder.path(), &args.iter().map(OsStr::new).collect::<Vec<_>>());
        assert_eq!(status, 2, "{args:?}: {said}");
        assert!(said.contains("overwrite"), "{args:?}: {said}");
        assert!(all(&folder) == before, "{args:?} has changed a file");
    }
}

#[test]
fn paths_need_not_be_utf8() {
    let folder = Folder::new();
    let home = folder.make(OsStr::from_bytes(b"\xff"));
    fs::write(home.join("survey.toml"), SURVEY).expect("a survey");
    let survey = home.join("survey.toml");
    for more in [&["--json"][..], &["--dry-run"], &["--resume"]] {
        let mut args: Vec<&OsStr> = vec!["run".as_ref(), survey.as_ref()];
        args.extend(more.iter().map(OsStr::new));
        let (status, said) = gpusched(folder.path(), &args);
        assert_eq!((status, said.as_str()), (0, ""), "{more:?}");
    }
    assert!(home.join("out/shot_0001.json").exists());
}

/// What waits in the output folder under the names that the command uses must not lead anywhere.
#[test]
fn links_in_the_output_folder_are_not_followed() {
    let folder = Folder::new();
    fs::write(folder.at("survey.toml"), SURVEY).expect("a survey");
    let of_the_shot =
        [".bin", ".json", "_step_000000.bin", "_gather.png"].map(|end| format!("shot_0001{end}"));
    for name in of_the_shot.into_iter().chain(["survey.json".into()]) {
        let _ = fs::remove_dir_all(folder.at("out"));
        folder.make("out");
        fs::write(folder.at("precious"), "kept").expect("a file");
        symlink("../precious", folder.at("out").join(&name)).expect("a link");
        let (status, said) = gpusched(folder.path(), &["run".as_ref(), "survey.toml".as_ref()]);
        assert!((0..=2).contains(&status), "{name}: {said}");
        assert_eq!(fs::read(folder.at("precious")).expect("a file"), b"kept", "{name}: {said}");
    }
}

/// The survey's own path, and a trace's, are as hostile as their caller likes.
#[test]
fn odd_paths_on_the_command_line_are_read_or_refused_in_a_sentence() {
    let folder = Folder::new();
    let long = "x".repeat(10_000);
    fs::write(folder.at("survey.toml"), SURVEY).expect("a survey");
    symlink("loop", folder.at("loop")).expect("a link");
    let odd = ["", "/", "..", "no/such/survey.toml", "survey.toml/", "line\nbreak", "\x1b[2J", "loop", &long];
    let before = all(&folder);
    for path in odd.map(OsStr::new).into_iter().chain([OsStr::from_bytes(b"\xff\xfe")]) {
        let (status, said) = gpusched(folder.path(), &["run".as_ref(), path]);
        let shown = || format!("{:?}: {said:?}", path.to_string_lossy().chars().take(20).collect::<String>());
        assert_eq!(status, 2, "{}", shown());
        // The command line's own parser takes some lines to say it.
        assert!(!said.chars().any(|letter| letter.is_control() && letter != '\n'), "{}", shown());
        let traced = ["run".as_ref(), "survey.toml".as_ref(), "--dry-run".as_ref(), "--trace".as_ref(), path];
        assert!(gpusched(folder.path(), &traced).0 >= 0);
        assert!(gpusched(folder.path(), &["simulate".as_ref(), path]).0 == 2);
    }
    assert_eq!(all(&folder), before);
}
