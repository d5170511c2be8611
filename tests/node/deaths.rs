//! Members that are killed, stopped or forked.

use std::time::{Duration, Instant};

use super::member::{Folder, LONG, Member, join, leases, soon};

fn members<const COUNT: usize>() -> (Folder, [Member; COUNT]) {
    let folder = Folder::new();
    let members = [(); COUNT].map(|()| Member::new(&leases(&folder)));
    (folder, members)
}

pub fn killed_holder_wakes_the_waiter_and_leaves_slot_and_bytes() {
    let (folder, [mut a, mut b]) = members();
    assert_eq!(a.ask("begin 100"), "yes");
    assert_eq!(b.ask("want"), "ok");
    assert_eq!(b.ask("begin"), "no");
    assert_eq!(b.ask("look"), "1 100 0");
    b.tell("turn 7");
    a.kill();
    assert_eq!(b.hear(), "yes");
    assert_eq!(Member::new(&leases(&folder)).ask("look"), "1 7 0");
}

/// The waiter has no timer: its `poll` waits for events without end. So a wake-up by inotify is the only one.
pub fn waiter_is_woken_by_inotify_without_a_timer() {
    let folder = Folder::new();
    let preload = testkit::c::preload("endless_poll", folder.path());
    let mut a = Member::new(&leases(&folder));
    let waits = folder.at("waits");
    let mut b = Member::with(&leases(&folder), |command| {
        command.env("LD_PRELOAD", preload).env("POLL_MARK", &waits);
    });
    for _ in 0..3 {
        assert_eq!((a.ask("begin"), b.ask("want")), ("yes".into(), "ok".into()));
        b.tell("turn");
        assert!(soon(|| waits.exists()), "it waits for events");
        a.kill();
        assert!(b.answers(LONG), "inotify has not woken it");
        assert_eq!((b.hear(), b.ask("drop")), ("yes".into(), "ok".into()));
        std::fs::remove_file(&waits).expect("a mark");
        a = Member::new(&leases(&folder));
    }
}

pub fn killed_waiter_is_not_waited_for() {
    let (_folder, [mut a, mut b, mut c]) = members();
    assert_eq!(a.ask("begin"), "yes");
    assert_eq!(b.ask("want"), "ok");
    assert_eq!(c.ask("want"), "ok");
    b.kill();
    assert_eq!(a.ask("drop"), "ok");
    assert_eq!(c.ask("begin"), "yes");
}

pub fn first_come_first_served_and_priority_first() {
    let (_folder, [mut a, mut b, mut c, mut d]) = members();
    assert_eq!(a.ask("begin"), "yes");
    for (member, want) in [(&mut b, "want 0"), (&mut c, "want 0"), (&mut d, "want 5")] {
        assert_eq!(member.ask(want), "ok");
        member.tell("turn");
    }
    assert_eq!(a.ask("want 0"), "ok");
    assert_eq!(a.ask("drop"), "ok");
    assert_eq!(d.hear(), "yes");
    assert_eq!(a.ask("begin"), "no");
    d.kill();
    assert_eq!(b.hear(), "yes");
    assert_eq!(b.ask("drop"), "ok");
    assert_eq!(c.hear(), "yes");
    assert_eq!(a.ask("look"), "1 0 0");
    assert_eq!(c.ask("drop"), "ok");
    assert_eq!(a.ask("begin"), "yes");
}

pub fn stopped_waiter_is_passed_and_gets_its_place_back() {
    let (_folder, [mut a, mut b, mut c]) = members();
    assert_eq!(a.ask("begin"), "yes");
    assert_eq!(b.ask("want"), "ok");
    assert_eq!(c.ask("want"), "ok");
    b.signal(libc::SIGSTOP);
    assert_eq!(a.ask("drop"), "ok");
    assert_eq!(c.ask("begin"), "no");
    c.tell("turn");
    assert_eq!(c.hear(), "yes");
    b.signal(libc::SIGCONT);
    assert_eq!(b.ask("begin"), "no");
    // B was stopped for little more than C has waited for it, and is before C from now on.
    assert_eq!(c.ask("want"), "ok");
    assert_eq!(c.ask("drop"), "ok");
    assert_eq!(c.ask("begin"), "no");
    b.tell("turn");
    assert_eq!(b.hear(), "yes");
    assert_eq!(c.ask("begin"), "no");
}

/// `inotify_init` fails where the process has no descriptor left, or the user no further instance.
pub fn member_without_inotify_says_so_and_still_sees_changes() {
    let folder = Folder::new();
    let log = folder.at("log");
    let mut a = Member::new(&folder.at("leases"));
    let mut b = Member::with(&folder.at("leases"), |command| {
        command.env("GPUSCHED_LOG", format!("warn:{}", log.display()));
    });
    assert_eq!((a.ask("begin"), b.ask("want")), ("yes".into(), "ok".into()));
    assert_eq!(b.ask("no-descriptors"), "ok");
    b.tell("turn");
    let logged = || std::fs::read_to_string(&log).unwrap_or_default();
    assert!(soon(|| logged().contains("leases: no inotify (Too many open files")), "{}", logged());
    assert_eq!(a.ask("drop"), "ok");
    assert_eq!(b.hear(), "yes");
    // A member that waits for no slot looks, too.
    while b.ask("wait 0") == "Changed" {}
    b.tell("wait 20000");
    assert_eq!(a.ask("want"), "ok");
    assert_eq!(b.hear(), "Changed");
    assert_eq!(logged().matches("no inotify").count(), 1, "{}", logged());
}

pub fn member_that_is_stopped_with_the_table_locked_is_named() {
    let (folder, [mut a, mut b]) = members();
    let node = join(&leases(&folder), 1, 1).expect("to join");
    assert_eq!(b.ask("inside"), "ok");
    a.tell("stop-inside");
    let path = format!("/proc/{}/stat", a.id());
    assert!(soon(|| std::fs::read_to_string(&path).is_ok_and(|stat| stat.contains(") T "))));
    let begin = Instant::now();
    b.tell("inside");
    let named = format!("process {} has kept it locked", a.id());
    // Threads that wait together fail together, after ten seconds and not after thirty.
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let refused = node.lock().err().map(|error| error.to_string()).unwrap_or_default();
                assert!(refused.contains(&named), "{refused}");
                assert!(begin.elapsed() < Duration::from_secs(25), "{:?}", begin.elapsed());
            });
        }
    });
    let said = b.hear();
    assert!(said.contains(&named), "{said}");
    a.signal(libc::SIGCONT);
    assert_eq!(a.hear(), "ok");
    assert_eq!(b.ask("inside"), "ok");
}

pub fn child_that_lives_on_keeps_nothing_of_its_parent() {
    let (_folder, [mut a, mut b]) = members();
    assert_eq!(a.ask("begin 5"), "yes");
    let child: libc::pid_t = a.ask("fork").parse().expect("a process");
    assert_eq!(b.ask("look"), "1 5 0");
    a.kill();
    // SAFETY: asks whether it is there.
    assert_eq!(unsafe { libc::kill(child, 0) }, 0, "the child has to live for this to say something");
    let mut looked = String::new();
    let free = soon(|| {
        looked = b.ask("look");
        looked == "0 0 0"
    });
    // SAFETY: the child is of this test, and has nothing else to do.
    unsafe { libc::kill(child, libc::SIGKILL) };
    assert!(free, "{looked}");
    assert_eq!(b.ask("begin"), "yes");
}

pub fn bytes_in_use_are_not_pending() {
    let folder = Folder::new();
    let node = join(&leases(&folder), 1, 1).expect("to join");
    let mut a = Member::new(&leases(&folder));
    assert_eq!(a.ask("begin 1000"), "yes");
    let pending = || node.lock().expect("inside").availability()[0].pending_bytes;
    assert_eq!(pending(), 1000);
    assert_eq!(a.ask("use 300"), "ok");
    assert_eq!(pending(), 700);
    assert_eq!(a.ask("use 3000"), "ok");
    assert_eq!(pending(), 0);
    assert_eq!(a.ask("drop"), "ok");
    assert_eq!(pending(), 0);
}
