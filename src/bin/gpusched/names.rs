//! Names of the files of a shot. Each name is unique in a survey.

use std::io;
use std::path::{Path, PathBuf};

use gpusched::descriptor;

/// Name of the manifest, with the survey's parameters and the state of each shot.
pub const MANIFEST: &str = "survey.json";

/// Returns a name of the manifest of a part of a survey: the `count`th, from 1, for this process on
/// this node.
pub fn part_manifest(count: usize) -> String {
    let more = if count == 1 { String::new() } else { format!("-{count}") };
    format!("survey.{}-{}{more}.json", node(), std::process::id())
}

/// Returns true for the names of the manifests of surveys and of parts.
pub fn is_manifest(name: &str) -> bool {
    let part = name.strip_prefix("survey.").and_then(|rest| rest.strip_suffix(".json")?.rsplit_once('-'));
    name == MANIFEST
        || part.is_some_and(|(node, process)| {
            node.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-')
                && !process.is_empty()
                && process.bytes().all(|c| c.is_ascii_digit())
        })
}

/// Returns the host name in letters, digits and dashes.
pub fn node() -> String {
    let file = descriptor::open_read(Path::new("/proc/sys/kernel/hostname"));
    let name = file.and_then(io::read_to_string).unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = name.trim().chars().take(64).map(plain).collect();
    if name.is_empty() { "node".into() } else { name }
}

/// Returns true if a run may write a file of this name to its output folder.
pub fn is_output(name: &str) -> bool {
    let number = name.strip_prefix("shot_").and_then(|rest| rest.chars().next());
    is_manifest(name) || number.is_some_and(|digit| digit.is_ascii_digit())
}

/// Returns the common begin of a shot's file names. The number has four digits, or more if
/// necessary.
fn stem(number: usize) -> String {
    format!("shot_{number:04}")
}

pub fn record(number: usize) -> String {
    format!("{}.bin", stem(number))
}

/// Returns the name of the description.
pub fn side(number: usize) -> String {
    format!("{}.json", stem(number))
}

/// Returns the name of the state of a stopped shot.
pub fn paused(number: usize) -> String {
    format!("{}.paused", stem(number))
}

pub fn snapshot(number: usize, step: usize) -> String {
    format!("{}_step_{step:06}.bin", stem(number))
}

/// Returns the number of the shot whose snapshot has this name.
pub fn snapshot_of(name: &str) -> Option<usize> {
    snapshot_parts(name).map(|(number, _)| number)
}

/// Returns the number of the shot, and the step, of the snapshot with this name.
pub fn snapshot_parts(name: &str) -> Option<(usize, usize)> {
    let (number, step) = name.strip_prefix("shot_")?.strip_suffix(".bin")?.split_once("_step_")?;
    let (number, step) = (number.parse().ok()?, step.parse().ok()?);
    (snapshot(number, step) == name).then_some((number, step))
}

/// Returns the number of the shot whose record, description, saved state or snapshot has this name.
pub fn shot_of(name: &str) -> Option<usize> {
    let number = name.strip_prefix("shot_")?.split_once('.')?.0.parse().ok();
    number
        .filter(|&number: &usize| {
            [record(number), side(number), paused(number)].iter().any(|own| own == name)
        })
        .or_else(|| snapshot_of(name))
}

/// Subjects of the pictures of a shot.
pub const PICTURES: [&str; 2] = ["gather", "snapshot"];

pub fn picture(folder: &Path, number: usize, what: &str) -> PathBuf {
    folder.join(format!("{}_{what}.png", stem(number)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_files_of_a_survey_share_a_name() {
        let numbers = [1, 10, 100, 999, 1000, 9999, 10_000, 10_001, 99_999, 100_000, 1_000_000];
        let steps = [0, 1, 10, 999_999, 1_000_000, 1_000_001, 9_999_999];
        let mut names = BTreeSet::new();
        let mut count = 0;
        for number in numbers {
            let pictures = PICTURES.map(|what| picture(Path::new(""), number, what));
            let pictures = pictures.map(|path| path.to_string_lossy().into_owned());
            let snapshots = steps.map(|step| snapshot(number, step));
            for name in [record(number), side(number)].into_iter().chain(pictures).chain(snapshots) {
                assert!(names.insert(name.clone()), "{name} twice");
                count += 1;
            }
        }
        assert_eq!(names.len(), count);
    }

    #[test]
    fn names_of_snapshots_are_recognised() {
        assert_eq!(snapshot_of("shot_0003_step_000060.bin"), Some(3));
        assert_eq!(snapshot_of("shot_12345_step_1000000.bin"), Some(12_345));
        for (name, number) in [(record(7), 7), (side(12_345), 12_345), (snapshot(3, 60), 3), (paused(7), 7)] {
            assert_eq!(shot_of(&name), Some(number));
        }
        assert_eq!(["shot_7.bin", "shot_0007.bin.old"].map(shot_of), [None; 2]);
        for other in [
            "shot_0003.bin",
            "shot_0003_step_60.bin",
            "shot_0003_step_+00060.bin",
            "shot_0003_step_../../x.bin",
            "shot_0003_step_.bin",
            "../shot_0003_step_000060.bin",
        ] {
            assert_eq!(snapshot_of(other), None, "{other}");
        }
    }
}
