//! The lease file, which other processes write.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};

use testkit::fuzz::{Target, folder, run};

/// Written over while a member lives, and read by it and by one that comes.
#[test]
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
