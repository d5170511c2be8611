//! Fuzzes files of earlier runs: descriptions of shots, and checkpoints.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

use clap::Parser;
use testkit::fuzz::{Target, folder, run};

use crate::args::{Args, Command};
use crate::checkpoint::{self, Checkpoint, Header, Values};
use crate::job::Job;
use crate::restart::End;
use crate::resume::{Found, examine};
use crate::run as command;

const SURVEY: &str = "[grid]\nn = [6, 6, 6]\nspacing_m = 10\n[model]\nvp = 2000\n[time]\ndt_s = 0.001\nnt = 3\n\
                      [wavelet]\nfrequency_hz = 40\n[sources]\nfirst_m = [0, 0, 0]\n[snapshots]\nevery = 2\n";

/// Mutates the description of a computed shot. A resumed run reads it.
#[test]
fn resumed_descriptions() {
    run(&Target {
        name: "resume",
        words: &[
            "key",
            "record",
            "crc32",
            "snapshots",
            "file",
            "step",
            "shot",
            "null",
            "true",
            "[]",
            "{}",
            "00000000",
            "ffffffff",
            "fffffffff",
            "-1",
            "../../precious",
        ],
        runs: 2000,
        most: 10_000,
        memory: |length| (8 << 20) + 100 * length,
        give: |_, bytes| {
            thread_local! { static JOB: OnceCell<Job> = const { OnceCell::new() }; }
            JOB.with(|job| {
                let job = job.get_or_init(|| Job::load(&survey().join("survey.toml")).expect("a survey"));
                fs::write(job.folder.join("shot_0001.json"), bytes).expect("a description");
                match &examine(job, &BTreeSet::new(), false).expect("a file that can be read")[&1] {
                    Found::Whole => None,
                    Found::Unfit(why) => Some(why.clone()),
                    other => panic!("one shot, whose description is there: {other:?}"),
                }
            })
        },
        seeds: || vec![fs::read(survey().join("out/shot_0001.json")).expect("a description")],
    });
    fs::remove_dir_all(survey()).expect("the survey's folder");
}

/// Computes a survey at the first call. Returns its folder.
fn survey() -> PathBuf {
    let folder = folder("resumed");
    if !folder.join("out").exists() {
        fs::write(folder.join("survey.toml"), SURVEY).expect("a survey");
        let path = folder.join("survey.toml");
        let words = [OsStr::new("gpusched"), "run".as_ref(), path.as_os_str(), "--devices=cpu".as_ref()];
        let args = Args::parse_from(words.into_iter().chain(["--no-rates-cache".as_ref()]));
        let Command::Run(options) = args.command else { panic!("not a run") };
        assert!(matches!(command::run(&options), Ok(End::Whole)));
    }
    folder
}

/// Mutates the saved state of a stopped shot.
#[test]
fn paused_states() {
    run(&Target {
        name: "paused",
        words: &[
            "key",
            "layout",
            "kind",
            "done",
            "values",
            "snapshots",
            "{",
            "}",
            "null",
            "-1",
            "18446744073709551615",
            "\n",
        ],
        runs: 3000,
        most: 10_000,
        memory: |length| (2 << 20) + 100 * length,
        give: |path, _| match Checkpoint::open(path) {
            Err(why) => Some(why),
            Ok(kept) => {
                let kept = kept.expect("a state that is there");
                let mut state = Values(vec![0.0; kept.header.values as usize]);
                kept.copy_to(path, &mut state).expect("what was checked");
                None
            }
        },
        seeds: || {
            let path = folder("paused").join("shot_0001.paused");
            let snapshots = [(10, 7), (20, 1)].into();
            let key = "k".into();
            let header = Header { key, layout: 1, kind: "of a test".into(), done: 20, values: 50, snapshots };
            checkpoint::write(&path, &header, &mut Values(vec![0.5; 50])).expect("a state");
            vec![fs::read(&path).expect("a state")]
        },
    });
    fs::remove_dir_all(folder("paused")).expect("the folder of the state");
}
