//! Many processes that take and give back as fast as they can, with a witness of their own.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitCode};

use gpusched::node::{Hold, Node, Want};

use super::member::{Case, Folder, join};

pub const CASES: &[Case] = &[
    ("eight processes at four devices: never more on one than its slots", hammered),
    ("the same, while some of them are killed", hammered_and_killed),
];

const SLOTS: usize = 2;

/// Random numbers: xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % end
    }
}

/// A file for each slot, locked by who has it in a way that has nothing to do with the leases.
struct Witnesses(Vec<[File; SLOTS]>);

impl Witnesses {
    fn new(folder: &Path) -> Witnesses {
        let file = |device: usize, slot: usize| {
            File::create(folder.join(format!("witness-{device}-{slot}"))).expect("a file")
        };
        Witnesses((0..4).map(|device| std::array::from_fn(|slot| file(device, slot))).collect())
    }

    /// A slot of the device that nobody has.
    fn take(&self, device: usize, held: &[Taken<'_>]) -> Option<(usize, &File)> {
        let ours = |slot| held.iter().any(|taken| (taken.device, taken.slot) == (device, slot));
        let mut slots = self.0[device].iter().enumerate();
        slots.find(|&(slot, witness)| !ours(slot) && witness.try_lock().is_ok())
    }
}

struct Taken<'a> {
    device: usize,
    slot: usize,
    witness: &'a File,
    _hold: Hold,
}

/// The witness first: it says that we have it, so it must not outlive the lease.
impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.witness.unlock().expect("our own lock");
    }
}

/// What a process does: folder, seed, rounds.
pub fn play(arguments: &[String]) -> ExitCode {
    let folder = Path::new(&arguments[0]);
    let (seed, rounds): (u64, u64) = (arguments[1].parse().unwrap(), arguments[2].parse().unwrap());
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    // Opened first: of a process that is killed, they are closed before its leases.
    let witnesses = Witnesses::new(folder);
    let mut node = join(&folder.join("leases"), 4, SLOTS as u32).expect("to join");
    let mut held: Vec<Taken<'_>> = Vec::new();
    let mut done = 0;
    while done < rounds {
        match random.below(40) {
            0 if held.is_empty() => {
                node = join(&folder.join("leases"), 4, SLOTS as u32).expect("to join again")
            }
            1 => node.inside().expect("inside").want(None),
            _ => {}
        }
        let costs: Vec<_> =
            (0..4).map(|_| (random.below(4) > 0).then(|| 1.0 + random.below(9) as f64)).collect();
        let want = Want { priority: random.below(3) as i32, bytes: vec![random.below(100); 4], costs };
        if let Some((device, hold)) = turn(&node, want, &held) {
            let Some((slot, witness)) = witnesses.take(device, &held) else {
                println!("process {seed}: device {device} has more holders than slots");
                return ExitCode::FAILURE;
            };
            hold.in_use(random.below(50));
            held.push(Taken { device, slot, witness, _hold: hold });
            done += 1;
        }
        if held.len() == 3 || random.below(2) == 0 && !held.is_empty() {
            drop(held.swap_remove(random.below(held.len() as u64) as usize));
        }
    }
    ExitCode::SUCCESS
}

/// Begins where it may, or waits for a moment with its ticket.
fn turn(node: &Node, want: Want, held: &[Taken<'_>]) -> Option<(usize, Hold)> {
    let mut inside = node.inside().expect("inside");
    let costs = want.costs.clone();
    inside.want(Some(want));
    let looks = inside.outlook();
    let free = |device: &usize| {
        let own = held.iter().filter(|taken| taken.device == *device).count();
        costs[*device].is_some() && own + looks[*device].lanes.len() < SLOTS
    };
    let Some(device) = (0..4).find(free) else {
        drop(inside);
        // Also when nobody gives back, because we are the ones who hold: then we do.
        node.wait(Some(std::time::Duration::from_millis(2)));
        return None;
    };
    let hold = inside.hold(device, costs[device], 10).expect("a lease");
    Some((device, hold))
}

fn start(folder: &Folder, seed: u64, rounds: u64) -> Child {
    let this = std::env::current_exe().expect("this program");
    let mut command = Command::new(this);
    command.arg("--hammer").arg(&folder.0).arg(seed.to_string()).arg(rounds.to_string());
    command.spawn().expect("a process")
}

fn hammered() {
    let folder = Folder::new();
    let children: Vec<Child> = (1..=8).map(|seed| start(&folder, seed, 150)).collect();
    for mut child in children {
        let ended = child.wait().expect("its end");
        assert!(ended.success(), "{ended}");
    }
}

fn hammered_and_killed() {
    let folder = Folder::new();
    let workers: Vec<Child> = (1..=4).map(|seed| start(&folder, seed, 100)).collect();
    let mut random = Random(99);
    for seed in 100..112 {
        let mut victim = start(&folder, seed, u64::MAX);
        std::thread::sleep(std::time::Duration::from_millis(5 + random.below(20)));
        victim.kill().expect("to kill");
        let ended = victim.wait().expect("its end");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(libc::SIGKILL));
    }
    for mut child in workers {
        let ended = child.wait().expect("its end");
        assert!(ended.success(), "{ended}");
    }
}
