//! What the operating system tells of the host: its name, its threads, its memory.

use std::fs;
use std::path::Path;

/// The processor's name, as the system has it.
pub fn name() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find(|line| line.starts_with("model name"));
    match model.and_then(|line| line.split_once(':')) {
        Some((_, name)) => name.trim().into(),
        None => format!("{} processor", std::env::consts::ARCH),
    }
}

/// Threads that this process may run at once.
pub fn threads() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

/// Memory that this process could ever have: the machine's, or its control group's limit.
pub fn total_bytes() -> u64 {
    let machine = meminfo("MemTotal:").unwrap_or(0);
    groups().into_iter().map(|group| group.limit).fold(machine, u64::min)
}

/// Memory that could be allocated now without swapping.
pub fn free_bytes() -> u64 {
    let machine = meminfo("MemAvailable:").unwrap_or(0);
    groups().into_iter().map(|group| group.limit.saturating_sub(group.used)).fold(machine, u64::min)
}

/// A line of `/proc/meminfo`, in bytes.
fn meminfo(key: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(1024)
}

struct Group {
    limit: u64,
    used: u64,
}

/// The control groups of this process that limit its memory, of either version.
fn groups() -> Vec<Group> {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut found = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let (root, limit, used) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max", "memory.current"),
            c if c.split(',').any(|c| c == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
            }
            _ => continue,
        };
        // Inside a container the path may be the outer one; the root then is the container's group.
        for folder in path
            .trim_start_matches('/')
            .split('/')
            .scan(Path::new(root).to_owned(), |at, part| {
                at.push(part);
                Some(at.clone())
            })
            .chain([Path::new(root).to_owned()])
        {
            // An absent limit, or the word `max`, is none.
            if let Some(limit) = number(&folder.join(limit)) {
                found.push(Group { limit, used: number(&folder.join(used)).unwrap_or(0) });
            }
        }
    }
    found
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}
