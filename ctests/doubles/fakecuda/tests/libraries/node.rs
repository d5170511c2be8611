//! Cards that several processes share. The children are forked before anything of the libraries is used.

use std::io::Read;
use std::os::fd::FromRawFd;

use crate::raw::*;

/// Names a file of this process's own, for it and its children.
fn name() -> String {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(format!("node-{}", std::process::id()));
    // SAFETY: nobody else reads variables now.
    unsafe { std::env::set_var("FAKECUDA_NODE", &path) };
    path.to_str().expect("a text").into()
}

/// A child that runs `code`, says so, and then waits to be killed.
fn child(code: impl FnOnce() -> bool) -> (i32, bool) {
    let mut pipe = [0; 2];
    // SAFETY: room for two numbers.
    assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    // SAFETY: this process has one thread.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let good = u8::from(code());
        // SAFETY: our end of the pipe, one byte; then there is nothing left to do but to wait.
        unsafe {
            libc::alarm(60);
            libc::write(pipe[1], (&raw const good).cast(), 1);
            loop {
                libc::pause();
            }
        }
    }
    // SAFETY: both ends are ours; what the file owns is closed by it.
    let mut reader = unsafe {
        libc::close(pipe[1]);
        std::fs::File::from_raw_fd(pipe[0])
    };
    let mut good = [0];
    reader.read_exact(&mut good).expect("a byte from the child");
    (child, good == [1])
}

fn kill(child: i32) {
    let mut status = 0;
    // SAFETY: our own child.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, &mut status, 0);
    }
}

/// Cards of 64 MiB with contexts of 8.
pub fn memory_is_of_all() {
    let file = name();
    let (first, good) = child(|| retain(0).is_ok() && alloc(30 << 20).is_ok() && alloc(40 << 20) == Err(2));
    assert!(good);
    let (second, good) = child(|| retain(0).is_ok() && alloc(20 << 20) == Err(2) && alloc(10 << 20).is_ok());
    assert!(good);
    let (third, good) = child(|| retain(1).is_ok() && alloc(50 << 20).is_ok());
    assert!(good);

    kill(first);
    retain(0).expect("a context");
    assert_eq!(info().0 >> 20, 64 - 8 - 10 - 8);
    let pointer = alloc(30 << 20).expect("what the first has left");
    assert_eq!(alloc(20 << 20), Err(2));
    assert_eq!(cu!(cuMemFree_v2(pointer => u64)), 0);
    assert_eq!(cu!(cuDevicePrimaryCtxRelease_v2(0 => i32)), 0);

    let log = std::fs::read_to_string(format!("{file}.log")).expect("a log");
    let count = |process: i32, card: usize, event: &str| {
        let words = format!(" {process} {card} {event} ");
        log.lines().filter(|line| line.contains(&words)).count()
    };
    assert_eq!((count(first, 0, "context"), count(first, 0, "refuse"), count(first, 0, "gone")), (1, 1, 1));
    assert_eq!((count(third, 1, "context"), count(third, 1, "take"), count(third, 0, "context")), (1, 2, 0));
    assert_eq!(count(std::process::id() as i32, 0, "leave"), 1);
    kill(second);
    kill(third);
    let _ = std::fs::remove_file(format!("{file}.log"));
    let _ = std::fs::remove_file(file);
}
