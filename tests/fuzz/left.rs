//! What earlier runs and other processes have left: descriptions of shots, the file of the leases.

use std::cell::OnceCell;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};

use gpusched::fd::pause::State;

use crate::harness::{Target, folder, run};
use crate::job::Job;
use crate::paused::{self, Header, Kept};
use crate::places::{SURVEY, gpusched};
use crate::resume::{Found, look};

/// A survey that has been run: its description is read again by a run that goes on.
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
                match look(job, false).as_slice() {
                    [Found::Whole] => None,
                    [Found::Unfit(why)] => Some(why.clone()),
                    other => panic!("one shot, whose description is there: {other:?}"),
                }
            })
        },
        seeds: || vec![fs::read(survey().join("out/shot_0001.json")).expect("a description")],
    });
    fs::remove_dir_all(survey()).expect("the survey's folder");
}

/// Run once; the folder.
fn survey() -> PathBuf {
    let folder = folder("resumed");
    if !folder.join("out").exists() {
        fs::write(folder.join("survey.toml"), SURVEY).expect("a survey");
        let (status, said) = gpusched(&folder, &["run".as_ref(), "survey.toml".as_ref()]);
        assert_eq!(status, 0, "{said}");
    }
    folder
}

/// What a shot that was stopped has left.
#[test]
fn paused_states() {
    struct Values(Vec<f32>);

    impl State for Values {
        fn kind(&self) -> String {
            "of a test".into()
        }

        fn values(&self) -> u64 {
            self.0.len() as u64
        }

        fn leave(&mut self, to: &mut dyn FnMut(&[f32]) -> gpusched::Result<()>) -> gpusched::Result<()> {
            to(&self.0)
        }

        fn take(&mut self, from: &mut dyn FnMut(&mut [f32]) -> gpusched::Result<()>) -> gpusched::Result<()> {
            from(&mut self.0)
        }
    }

    run(&Target {
        name: "paused",
        words: &[
            "key",
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
        give: |path, _| match Kept::open(path) {
            Err(why) => Some(why),
            Ok(kept) => {
                let kept = kept.expect("a state that is there");
                let mut state = Values(vec![0.0; kept.header.values as usize]);
                kept.give(path, &mut state).expect("what was checked");
                None
            }
        },
        seeds: || {
            let path = folder("paused").join("shot_0001.paused");
            let snapshots = [(10, 7), (20, 1)].into();
            let header =
                Header { key: "k".into(), kind: "of a test".into(), done: 20, values: 50, snapshots };
            paused::write(&path, &header, &mut Values(vec![0.5; 50])).expect("a state");
            vec![fs::read(&path).expect("a state")]
        },
    });
    fs::remove_dir_all(folder("paused")).expect("the folder of the state");
}

/// Written over while a member lives, and read by it and by one that comes.
#[test]
#[cfg(target_os = "linux")]
fn lease_file() {
    use gpusched::node::{Device, Node, Want};

    const UUIDS: [&str; 2] = ["GPU-1", "GPU-2"];
    fn join(folder: &Path) -> Result<Node, gpusched::Error> {
        let devices = UUIDS.map(|uuid| Some(Device { uuid, slots: 2 }));
        Node::join(Some(folder), &devices).map(|node| node.expect("a folder was named"))
    }
    fn fresh() -> PathBuf {
        let leases = folder("leases-of");
        let _ = fs::remove_dir_all(&leases);
        fs::DirBuilder::new().mode(0o700).create(&leases).expect("a folder");
        leases
    }
    fn use_it(node: &Node) -> Result<(), gpusched::Error> {
        let mut inside = node.inside()?;
        let outlook = inside.outlook();
        assert_eq!(outlook.len(), UUIDS.len());
        assert!(inside.seconds_per_cost() >= 0.0);
        inside.want(Some(Want { priority: 1, costs: vec![Some(1.0); 2], bytes: vec![5; 2] }));
        inside.outlook();
        let hold = inside.hold(1, Some(2.0), 7)?;
        inside.learned(3.0);
        drop(inside);
        hold.in_use(3);
        drop(hold);
        node.inside()?.outlook();
        Ok(())
    }
    run(&Target {
        name: "leases",
        words: &["gpuslea1", "bmem", "GPU-1", "GPU-2", "\x00\x00", "\x01", "\x02\x00", "\x7f", "@"],
        runs: 1000,
        most: 5 * 8192,
        memory: |length| (16 << 20) + 100 * length,
        give: |_, bytes| {
            let leases = fresh();
            let first = join(&leases).expect("to join an empty folder");
            use_it(&first).expect("to lease");
            let file = fs::File::options().write(true).open(leases.join("leases-1")).expect("the file");
            file.write_all_at(bytes, 0).expect("to write");
            drop(file);
            let last = use_it(&first).and_then(|()| use_it(&join(&leases)?)).err();
            last.map(|error| error.to_string())
        },
        seeds: || {
            let leases = fresh();
            let node = join(&leases).expect("to join");
            let mut inside = node.inside().expect("the door");
            let hold = inside.hold(0, Some(2.0), 7).expect("a slot");
            drop(inside);
            let mut bytes = fs::read(leases.join("leases-1")).expect("the file");
            drop(hold);
            bytes.truncate(2 * 8192 + 200);
            vec![bytes]
        },
    });
    fs::remove_dir_all(folder("leases-of")).expect("the folder of the leases");
}
