//! Child processes with a time limit, and with an environment that does not depend on the machine.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::fd::FromRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const LONGEST: Duration = Duration::from_secs(600);
/// Time limit for the children of a program after its end.
const LEFT: Duration = Duration::from_secs(20);

/// Returns a command that runs `program` in the environment of [`isolate`].
pub fn isolated(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    isolate(&mut command);
    command
}

/// Removes this machine's settings of the library, CUDA and the virtual GPUs from a command's
/// environment, except `GPUSCHED_TEST_*`. The CPU is the only device, and the lease folder is the
/// command's own.
pub fn isolate(command: &mut Command) -> &mut Command {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_setting(name)) {
        command.env_remove(name);
    }
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let leases = format!("gpusched-test-leases-{}-{number}", std::process::id());
    command.env("GPUSCHED_DEVICES", "cpu").env("GPUSCHED_LEASE_DIR", std::env::temp_dir().join(leases))
}

fn is_setting(name: &OsString) -> bool {
    let name = name.to_string_lossy();
    let begins = |with: &str| name.starts_with(with);
    !begins("GPUSCHED_TEST_") && ["GPUSCHED_", "FAKECUDA", "CUDA_"].into_iter().any(begins)
}

/// Returns a program's output and exit status; kills it, and its children, if it hangs.
pub fn output(command: &mut Command) -> std::io::Result<Output> {
    output_within(command, LONGEST)
}

pub fn output_within(command: &mut Command, longest: Duration) -> std::io::Result<Output> {
    // A process group of its own, because a remaining child could hold the pipes open for ever.
    command.process_group(0).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let readers = [reader(child.stdout.take()), reader(child.stderr.take())];
    let status = wait(&mut child, longest)?;
    let end = Instant::now() + LEFT.min(longest);
    while !readers.iter().all(JoinHandle::is_finished) {
        if Instant::now() > end {
            eprintln!("killed: what is left of process {}", child.id());
            kill_group(&child);
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let [stdout, stderr] = readers.map(|reader| reader.join().expect("no panic there"));
    Ok(Output { status, stdout: stdout?, stderr: stderr? })
}

/// Returns a program's exit status, and all that it writes to a terminal of so many columns.
pub fn run_on_terminal(command: &mut Command, columns: u16) -> (ExitStatus, String) {
    let size = libc::winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let (mut master, mut slave) = (-1, -1);
    // SAFETY: valid places for two descriptors, and a size. The name and the modes are optional.
    let made = unsafe {
        libc::openpty(&mut master, &mut slave, std::ptr::null_mut(), std::ptr::null(), &raw const size)
    };
    assert_eq!(made, 0, "no terminal");
    // SAFETY: new descriptors, which nothing else owns.
    let [mut master, slave] = [master, slave].map(|descriptor| unsafe { File::from_raw_fd(descriptor) });
    let [stdout, stderr] = [slave.try_clone().expect("a descriptor"), slave].map(Stdio::from);
    command.process_group(0).stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    let mut child = command.spawn().expect("a process");
    // The terminal is at its end once all descriptors of the other side are closed.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        // The end is an error, EIO, after the last byte.
        let _ = master.read_to_end(&mut text);
        text
    });
    let status = wait(&mut child, LONGEST).expect("its status");
    let text = reader.join().expect("no panic there");
    (status, String::from_utf8_lossy(&text).into_owned())
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<std::io::Result<Vec<u8>>> {
    let mut pipe = pipe.expect("a pipe");
    std::thread::spawn(move || {
        let mut text = Vec::new();
        pipe.read_to_end(&mut text).map(|_| text)
    })
}

fn wait(child: &mut Child, longest: Duration) -> std::io::Result<ExitStatus> {
    let begun = Instant::now();
    loop {
        match child.try_wait()? {
            Some(status) => return Ok(status),
            None if begun.elapsed() > longest => {
                eprintln!("killed after {} s: process {}", longest.as_secs(), child.id());
                kill_group(child);
                return child.wait();
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

fn kill_group(child: &Child) {
    // SAFETY: takes numbers only. The group is of the child, and keeps its number while anybody is
    // in it.
    unsafe { libc::kill(-(child.id() as libc::pid_t), libc::SIGKILL) };
}

/// Returns what `code` returns in a forked child of this process; false if the child hangs or dies.
pub fn in_child(code: impl FnOnce() -> bool) -> bool {
    // SAFETY: either no other thread holds what `code` needs, or that is the subject of the test.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork failed");
    if child == 0 {
        // SAFETY: the alarm ends a child that hangs; `_exit` skips the exit handlers of the parent.
        unsafe {
            libc::alarm(20);
            libc::_exit(if code() { 0 } else { 1 })
        };
    }
    let mut status = -1;
    // SAFETY: our own child, and a valid place.
    let ended = unsafe { libc::waitpid(child, &mut status, 0) };
    (ended, status) == (child, 0)
}
