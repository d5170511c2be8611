//! Many processes that lease and release as fast as they can, with a check that does not depend on
//! the leases.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, ExitCode};

use gpusched::node::{Membership, RequestedTask, SlotLease, SlotRequest};
use testkit::Random;
use testkit::process::isolated;

use super::member::{Folder, join};

const SLOTS: usize = 2;

/// A file for each slot. The process that holds the slot locks it, independently of the leases.
struct Witnesses(Vec<[File; SLOTS]>);

impl Witnesses {
    fn new(folder: &Path) -> Witnesses {
        let file = |device: usize, slot: usize| {
            let path = folder.join(format!("witness-{device}-{slot}"));
            File::options().read(true).write(true).create(true).truncate(false).open(path).expect("a file")
        };
        Witnesses((0..4).map(|device| std::array::from_fn(|slot| file(device, slot))).collect())
    }

    /// Locks a free slot of the device, and writes this process's number into its file.
    fn take(&self, device: usize, held: &[Taken<'_>]) -> Option<(usize, &File)> {
        let ours = |slot| held.iter().any(|taken| (taken.device, taken.slot) == (device, slot));
        let others = || self.0[device].iter().enumerate().filter(|&(slot, _)| !ours(slot));
        loop {
            if let Some((slot, witness)) = others().find(|(_, witness)| witness.try_lock().is_ok()) {
                witness.write_all_at(&std::process::id().to_ne_bytes(), 0).expect("room for a number");
                return Some((slot, witness));
            }
            // The kernel closes the files of a killed process in any order, possibly the lease's
            // first.
            if !others().any(|(_, witness)| is_exiting(witness)) {
                return None;
            }
        }
    }
}

/// Returns true if the process that wrote its number into the file is dead or about to be, or has
/// not written it yet: the number is 0 or missing.
fn is_exiting(witness: &File) -> bool {
    const PF_EXITING: u32 = 4;
    let mut number = [0; 4];
    let read = witness.read_exact_at(&mut number, 0);
    let status = std::fs::read_to_string(format!("/proc/{}/stat", u32::from_ne_bytes(number)));
    let (Ok(()), Ok(status)) = (read, status) else { return true };
    // After the name, which ends with `)`: the state, five numbers, the flags.
    let mut fields = status.rsplit(')').next().expect("fields").split_whitespace();
    fields.nth(6).and_then(|flags| flags.parse::<u32>().ok()).is_none_or(|flags| flags & PF_EXITING != 0)
}

struct Taken<'a> {
    device: usize,
    slot: usize,
    witness: &'a File,
    _hold: SlotLease,
}

/// Unlocks the witness first: it says that this process holds the slot, so it must not outlive the
/// lease. The number goes before the lock: the next process may be killed before it writes its own.
impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.witness.write_all_at(&[0; 4], 0).expect("room for a number");
        self.witness.unlock().expect("our own lock");
    }
}

/// Process of the test: its arguments are folder, seed and rounds.
pub fn play(arguments: &[String]) -> ExitCode {
    let folder = Path::new(&arguments[0]);
    let (seed, rounds): (u64, u64) = (arguments[1].parse().unwrap(), arguments[2].parse().unwrap());
    let mut random = Random::new(seed);
    let witnesses = Witnesses::new(folder);
    let mut node = join(&folder.join("leases"), 4, SLOTS as u32).expect("to join");
    let mut held: Vec<Taken<'_>> = Vec::new();
    let mut done = 0;
    while done < rounds {
        match random.below(40) {
            0 if held.is_empty() => {
                node = join(&folder.join("leases"), 4, SLOTS as u32).expect("to join again")
            }
            1 => node.lock().expect("table").request(None),
            _ => {}
        }
        let costs: Vec<_> =
            (0..4).map(|_| (random.below(4) > 0).then(|| 1.0 + random.below(9) as f64)).collect();
        let task = |cost: Option<f64>| {
            let (number, priority) = (random.below(2) as u32, random.below(3) as i32);
            cost.map(|cost| RequestedTask { number, priority, cost })
        };
        let want = SlotRequest(costs.into_iter().map(task).collect());
        if let Some((device, hold)) = turn(&node, want, &held) {
            let Some((slot, witness)) = witnesses.take(device, &held) else {
                println!("process {seed}: device {device} has more holders than slots");
                return ExitCode::FAILURE;
            };
            hold.set_used_bytes(random.below(50) as u64);
            held.push(Taken { device, slot, witness, _hold: hold });
            done += 1;
        }
        if held.len() == 3 || random.below(2) == 0 && !held.is_empty() {
            drop(held.swap_remove(random.below(held.len())));
        }
    }
    ExitCode::SUCCESS
}

/// Begins if a slot is free, or waits for a moment with its ticket.
fn turn(node: &Membership, want: SlotRequest, held: &[Taken<'_>]) -> Option<(usize, SlotLease)> {
    let mut table = node.lock().expect("table");
    let costs: Vec<_> = want.0.iter().map(|task| task.map(|task| task.cost)).collect();
    table.request(Some(want));
    let looks = table.availability();
    let free = |device: &usize| {
        let own = held.iter().filter(|taken| taken.device == *device).count();
        costs[*device].is_some() && own + looks[*device].busy_slots.len() < SLOTS
    };
    let Some(device) = (0..4).find(free) else {
        drop(table);
        // With a limit, because all holders may be this process, which then releases.
        node.wait(Some(std::time::Duration::from_millis(2)));
        return None;
    };
    let hold = table.lease(device, costs[device], 10).expect("a lease");
    Some((device, hold))
}

fn start(folder: &Folder, seed: u64, rounds: u64) -> Child {
    let this = std::env::current_exe().expect("this program");
    let mut command = isolated(this);
    command.arg("--hammer").arg(folder.path()).arg(seed.to_string()).arg(rounds.to_string());
    command.spawn().expect("a process")
}

pub fn eight_processes_never_exceed_slots_while_others_are_killed() {
    let folder = Folder::new();
    let workers: Vec<Child> = (1..=8).map(|seed| start(&folder, seed, 150)).collect();
    let mut random = Random::new(99);
    for seed in 100..112 {
        let mut victim = start(&folder, seed, u64::MAX);
        std::thread::sleep(std::time::Duration::from_millis(5 + random.below(20) as u64));
        victim.kill().expect("to kill");
        let ended = victim.wait().expect("its end");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(libc::SIGKILL));
    }
    for mut child in workers {
        let ended = child.wait().expect("its end");
        assert!(ended.success(), "{ended}");
    }
}
