//! Several members in one process, forks, and what is left behind.

use std::time::Duration;

use gpusched::Error;
use gpusched::node::{Device, Node, Want, Woken};

use super::member::{Case, Folder, begin, join, leases};

pub const CASES: &[Case] = &[
    ("two members of one process exclude each other", two_in_one),
    ("a lease is given back also by a thread that is inside", given_back_inside),
    ("a lease outlives its node", a_hold_outlives_its_node),
    ("a failing hold goes nowhere: devices that are not shared, not there", not_shared),
    ("the 257th member is told", the_257th),
    ("joining and leaving leaves no descriptor and no lock", nothing_is_left),
    ("a wait ends as it should", waits),
    ("one's own writes wake nobody of one's own", own_writes),
    ("what is worth to know is told to all, and stays", worth),
    ("in a child all calls say so, and it may join itself", in_a_child),
];

fn two_in_one() {
    let folder = Folder::new();
    let (a, b) = (join(&leases(&folder), 2, 1).unwrap(), join(&leases(&folder), 2, 1).unwrap());
    let hold = begin(&a, 1, 0, 1, 1.0, 10).unwrap().expect("a free slot");
    assert!(begin(&b, 1, 0, 1, 1.0, 10).unwrap().is_none());
    assert!(begin(&b, 0, 0, 1, 1.0, 10).unwrap().is_some());
    drop(hold);
    assert!(begin(&b, 1, 0, 1, 1.0, 10).unwrap().is_some());
    a.set_slots(0, 3);
    let mut inside = a.inside().unwrap();
    assert_eq!(inside.outlook()[0].lanes.len(), 0);
}

fn given_back_inside() {
    let folder = Folder::new();
    let (a, b) = (join(&leases(&folder), 1, 1).unwrap(), join(&leases(&folder), 1, 1).unwrap());
    let hold = begin(&a, 0, 0, 1, 1.0, 10).unwrap().expect("a free slot");
    let inside = a.inside().unwrap();
    drop(hold);
    drop(inside);
    assert!(b.inside().unwrap().outlook()[0].lanes.is_empty());
}

fn a_hold_outlives_its_node() {
    let folder = Folder::new();
    let (a, b) = (join(&leases(&folder), 1, 1).unwrap(), join(&leases(&folder), 1, 1).unwrap());
    let hold = begin(&a, 0, 0, 1, 1.0, 10).unwrap().expect("a free slot");
    a.inside().unwrap().want(Some(Want { costs: vec![Some(1.0)], ..Want::default() }));
    assert_eq!(b.inside().unwrap().outlook()[0].waiting, 1);
    drop(a);
    let look = b.inside().unwrap().outlook().remove(0);
    assert_eq!((look.lanes.len(), look.waiting, look.pending_bytes), (1, 0, 10));
    drop(hold);
    assert!(b.inside().unwrap().outlook()[0].lanes.is_empty());
}

fn not_shared() {
    let folder = Folder::new();
    let devices = [None, Some(Device { uuid: "GPU-0", slots: 1 })];
    let (a, b) = (Node::join(Some(&leases(&folder)), &devices), join(&leases(&folder), 1, 1).unwrap());
    let a = a.unwrap().expect("leases");
    let mut inside = a.inside().unwrap();
    assert_eq!(inside.outlook().len(), 2);
    let (none, one) = (inside.hold(0, None, 1).unwrap(), inside.hold(1, None, 2).unwrap());
    assert!(matches!(inside.hold(2, None, 1), Err(Error::Argument { .. })));
    drop(inside);
    none.in_use(1);
    assert_eq!(b.inside().unwrap().outlook()[0].pending_bytes, 2);
    drop((none, one));
    let mut inside = a.inside().unwrap();
    let most: Vec<_> = (0..1000).map_while(|_| inside.hold(1, None, 2).ok()).collect();
    assert!((170..300).contains(&most.len()), "{}", most.len());
    drop(inside);
    assert_eq!(b.inside().unwrap().outlook()[0].lanes.len(), most.len());
    drop(most);
    assert!(b.inside().unwrap().outlook()[0].lanes.is_empty());
    for uuid in ["", "two words", &"x".repeat(96)] {
        let refused = Node::join(Some(&leases(&folder)), &[Some(Device { uuid, slots: 1 })]);
        assert!(matches!(refused, Err(Error::Argument { .. })), "{refused:?}");
    }
}

fn the_257th() {
    let folder = Folder::new();
    let mut nodes: Vec<Node> = (0..256).map(|_| join(&leases(&folder), 1, 1).expect("to join")).collect();
    let error = join(&leases(&folder), 1, 1).expect_err("no room");
    assert!(error.to_string().contains("256 schedulers use it"), "{error}");
    let hold = begin(&nodes[255], 0, 0, 1, 1.0, 1).unwrap();
    assert!(hold.is_some() && begin(&nodes[0], 0, 0, 1, 1.0, 1).unwrap().is_none());
    nodes.swap_remove(17);
    nodes.push(join(&leases(&folder), 1, 1).expect("the place of the one that has left"));
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("the descriptors").count()
}

fn nothing_is_left() {
    let folder = Folder::new();
    let before = descriptors();
    for round in 0..300 {
        let node = join(&leases(&folder), 4, 1).expect("to join");
        let hold = begin(&node, round % 4, 0, 1, 1.0, 10).unwrap();
        assert!(hold.is_some(), "round {round}");
        if round % 3 == 0 {
            assert_eq!(node.wait(Some(Duration::ZERO)), Woken::Timeout);
        }
    }
    assert_eq!(descriptors(), before);
    let locks = std::fs::read_to_string("/proc/locks").expect("the locks");
    let file = std::fs::metadata(leases(&folder).join("leases-1")).expect("the file");
    let inode = format!(":{} ", std::os::unix::fs::MetadataExt::ino(&file));
    assert!(!locks.contains(&inode), "{locks}");
}

fn waits() {
    let folder = Folder::new();
    let (a, b) = (join(&leases(&folder), 1, 1).unwrap(), join(&leases(&folder), 1, 1).unwrap());
    assert_eq!(a.wait(None), Woken::Changed, "the other has joined");
    assert_eq!(a.wait(Some(Duration::from_millis(1))), Woken::Timeout);
    a.wake();
    a.wake();
    assert_eq!(a.wait(None), Woken::Woken);
    let hold = begin(&b, 0, 0, 1, 1.0, 10).unwrap();
    assert_eq!(a.wait(None), Woken::Changed);
    assert_eq!(a.wait(Some(Duration::from_millis(1))), Woken::Timeout);
    drop(hold);
    // Seen by another thread of the same member: the one that waits is told all the same.
    assert!(a.inside().unwrap().outlook()[0].lanes.is_empty());
    assert_eq!(a.wait(None), Woken::Changed);
    drop(b);
    assert_eq!(a.wait(None), Woken::Changed);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| a.wait(None));
        std::thread::sleep(Duration::from_millis(10));
        a.wake();
        assert_eq!(waits.join().unwrap(), Woken::Woken);
    });
}

fn own_writes() {
    let folder = Folder::new();
    let a = join(&leases(&folder), 1, 1).unwrap();
    assert_eq!(a.wait(Some(Duration::ZERO)), Woken::Timeout);
    for _ in 0..10 {
        drop(begin(&a, 0, 0, 1, 1.0, 10).unwrap());
        assert_eq!(a.wait(Some(Duration::from_millis(2))), Woken::Timeout);
    }
}

fn worth() {
    let folder = Folder::new();
    let (a, b) = (join(&leases(&folder), 1, 1).unwrap(), join(&leases(&folder), 1, 1).unwrap());
    for wrong in [f64::NAN, -1.0, 0.0, f64::INFINITY] {
        a.inside().unwrap().learned(wrong);
        assert_eq!(b.inside().unwrap().worth(), None);
    }
    a.inside().unwrap().learned(3.5);
    assert_eq!(b.inside().unwrap().worth(), Some(3.5));
    let hold = begin(&a, 0, 0, 1, 100.0, 10).unwrap();
    let lane = b.inside().unwrap().outlook()[0].lanes[0];
    assert!(lane <= 350.0 && lane > 100.0, "{lane}");
    drop((hold, a, b));
    assert_eq!(join(&leases(&folder), 1, 1).unwrap().inside().unwrap().worth(), Some(3.5));
}

fn in_a_child() {
    let folder = Folder::new();
    let (a, b) = (join(&leases(&folder), 1, 1).unwrap(), join(&leases(&folder), 1, 1).unwrap());
    let mut hold = begin(&a, 0, 0, 1, 1.0, 10).unwrap();
    let mut node = Some(a);
    // SAFETY: the child calls a few functions of the library, which is what this test is about, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: a clock that ends a child that hangs.
        unsafe { libc::alarm(20) };
        let a = node.take().expect("a node");
        let forked = matches!(a.inside(), Err(Error::Forked)) && a.wait(None) == Woken::Woken;
        a.set_slots(0, 7);
        a.wake();
        let own = join(&leases(&folder), 1, 1);
        // The parent's lease is another's here, and dropping what was the parent's closes nothing of ours.
        drop((hold.take(), a));
        let works = own.is_ok_and(|own| begin(&own, 0, 0, 1, 1.0, 1).is_ok_and(|held| held.is_none()));
        // SAFETY: ends the child without the parent's exit handlers.
        unsafe { libc::_exit(if forked && works { 0 } else { 1 }) };
    }
    let mut status = -1;
    // SAFETY: the child is ours and the place valid.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(status, 0);
    assert_eq!(b.inside().unwrap().outlook()[0].lanes.len(), 1, "it is still the parent's");
    drop(hold);
    assert!(b.inside().unwrap().outlook()[0].lanes.is_empty());
    assert!(node.is_some_and(|node| node.inside().is_ok()));
}
