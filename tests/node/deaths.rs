//! Members that are killed, stopped or forked.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use gpusched::node::{NodePolicy, SharedDevice};

use super::member::{Folder, LIMITS, LONG, Member, UUIDS, begin, join, join_as, leases, soon};

fn members(count: usize) -> (Folder, Vec<Member>) {
    // Others pass a waiter only if the machine does not run it for longer than that.
    members_within(count, NodePolicy { stall_limit: LONG / 10, ..NodePolicy::default() })
}

fn members_within(count: usize, policy: NodePolicy) -> (Folder, Vec<Member>) {
    let folder = Folder::new();
    let members = (0..count).map(|_| Member::within(&leases(&folder), policy)).collect();
    (folder, members)
}

/// Plays lines such as `a begin: yes`, for the members a, b and so on: a command and its answer.
/// Either may be missing: `b: yes` has the later answer to `b turn`.
fn talk(members: &mut [Member], script: &str) {
    for line in script.split(", ") {
        let (who, answer) = line.split_once(": ").map_or((line, None), |(who, said)| (who, Some(said)));
        let member = &mut members[usize::from(who.as_bytes()[0] - b'a')];
        match who.get(2..) {
            None => {}
            Some("dies") => member.kill(),
            Some("stops") => member.signal(libc::SIGSTOP),
            Some("goes on") => member.signal(libc::SIGCONT),
            Some(what) => member.tell(what),
        }
        if let Some(answer) = answer {
            assert_eq!(member.hear(), answer, "{line}");
        }
    }
}

pub fn killed_holder_wakes_the_waiter_and_leaves_slot_and_bytes() {
    let (folder, mut members) = members(2);
    talk(
        &mut members,
        "a begin 100: yes, b want: ok, b begin: no, b look: 1 100 0, b turn 7, a dies, b: yes",
    );
    members.push(Member::new(&leases(&folder)));
    talk(&mut members, "c look: 1 7 0");
}

/// The waiter has no timer: its `poll` waits for events without end. So only inotify can wake it.
pub fn waiter_is_woken_by_inotify_without_a_timer() {
    let folder = Folder::new();
    let preload = testkit::c::preload("endless_poll", folder.path());
    let waits = folder.at("waits");
    let waiter = Member::with(&leases(&folder), |command| {
        command.env("LD_PRELOAD", preload).env("POLL_MARK", &waits);
    });
    let mut members = [Member::new(&leases(&folder)), waiter];
    for _ in 0..3 {
        talk(&mut members, "a begin: yes, b want: ok, b turn");
        assert!(soon(|| waits.exists()), "it waits for events");
        members[0].kill();
        assert!(members[1].answers(LONG), "inotify has not woken it");
        talk(&mut members, "b: yes, b drop: ok");
        std::fs::remove_file(&waits).expect("a mark");
        members[0] = Member::new(&leases(&folder));
    }
}

pub fn killed_waiter_is_not_waited_for() {
    let (_folder, mut members) = members(3);
    talk(&mut members, "a begin: yes, b want: ok, c want: ok, b dies, a drop: ok, c begin: yes");
}

pub fn first_come_first_served_and_priority_first() {
    let (_folder, mut members) = members(4);
    talk(&mut members, "a begin: yes, b want 0: ok, b turn, c want 0: ok, c turn, d want 5: ok, d turn");
    talk(&mut members, "a want 0: ok, a drop: ok, d: yes, a begin: no, d dies, b: yes, b drop: ok, c: yes");
    talk(&mut members, "a look: 1 0 0, c drop: ok, a begin: yes");
}

/// The waiter has not looked at the members since before that one joined.
pub fn holder_that_joined_during_the_wait_is_noticed_when_it_dies() {
    let policy = NodePolicy { stall_limit: LONG * 10, ..NodePolicy::default() };
    let (folder, mut members) = members_within(2, policy);
    talk(&mut members, "a begin: yes, b want: ok, b turn");
    members.push(Member::within(&leases(&folder), policy));
    talk(&mut members, "c want 5: ok, a drop: ok, c begin: yes, c dies, b: yes");
}

pub fn stopped_waiter_is_passed_and_gets_its_place_back() {
    let stall_limit = Duration::from_millis(200);
    let (_folder, mut members) = members_within(3, NodePolicy { stall_limit, ..NodePolicy::default() });
    talk(
        &mut members,
        "a begin: yes, b want: ok, c want: ok, b stops, a drop: ok, c begin: no, c turn, c: yes",
    );
    // B was stopped for only little longer than C has waited, so B is before C again.
    talk(
        &mut members,
        "b goes on, b begin: no, c want: ok, c drop: ok, c begin: no, b turn, b: yes, c begin: no",
    );
}

/// `inotify_init` fails if the process has no free descriptor, or the user no free instance.
pub fn member_without_inotify_says_so_and_still_sees_changes() {
    let folder = Folder::new();
    let log = folder.at("log");
    let short = Member::with(&leases(&folder), |command| {
        // Half of the second limit is the longest wait with inotify.
        command.env(LIMITS, "10000 120000").env("GPUSCHED_LOG", format!("warn:{}", log.display()));
    });
    let mut members = [Member::new(&leases(&folder)), short];
    talk(&mut members, "a begin: yes, b want: ok, b no-descriptors: ok, b turn");
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();
    assert!(soon(|| logged().contains("leases: no inotify (Too many open files")), "{}", logged());
    talk(&mut members, "a drop: ok");
    assert!(members[1].answers(LONG / 2), "the released slot is noticed");
    talk(&mut members, "b: yes");
    assert_eq!(logged().matches("no inotify").count(), 1, "{}", logged());
}

pub fn member_that_is_stopped_with_the_table_locked_is_named() {
    let lock_timeout = Duration::from_secs(2);
    let policy = NodePolicy { lock_timeout, ..NodePolicy::default() };
    let (folder, mut members) = members_within(2, policy);
    let device = Some(SharedDevice { uuid: UUIDS[0], slots: 1 });
    let node = join_as(&leases(&folder), &[device], policy).expect("to join");
    talk(&mut members, "b inside: ok, a stop-inside");
    let path = format!("/proc/{}/stat", members[0].id());
    assert!(soon(|| std::fs::read_to_string(&path).is_ok_and(|stat| stat.contains(") T "))));
    let begin = Instant::now();
    members[1].tell("inside");
    let named = format!("process {} has kept it locked for 2 s", members[0].id());
    // Threads that wait together fail together, and not one time-out after the other.
    let together = Barrier::new(3);
    let failed = || {
        together.wait();
        let refused = node.lock().err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refused.contains(&named), "{refused}");
        begin.elapsed()
    };
    let mut failures = std::thread::scope(|scope| {
        let threads = [(); 3].map(|()| scope.spawn(failed));
        threads.map(|thread| thread.join().expect("no panic"))
    });
    failures.sort();
    assert!(failures[0] >= lock_timeout && failures[2] - failures[0] < lock_timeout, "{failures:?}");
    let said = members[1].hear();
    assert!(said.contains(&named), "{said}");
    talk(&mut members, "a goes on, a: ok, b inside: ok");
}

/// The worker that has waited to return a lease does not wait as long again for the next one.
pub fn stopped_holder_of_the_table_is_waited_for_once() {
    let lock_timeout = Duration::from_secs(2);
    let policy = NodePolicy { lock_timeout, ..NodePolicy::default() };
    let (folder, mut members) = members_within(1, policy);
    let device = Some(SharedDevice { uuid: UUIDS[0], slots: 1 });
    let node = join_as(&leases(&folder), &[device], policy).expect("to join");
    let hold = begin(&node, 0, 0, 1, 1.0, 0).expect("inside").expect("a free slot");
    talk(&mut members, "a stop-inside");
    let path = format!("/proc/{}/stat", members[0].id());
    assert!(soon(|| std::fs::read_to_string(&path).is_ok_and(|stat| stat.contains(") T "))));
    let begin = Instant::now();
    drop(hold);
    assert!(begin.elapsed() >= lock_timeout);
    let begin = Instant::now();
    let refused = node.lock().err().map(|error| error.to_string()).unwrap_or_default();
    assert!(refused.contains("has kept it locked for 2 s"), "{refused}");
    assert!(begin.elapsed() < lock_timeout / 2, "{:?}", begin.elapsed());
    talk(&mut members, "a goes on, a: ok");
    assert!(node.lock().is_ok(), "the table is free again");
}

pub fn child_that_lives_on_keeps_nothing_of_its_parent() {
    let (_folder, mut members) = members(2);
    talk(&mut members, "a begin 5: yes");
    let child: libc::pid_t = members[0].ask("fork").parse().expect("a process");
    talk(&mut members, "b look: 1 5 0, a dies");
    // SAFETY: signal 0 only tests whether the process exists.
    assert_eq!(unsafe { libc::kill(child, 0) }, 0, "the child has to live for this to say something");
    let mut looked = String::new();
    let free = soon(|| {
        looked = members[1].ask("look");
        looked == "0 0 0"
    });
    // SAFETY: the child belongs to this test, which has no further use for it.
    unsafe { libc::kill(child, libc::SIGKILL) };
    assert!(free, "{looked}");
    talk(&mut members, "b begin: yes");
}

pub fn bytes_in_use_are_not_pending() {
    let (folder, mut members) = members(1);
    let node = join(&leases(&folder), 1, 1).expect("to join");
    for (line, pending) in
        [("a begin 1000: yes", 1000), ("a use 300: ok", 700), ("a use 3000: ok", 0), ("a drop: ok", 0)]
    {
        talk(&mut members, line);
        assert_eq!(node.lock().expect("inside").availability()[0].pending_bytes, pending, "{line}");
    }
}
