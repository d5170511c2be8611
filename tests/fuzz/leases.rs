//! The lease file, which other processes write.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use gpusched::Result;
use gpusched::node::{Membership, NodePolicy, SharedDevice, SlotRequest};
use testkit::Folder;
use testkit::fuzz::{Target, run};

const UUIDS: [&str; 2] = ["GPU-1", "GPU-2"];

fn join(folder: &Path) -> Result<Membership> {
    let devices = UUIDS.map(|uuid| Some(SharedDevice { uuid, slots: 2 }));
    Membership::join(Some(folder), &devices, NodePolicy::default())
        .map(|node| node.expect("a folder was named"))
}

fn use_it(node: &Membership) -> Result<()> {
    let mut inside = node.lock()?;
    assert_eq!(inside.availability().len(), UUIDS.len());
    assert!(inside.seconds_per_cost() >= 0.0);
    inside.request(Some(SlotRequest::of_task(1, [Some(1.0); 2])));
    let looks = inside.availability();
    assert!(looks.iter().flat_map(|look| &look.busy_slots).all(|lane| lane.is_finite() && *lane >= 0.0));
    let hold = inside.lease(1, Some(2.0), 7)?;
    inside.report_seconds_per_cost(3.0);
    drop(inside);
    hold.set_used_bytes(3);
    drop(hold);
    node.lock()?.availability();
    Ok(())
}

/// The table is overwritten while a member uses it; the member reads it, and so does one that
/// joins.
#[test]
fn lease_file() {
    run(&Target {
        name: "leases",
        words: &["gpuslea2", "bmem", "GPU-1", "GPU-2", "\x00\x00", "\x01", "\x02\x00", "\x7f", "@"],
        runs: 1000,
        most: 5 * 8192,
        memory: |length| (16 << 20) + 100 * length,
        give: |_, bytes| {
            let folder = Folder::new();
            let leases = folder.at("leases");
            let first = join(&leases).expect("to join an empty folder");
            use_it(&first).expect("to lease");
            let file = fs::File::options().write(true).open(leases.join("leases-2")).expect("the file");
            file.write_all_at(bytes, 0).expect("to write");
            drop(file);
            let last = use_it(&first).and_then(|()| use_it(&join(&leases)?)).err();
            last.map(|error| error.to_string())
        },
        seeds: || {
            let folder = Folder::new();
            let node = join(&folder.at("leases")).expect("to join");
            let hold = node.lock().and_then(|mut inside| inside.lease(0, Some(2.0), 7)).expect("a slot");
            let mut bytes = fs::read(folder.at("leases/leases-2")).expect("the file");
            drop(hold);
            bytes.truncate(2 * 8192 + 200);
            vec![bytes]
        },
    });
}
