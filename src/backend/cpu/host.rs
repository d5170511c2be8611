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
    let machine = meminfo("MemTotal:").unwrap_or_else(physical);
    groups().into_iter().map(|group| group.limit).fold(machine, u64::min)
}

/// Memory that could be allocated now without swapping.
pub fn free_bytes() -> u64 {
    let machine = meminfo("MemAvailable:").unwrap_or_else(physical).min(addresses());
    groups().into_iter().map(|group| group.limit.saturating_sub(group.used)).fold(machine, u64::min)
}

/// Whether so much may be allocated now. The system grants more than there is and kills who uses it,
/// so whoever needs much looks first; a few megabytes are not worth the look.
pub fn has_room(bytes: u64) -> bool {
    bytes < 4 << 20 || bytes <= free_bytes()
}

/// An empty list with room for `len` elements; `None` if there is no memory for it now.
pub fn reserve<T>(len: usize) -> Option<Vec<T>> {
    let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
    let mut list = Vec::new();
    (has_room(bytes) && list.try_reserve_exact(len).is_ok()).then_some(list)
}

/// Addresses that a limit of the process (`ulimit -v`) leaves it.
fn addresses() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the place is our own.
    if unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) } != 0
        || limit.rlim_cur == libc::RLIM_INFINITY
    {
        return u64::MAX;
    }
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split_whitespace().next().and_then(|pages| pages.parse().ok()).unwrap_or(0);
    // SAFETY: only looks a number up.
    let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(0);
    limit.rlim_cur.saturating_sub(pages.saturating_mul(page))
}

/// Where there is no `/proc/meminfo`.
fn physical() -> u64 {
    // SAFETY: both only look a number up.
    let (pages, size) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    u64::try_from(pages).unwrap_or(0).saturating_mul(u64::try_from(size).unwrap_or(0))
}

/// A line of `/proc/meminfo`, in bytes.
fn meminfo(key: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(1024)
}

struct Group {
    limit: u64,
    /// Without files that are only cached.
    used: u64,
}

/// The control groups of this process that limit its memory, of either version.
fn groups() -> Vec<Group> {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut found = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (root, limit, used) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max", "memory.current"),
            c if c.split(',').any(|c| c == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
            }
            _ => continue,
        };
        // From the innermost group to the root; inside a container the path may be the outer one,
        // and then only the root is there.
        let inner = Path::new(root).join(path.trim_start_matches('/'));
        for folder in inner.ancestors().take_while(|folder| folder.starts_with(root)) {
            // An absent limit, or the word `max`, is none.
            if let Some(limit) = number(&folder.join(limit)) {
                let used = number(&folder.join(used)).unwrap_or(0).saturating_sub(cached(folder));
                found.push(Group { limit, used });
            }
        }
    }
    found
}

/// Bytes of cached files, which the system gives back when they are needed.
fn cached(folder: &Path) -> u64 {
    let text = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let old = text.contains("total_inactive_file");
    let keys =
        if old { ["total_inactive_file", "total_active_file"] } else { ["inactive_file", "active_file"] };
    let value = |line: &str| {
        let (key, value) = line.split_once(' ')?;
        keys.contains(&key).then(|| value.trim().parse::<u64>().ok())?
    };
    text.lines().filter_map(value).sum()
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_has_a_name_threads_and_memory() {
        assert!(!name().is_empty() && threads() >= 1);
        let (total, free) = (total_bytes(), free_bytes());
        assert!(total > 64 << 20 && free > 0 && free <= total, "{free} of {total}");
    }
}
