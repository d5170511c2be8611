//! Several members in one process, forks, and leases that outlive their owner.

use std::fs;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gpusched::Error;
use gpusched::node::{Membership, NodePolicy, SharedDevice, SlotLease, SlotRequest, WaitEnd};
use testkit::process::in_child;

use super::member::{Folder, LONG, begin, join, join_as, leases, soon};

fn two_members(devices: usize) -> (Folder, Membership, Membership) {
    let folder = Folder::new();
    let [a, b] = [(); 2].map(|()| join(&leases(&folder), devices, 1).expect("to join"));
    (folder, a, b)
}

/// Leases 10 bytes of a device. Returns `None` if another member has its only slot.
fn lease(node: &Membership, device: usize) -> Option<SlotLease> {
    begin(node, device, 0, 1, 1.0, 10).unwrap()
}

fn leased(node: &Membership) -> usize {
    node.lock().unwrap().availability()[0].busy_slots.len()
}

fn request(node: &Membership) {
    node.lock().unwrap().request(Some(SlotRequest::of_task(0, [Some(1.0)])));
}

fn members_within<const N: usize>(folder: &Folder, stall_limit: Duration) -> [Membership; N] {
    let policy = NodePolicy { stall_limit, ..NodePolicy::default() };
    let device = Some(SharedDevice { uuid: "GPU-0", slots: 1 });
    [(); N].map(|()| join_as(&leases(folder), &[device], policy).expect("to join"))
}

/// A member waits for one device, begins a task on another, and waits on.
pub fn ticket_ends_with_a_lease_that_others_want() {
    for wanted in [false, true] {
        let (folder, a, b) = two_members(2);
        let c = join(&leases(&folder), 2, 1).expect("to join");
        let hold = lease(&c, 1).expect("a free slot");
        let request = |node: &Membership, on: [bool; 2]| {
            let costs = on.map(|on| on.then_some(1.0));
            node.lock().unwrap().request(Some(SlotRequest::of_task(0, costs)));
        };
        request(&a, [false, true]);
        request(&b, [wanted, !wanted]);
        let _other = a.lock().unwrap().lease(0, Some(1.0), 10).unwrap();
        [&b, &a].into_iter().for_each(|node| request(node, [false, true]));
        drop(hold);
        let begun = [&a, &b].map(|node| lease(node, 1));
        assert_eq!(begun.each_ref().map(Option::is_some), [!wanted, wanted]);
    }
}

/// It lives, so the others wait for it each time that a slot becomes free.
pub fn living_waiter_is_waited_for_again_after_it_was_passed() {
    let (folder, limit) = (Folder::new(), Duration::from_millis(300));
    let [waiter, backlog] = members_within(&folder, limit);
    request(&waiter);
    // The waiter is ready and does not begin, until it is skipped.
    assert_eq!((leased(&waiter), leased(&backlog)), (0, 1));
    assert!(soon(|| leased(&waiter) == 0 && leased(&backlog) == 0));
    let hold = lease(&backlog, 0).expect("a free slot");
    assert_eq!(leased(&waiter), 1);
    drop(hold);
    assert_eq!(leased(&backlog), 1, "the waiter is skipped though it lives");
}

/// The time in which another member holds the slot does not count as the waiter's delay.
pub fn waiter_that_was_blocked_meanwhile_is_not_skipped() {
    let (folder, limit) = (Folder::new(), Duration::from_millis(300));
    let [waiter, observer, other] = members_within(&folder, limit);
    request(&waiter);
    assert_eq!((leased(&waiter), leased(&observer)), (0, 1));
    let hold = other.lock().unwrap().lease(0, Some(1.0), 0).unwrap();
    let begin = Instant::now();
    while begin.elapsed() < 2 * limit {
        assert_eq!(leased(&waiter), 1);
        std::thread::sleep(limit / 10);
    }
    drop(hold);
    assert_eq!(leased(&observer), 1, "the waiter is skipped though it was not ready");
}

/// Ids and tickets of a new table begin again at the lowest.
pub fn waiter_of_a_new_table_is_not_taken_for_one_of_the_old() {
    let (folder, limit) = (Folder::new(), Duration::from_millis(50));
    let [stopped, observer] = members_within(&folder, limit);
    request(&stopped);
    assert!(soon(|| leased(&observer) == 0));
    fs::remove_file(leases(&folder).join("leases-2")).unwrap();
    let [waiter] = members_within(&folder, limit);
    request(&waiter);
    assert_eq!(leased(&observer), 1);
}

/// The header was not written, because the disk failed or was full.
pub fn ticket_that_the_header_does_not_know_is_drawn_again() {
    let (folder, a, b) = two_members(1);
    let file = fs::File::options().read(true).write(true).open(leases(&folder).join("leases-2")).unwrap();
    let mut header = [0; 128];
    file.read_exact_at(&mut header, 0).unwrap();
    request(&a);
    file.write_all_at(&header, 0).unwrap();
    let waiters = || b.lock().unwrap().availability()[0].waiters;
    assert_eq!(waiters(), 0, "others do not accept the ticket");
    drop(a.lock().unwrap());
    assert_eq!(waiters(), 1);
}

/// A thread that has nothing urgent to write, and gives up at once, holds the mutex in the way.
pub fn lease_is_returned_beside_a_thread_that_does_not_wait_for_the_table() {
    let folder = Folder::new();
    let [a, b] = [(); 2].map(|()| join(&leases(&folder), 1, 9).expect("to join"));
    let lease = || a.lock().unwrap().lease(0, Some(1.0), 10).unwrap();
    let stays = lease();
    for round in 0..20 {
        let (ends, stop) = (lease(), AtomicBool::new(false));
        let table = b.lock().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for bytes in (1..).take_while(|_| !stop.load(Ordering::Relaxed)) {
                    stays.set_used_bytes(bytes % 10);
                }
            });
            std::thread::sleep(Duration::from_millis(2));
            scope.spawn(|| drop(ends));
            std::thread::sleep(Duration::from_millis(10));
            stop.store(true, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(10));
            drop(table);
        });
        assert_eq!(leased(&b), 1, "round {round}");
    }
}

/// A task reports once; the thread with the table may wait for a stopped member.
pub fn used_bytes_are_set_beside_a_thread_that_has_the_table() {
    let (_folder, a, b) = two_members(1);
    let hold = lease(&a, 0).expect("a free slot");
    std::thread::scope(|scope| {
        let table = a.lock().unwrap();
        let sets = scope.spawn(|| hold.set_used_bytes(7));
        assert!(soon(|| sets.is_finished()), "the report does not wait");
        assert!(a.is_behind(), "a worker that goes to sleep writes them");
        drop(table);
    });
    assert_eq!(b.lock().unwrap().availability()[0].pending_bytes, 3);
}

/// A thread may use the object of a scheduler that has ended.
pub fn member_that_has_left_is_no_member_and_has_no_file_open() {
    let open = || fs::read_dir("/proc/self/fd").unwrap().count();
    let folder = Folder::new();
    let b = join(&leases(&folder), 1, 1).unwrap();
    let before = open();
    let a = join(&leases(&folder), 1, 1).unwrap();
    a.wait(Some(Duration::ZERO));
    a.leave();
    assert_eq!(open(), before);
    assert_eq!(b.lock().unwrap().other_members(), 0);
    assert!(matches!(a.lock(), Err(Error::Shutdown { .. })));
    a.wake();
    a.catch_up();
    assert!(!a.is_behind() && a.wait(None) == WaitEnd::Woken);
    drop(a);
    assert_eq!((open(), lease(&b, 0).is_some()), (before, true));
}

pub fn member_leaves_when_its_last_lease_is_dropped() {
    let (_folder, a, b) = two_members(1);
    let hold = lease(&a, 0).expect("a free slot");
    a.leave();
    assert_eq!((leased(&b), b.lock().unwrap().other_members()), (1, 1));
    drop(hold);
    assert_eq!((leased(&b), b.lock().unwrap().other_members()), (0, 0));
}

pub fn lease_outlives_its_membership() {
    let (_folder, a, b) = two_members(1);
    let hold = lease(&a, 0).expect("a free slot");
    a.lock().unwrap().request(Some(SlotRequest::of_task(0, [Some(1.0)])));
    assert_eq!(b.lock().unwrap().availability()[0].waiters, 1);
    drop(a);
    let look = b.lock().unwrap().availability().remove(0);
    assert_eq!((look.busy_slots.len(), look.waiters, look.pending_bytes), (1, 0, 10));
    drop(hold);
    assert_eq!(leased(&b), 0);
}

pub fn devices_that_are_not_shared_are_not_leased() {
    let folder = Folder::new();
    let devices = [None, Some(SharedDevice { uuid: "GPU-0", slots: 1 })];
    let (a, b) =
        (join_as(&leases(&folder), &devices, NodePolicy::default()), join(&leases(&folder), 1, 1).unwrap());
    let a = a.unwrap();
    let mut table = a.lock().unwrap();
    assert_eq!(table.availability().len(), 2);
    let one = table.lease(1, None, 2).unwrap();
    for not_shared in [0, 2] {
        assert!(matches!(table.lease(not_shared, None, 1), Err(Error::Argument { .. })));
    }
    drop(table);
    assert_eq!(b.lock().unwrap().availability()[0].pending_bytes, 2);
    drop(one);
    let mut table = a.lock().unwrap();
    let most: Vec<_> = (0..1000).map_while(|_| table.lease(1, None, 2).ok()).collect();
    assert!((170..300).contains(&most.len()), "{}", most.len());
    drop(table);
    assert_eq!(leased(&b), most.len());
    drop(most);
    assert_eq!(leased(&b), 0);
    for uuid in ["", "two words", &"x".repeat(96)] {
        let devices = [Some(SharedDevice { uuid, slots: 1 })];
        let refused = join_as(&leases(&folder), &devices, NodePolicy::default());
        assert!(matches!(refused, Err(Error::Argument { .. })), "{refused:?}");
    }
}

pub fn the_257th_member_is_refused() {
    let folder = Folder::new();
    let mut nodes: Vec<Membership> =
        (0..256).map(|_| join(&leases(&folder), 1, 1).expect("to join")).collect();
    let error = join(&leases(&folder), 1, 1).expect_err("no room");
    assert!(error.to_string().contains("256 schedulers use it"), "{error}");
    let hold = lease(&nodes[255], 0);
    assert!(hold.is_some() && lease(&nodes[0], 0).is_none());
    nodes.swap_remove(17);
    nodes.push(join(&leases(&folder), 1, 1).expect("the place of the one that has left"));
}

pub fn wait_ends_with_a_change_a_wake_or_its_time() {
    // Without a change a wait ends after half of the limit, too.
    let (folder, begin) = (Folder::new(), Instant::now());
    let [a, b] = members_within(&folder, LONG);
    assert_eq!(a.wait(None), WaitEnd::Changed, "the other has joined");
    assert_eq!(a.wait(Some(Duration::from_millis(1))), WaitEnd::Timeout);
    a.wake();
    a.wake();
    assert_eq!(a.wait(None), WaitEnd::Woken);
    let hold = lease(&b, 0);
    assert_eq!(a.wait(None), WaitEnd::Changed);
    assert_eq!(a.wait(Some(Duration::from_millis(1))), WaitEnd::Timeout);
    drop(hold);
    // Another thread of the same member has seen the change; the waiting thread is woken
    // nevertheless.
    assert!(a.lock().unwrap().availability()[0].busy_slots.is_empty());
    assert_eq!(a.wait(None), WaitEnd::Changed);
    drop(b);
    assert_eq!(a.wait(None), WaitEnd::Changed);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| a.wait(None));
        std::thread::sleep(Duration::from_millis(10));
        a.wake();
        assert_eq!(waits.join().unwrap(), WaitEnd::Woken);
    });
    assert!(begin.elapsed() < LONG / 2, "{:?}", begin.elapsed());
}

pub fn own_writes_do_not_wake_the_member() {
    let folder = Folder::new();
    let a = join(&leases(&folder), 1, 1).unwrap();
    assert_eq!(a.wait(Some(Duration::ZERO)), WaitEnd::Timeout);
    for _ in 0..10 {
        drop(lease(&a, 0));
        assert_eq!(a.wait(Some(Duration::from_millis(2))), WaitEnd::Timeout);
    }
}

pub fn seconds_per_cost_are_shared_and_stay() {
    let (folder, a, b) = two_members(1);
    for wrong in [f64::NAN, -1.0, 0.0, f64::INFINITY] {
        a.lock().unwrap().report_seconds_per_cost(wrong);
        assert_eq!(b.lock().unwrap().measured_seconds_per_cost(), None);
    }
    a.lock().unwrap().report_seconds_per_cost(3.5);
    assert_eq!(b.lock().unwrap().measured_seconds_per_cost(), Some(3.5));
    let hold = begin(&a, 0, 0, 1, 100.0, 10).unwrap();
    let lane = b.lock().unwrap().availability()[0].busy_slots[0];
    assert!(lane <= 350.0 && lane > 100.0, "{lane}");
    drop((hold, a, b));
    assert_eq!(join(&leases(&folder), 1, 1).unwrap().lock().unwrap().measured_seconds_per_cost(), Some(3.5));
}

pub fn calls_in_a_forked_child_fail_and_it_can_join() {
    let (folder, a, b) = two_members(1);
    let mut hold = lease(&a, 0);
    let mut node = Some(a);
    let well = in_child(|| {
        let a = node.take().expect("a node");
        let forked = matches!(a.lock(), Err(Error::Forked)) && a.wait(None) == WaitEnd::Woken;
        a.wake();
        let own = join(&leases(&folder), 1, 1);
        // The parent's lease belongs to another member here, and dropping the parent's objects
        // closes none of the child's.
        drop((hold.take(), a));
        let works = own.is_ok_and(|own| begin(&own, 0, 0, 1, 1.0, 1).is_ok_and(|held| held.is_none()));
        forked && works
    });
    assert!(well);
    assert_eq!(leased(&b), 1, "it is still the parent's");
    drop(hold);
    assert_eq!(leased(&b), 0);
    assert!(node.is_some_and(|node| node.lock().is_ok()));
}
