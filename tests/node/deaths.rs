//! What is left of a process that was killed, stopped, or forked.

use std::time::{Duration, Instant};

use super::member::{Case, Folder, Member, join, soon};

pub const CASES: &[Case] = &[
    ("a holder that is killed wakes who waits, and leaves slot and bytes", a_holder_is_killed),
    ("who waits hears of it by inotify, not by looking each second", it_is_heard),
    ("a waiter that is killed is not waited for", a_waiter_is_killed),
    ("first come, first served; priority first", in_line),
    ("a stopped waiter is passed, and comes again", a_waiter_is_stopped),
    ("one who is stopped inside is named", stopped_inside),
    ("a child that lives on keeps nothing of its parent's", a_child_lives_on),
    ("bytes in use are not pending", bytes_in_use),
];

fn a_holder_is_killed() {
    let folder = Folder::new();
    let (mut a, mut b) = (Member::new(&folder.leases()), Member::new(&folder.leases()));
    assert_eq!(a.ask("begin 100"), "yes");
    assert_eq!(b.ask("want"), "ok");
    assert_eq!(b.ask("begin"), "no");
    assert_eq!(b.ask("look"), "1 100 0");
    b.tell("turn 7");
    a.kill();
    assert_eq!(b.hear(), "yes");
    assert_eq!(Member::new(&folder.leases()).ask("look"), "1 7 0");
}

/// The median of several: this machine may stop a process for a while. Who only looks each second would be
/// later than a fifth of it four times out of five.
fn it_is_heard() {
    let mut took: Vec<Duration> = (0..9)
        .map(|_| {
            let folder = Folder::new();
            let (mut a, mut b) = (Member::new(&folder.leases()), Member::new(&folder.leases()));
            assert_eq!((a.ask("begin"), b.ask("want")), ("yes".into(), "ok".into()));
            b.tell("turn");
            std::thread::sleep(Duration::from_millis(30));
            let begin = Instant::now();
            a.kill();
            assert_eq!(b.hear(), "yes");
            begin.elapsed()
        })
        .collect();
    took.sort();
    println!("from kill -9 to the next one's beginning: {:?}, at most {:?}", took[4], took[8]);
    assert!(took[4] < Duration::from_millis(200), "{took:?}");
}

fn a_waiter_is_killed() {
    let folder = Folder::new();
    let [mut a, mut b, mut c] = [(); 3].map(|()| Member::new(&folder.leases()));
    assert_eq!(a.ask("begin"), "yes");
    assert_eq!(b.ask("want"), "ok");
    assert_eq!(c.ask("want"), "ok");
    b.kill();
    assert_eq!(a.ask("drop"), "ok");
    assert_eq!(c.ask("begin"), "yes");
}

fn in_line() {
    let folder = Folder::new();
    let [mut a, mut b, mut c, mut d] = [(); 4].map(|()| Member::new(&folder.leases()));
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

fn a_waiter_is_stopped() {
    let folder = Folder::new();
    let [mut a, mut b, mut c] = [(); 3].map(|()| Member::new(&folder.leases()));
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
    b.tell("turn");
    assert_eq!(c.ask("want"), "ok");
    assert_eq!(c.ask("drop"), "ok");
    assert_eq!(b.hear(), "yes");
    assert_eq!(c.ask("begin"), "no");
}

fn stopped_inside() {
    let folder = Folder::new();
    let [mut a, mut b] = [(); 2].map(|()| Member::new(&folder.leases()));
    assert_eq!(b.ask("inside"), "ok");
    a.tell("stop-inside");
    let path = format!("/proc/{}/stat", a.id());
    assert!(soon(|| std::fs::read_to_string(&path).is_ok_and(|stat| stat.contains(") T "))));
    let said = b.ask("inside");
    assert!(said.contains(&format!("process {} has kept it shut", a.id())), "{said}");
    a.signal(libc::SIGCONT);
    assert_eq!(a.hear(), "ok");
    assert_eq!(b.ask("inside"), "ok");
}

fn a_child_lives_on() {
    let folder = Folder::new();
    let (mut a, mut b) = (Member::new(&folder.leases()), Member::new(&folder.leases()));
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

fn bytes_in_use() {
    let folder = Folder::new();
    let node = join(&folder.leases(), 1, 1).expect("to join");
    let mut a = Member::new(&folder.leases());
    assert_eq!(a.ask("begin 1000"), "yes");
    let pending = || node.inside().expect("inside").outlook()[0].pending_bytes;
    assert_eq!(pending(), 1000);
    assert_eq!(a.ask("use 300"), "ok");
    assert_eq!(pending(), 700);
    assert_eq!(a.ask("use 3000"), "ok");
    assert_eq!(pending(), 0);
    assert_eq!(a.ask("drop"), "ok");
    assert_eq!(pending(), 0);
}
