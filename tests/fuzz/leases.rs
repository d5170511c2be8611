//! The lease file, which other processes write.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use gpusched::Result;
use gpusched::node::{Device, Node, Want};
use testkit::Folder;
use testkit::fuzz::{Target, run};

const UUIDS: [&str; 2] = ["GPU-1", "GPU-2"];

fn join(folder: &Path) -> Result<Node> {
    let devices = UUIDS.map(|uuid| Some(Device { uuid, slots: 2 }));
    Node::join(Some(folder), &devices).map(|node| node.expect("a folder was named"))
}

fn use_it(node: &Node) -> Result<()> {
    let mut inside = node.inside()?;
    assert_eq!(inside.outlook().len(), UUIDS.len());
    assert!(inside.seconds_per_cost() >= 0.0);
    inside.want(Some(Want { priority: 1, costs: vec![Some(1.0); 2], bytes: vec![5; 2] }));
    let looks = inside.outlook();
    assert!(looks.iter().flat_map(|look| &look.lanes).all(|lane| lane.is_finite() && *lane >= 0.0));
    let hold = inside.hold(1, Some(2.0), 7)?;
    inside.learned(3.0);
    drop(inside);
    hold.in_use(3);
    drop(hold);
    node.inside()?.outlook();
    Ok(())
}

/// Written over while a member lives, and read by it and by one that comes.
#[test]
fn lease_file() {
    run(&Target {
        name: "leases",
        words: &["gpuslea1", "bmem", "GPU-1", "GPU-2", "\x00\x00", "\x01", "\x02\x00", "\x7f", "@"],
        runs: 1000,
        most: 5 * 8192,
        memory: |length| (16 << 20) + 100 * length,
        give: |_, bytes| {
            let folder = Folder::new();
            let leases = folder.at("leases");
            let first = join(&leases).expect("to join an empty folder");
            use_it(&first).expect("to lease");
            let file = fs::File::options().write(true).open(leases.join("leases-1")).expect("the file");
            file.write_all_at(bytes, 0).expect("to write");
            drop(file);
            let last = use_it(&first).and_then(|()| use_it(&join(&leases)?)).err();
            last.map(|error| error.to_string())
        },
        seeds: || {
            let folder = Folder::new();
            let node = join(&folder.at("leases")).expect("to join");
            let hold = node.inside().and_then(|mut inside| inside.hold(0, Some(2.0), 7)).expect("a slot");
            let mut bytes = fs::read(folder.at("leases/leases-1")).expect("the file");
            drop(hold);
            bytes.truncate(2 * 8192 + 200);
            vec![bytes]
        },
    });
}
