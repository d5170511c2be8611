//! A process that is a member of a node, and executes commands.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use gpusched::node::{Membership, NodePolicy, SharedDevice, SlotLease, SlotRequest};
pub use testkit::Folder;
use testkit::process::isolated;

/// Long enough for a machine that sometimes stops processes.
pub const LONG: Duration = Duration::from_secs(60);

pub const UUIDS: [&str; 4] = ["GPU-0", "GPU-1", "GPU-2", "GPU-3"];

/// Returns a folder in `folder` that does not exist yet.
pub fn leases(folder: &Folder) -> PathBuf {
    folder.at("leases")
}

pub fn join(folder: &Path, devices: usize, slots: u32) -> gpusched::Result<Membership> {
    let devices: Vec<_> = UUIDS[..devices].iter().map(|uuid| Some(SharedDevice { uuid, slots })).collect();
    join_as(folder, &devices, NodePolicy::default())
}

pub fn join_as(
    folder: &Path,
    devices: &[Option<SharedDevice<'_>>],
    policy: NodePolicy,
) -> gpusched::Result<Membership> {
    Membership::join(Some(folder), devices, policy).map(|node| node.expect("leases"))
}

/// Variable with the time limits of a member's process in ms: of the table lock, and of a stalled waiter.
pub const LIMITS: &str = "MEMBER_LIMITS_MS";

/// Returns the time limits of [`Member::within`], in its process.
fn policy() -> NodePolicy {
    let Ok(limits) = std::env::var(LIMITS) else { return NodePolicy::default() };
    let (lock, stall) = limits.split_once(' ').expect("two limits");
    let time = |limit: &str| Duration::from_millis(limit.parse().expect("milliseconds"));
    NodePolicy { lock_timeout: time(lock), stall_limit: time(stall) }
}

pub fn begin(
    node: &Membership,
    device: usize,
    own: usize,
    slots: usize,
    cost: f64,
    bytes: u64,
) -> gpusched::Result<Option<SlotLease>> {
    let mut inside = node.lock()?;
    match own + inside.availability()[device].busy_slots.len() < slots {
        true => inside.lease(device, Some(cost), bytes).map(Some),
        false => Ok(None),
    }
}

/// Runs the process of a [`Member`], with one device of one slot.
pub fn play(arguments: &[String]) -> ExitCode {
    gpusched::ffi::logging::start_or("off");
    let device = Some(SharedDevice { uuid: UUIDS[0], slots: 1 });
    let node = join_as(Path::new(&arguments[0]), &[device], policy()).expect("to join");
    let mut holds = Vec::new();
    for line in std::io::stdin().lines() {
        let line = line.expect("a line");
        let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let number: u64 = rest.parse().unwrap_or(0);
        let mut answer = "ok".to_owned();
        match word {
            "want" => {
                let want = SlotRequest::of_task(number as i32, [Some(1.0)]);
                node.lock().expect("inside").request(Some(want));
            }
            "begin" => {
                let hold = begin(&node, 0, holds.len(), 1, 1.0, number).expect("inside");
                answer = if hold.is_some() { "yes" } else { "no" }.into();
                holds.extend(hold);
            }
            "look" => {
                let look = node.lock().expect("inside").availability().remove(0);
                answer = format!("{} {} {}", look.busy_slots.len(), look.pending_bytes, look.waiters);
            }
            "use" => holds[0].set_used_bytes(number),
            "drop" => holds.clear(),
            "wait" => answer = format!("{:?}", node.wait(Some(Duration::from_millis(number)))),
            // Lets the process open no further descriptor.
            "no-descriptors" => {
                let next = File::open("/dev/null").expect("a descriptor").as_raw_fd();
                let limit = libc::rlimit { rlim_cur: next as libc::rlim_t, rlim_max: next as libc::rlim_t };
                // SAFETY: sets a limit of this process.
                assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
            }
            // Answers when it has the slot.
            "turn" => {
                while holds.is_empty() {
                    holds.extend(begin(&node, 0, 0, 1, 1.0, number).expect("inside"));
                    if holds.is_empty() {
                        node.wait(None);
                    }
                }
                answer = "yes".into();
            }
            // A child that outlives this process.
            "fork" => {
                // SAFETY: the child sleeps and ends.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    // SAFETY: as above.
                    unsafe {
                        libc::sleep(120);
                        libc::_exit(0)
                    }
                }
                answer = child.to_string();
            }
            "inside" => answer = node.lock().err().map_or(answer, |error| error.to_string()),
            // Stops while it holds the lock of the table.
            "stop-inside" => {
                let _inside = node.lock().expect("inside");
                // SAFETY: stops this process, as commanded.
                unsafe { libc::raise(libc::SIGSTOP) };
            }
            _ => panic!("what is {line}?"),
        }
        println!("{answer}");
    }
    ExitCode::SUCCESS
}

pub struct Member {
    pub child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Member {
    pub fn new(folder: &Path) -> Member {
        Member::with(folder, |_| ())
    }

    pub fn within(folder: &Path, policy: NodePolicy) -> Member {
        let limits = [policy.lock_timeout, policy.stall_limit].map(|limit| limit.as_millis().to_string());
        Member::with(folder, |command| {
            command.env(LIMITS, limits.join(" "));
        })
    }

    pub fn with(folder: &Path, change: impl FnOnce(&mut Command)) -> Member {
        let this = std::env::current_exe().expect("this program");
        let mut command = isolated(this);
        change(&mut command);
        command.arg("--member").arg(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a process");
        let to = child.stdin.take().expect("a pipe");
        let from = BufReader::new(child.stdout.take().expect("a pipe"));
        Member { child, to, from }
    }

    pub fn tell(&mut self, what: &str) {
        writeln!(self.to, "{what}").expect("a process that listens");
    }

    pub fn hear(&mut self) -> String {
        let mut line = String::new();
        self.from.read_line(&mut line).expect("an answer");
        line.trim_end().to_owned()
    }

    pub fn answers(&self, within: Duration) -> bool {
        let mut asked =
            libc::pollfd { fd: self.from.get_ref().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: a valid struct of this function.
        unsafe { libc::poll(&raw mut asked, 1, within.as_millis() as libc::c_int) == 1 }
    }

    pub fn ask(&mut self, what: &str) -> String {
        self.tell(what);
        self.hear()
    }

    pub fn id(&self) -> libc::pid_t {
        self.child.id() as libc::pid_t
    }

    pub fn signal(&self, signal: libc::c_int) {
        // SAFETY: the process is ours and has not been waited for.
        assert_eq!(unsafe { libc::kill(self.id(), signal) }, 0);
    }

    /// Kills the process, as the system does when memory is short.
    pub fn kill(&mut self) {
        self.child.kill().expect("to kill");
        self.child.wait().expect("its end");
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn soon(mut what: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    while !what() {
        if begin.elapsed() > LONG {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}
