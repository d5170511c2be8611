//! Name, threads and memory of the host, as the operating system reports them.

use std::alloc::{Layout, alloc_zeroed};
use std::path::Path;
use std::ptr::NonNull;

use crate::descriptor;
use crate::error::{Error, Result};

/// Minimum size in bytes of a block that uses huge pages.
const LARGE: usize = 4 << 20;

/// Returns the processor's name.
pub fn name() -> String {
    let text = descriptor::read_to_string(Path::new("/proc/cpuinfo")).unwrap_or_default();
    let model = text.lines().find(|line| line.starts_with("model name"));
    match model.and_then(|line| line.split_once(':')) {
        Some((_, name)) => name.trim().into(),
        None => format!("{} processor", std::env::consts::ARCH),
    }
}

/// Returns the number of threads that this process may run at the same time.
pub fn threads() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

/// Returns the memory that this process can use at most: the machine's, or the limit of its control
/// group.
pub fn total_bytes() -> u64 {
    total_below(Path::new("/"))
}

/// Returns the memory that can be allocated now without swapping.
pub fn free_bytes() -> u64 {
    free_below(Path::new("/")).min(address_space().1)
}

/// As [`total_bytes`], with the folders `proc` and `sys` below `root`.
fn total_below(root: &Path) -> u64 {
    let machine = meminfo(root, "MemTotal:").unwrap_or_else(|| physical_bytes().0);
    control_groups(root).into_iter().map(|group| group.limit).fold(machine, u64::min)
}

fn free_below(root: &Path) -> u64 {
    let machine = meminfo(root, "MemAvailable:").unwrap_or_else(|| physical_bytes().1);
    control_groups(root)
        .into_iter()
        .map(|group| group.limit.saturating_sub(group.used))
        .fold(machine, u64::min)
}

/// Returns true if so many bytes can be allocated now. Linux grants more memory than it has and
/// kills the process that uses it, so large allocations check first. Below 4 MiB the check is
/// skipped.
pub fn can_allocate(bytes: u64) -> bool {
    bytes < 4 << 20 || bytes <= free_bytes()
}

/// Returns the error of an allocation of `needed` bytes that the host refuses now.
pub fn shortage(what: &str, needed: u64) -> Error {
    let (what, (limit, left)) = (what.into(), address_space());
    // No other process can change the limit, whatever the machine has.
    if needed > left {
        return Error::ProcessLimit { what, needed, left, limit };
    }
    Error::NoMemory { what, needed, place: "the host".into(), there: free_bytes() }
}

/// Returns an error unless so many bytes [can be allocated](can_allocate) now.
pub fn check_free(what: &str, needed: u64) -> Result<()> {
    if can_allocate(needed) { Ok(()) } else { Err(shortage(what, needed)) }
}

/// Returns an empty list with room for `len` elements; `None` if the memory is not available.
pub fn reserve<T>(len: usize) -> Option<Vec<T>> {
    let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
    let mut list = Vec::new();
    (can_allocate(bytes) && list.try_reserve_exact(len).is_ok()).then_some(list)
}

/// Requests huge pages for memory whose pages nobody has used yet, if it is large.
fn request_huge_pages(block: NonNull<u8>, bytes: usize) {
    const PAGE: usize = 2 << 20;
    let begin = (block.as_ptr() as usize).next_multiple_of(PAGE);
    let end = (block.as_ptr() as usize + bytes) / PAGE * PAGE;
    if bytes >= LARGE && end > begin {
        // SAFETY: whole pages inside the block. A refusal costs speed only.
        unsafe { libc::madvise(begin as *mut libc::c_void, end - begin, libc::MADV_HUGEPAGE) };
    }
}

/// Numbers for which every bit pattern is valid.
///
/// # Safety
/// Every bit pattern is a valid value, and the type has a size.
pub unsafe trait PlainNumber: Copy + Send + Sync + 'static {}

macro_rules! plain_numbers {
    ($($number:ty),*) => { $(
        // SAFETY: numbers are valid with any bits.
        unsafe impl PlainNumber for $number {}
    )* };
}
plain_numbers!(u8, u16, i32, u32, i64, u64, f32, f64);

/// Returns `len` zeros; `None` if the memory is not available. A long list gets its pages, huge
/// ones if the system has them, when they are first used.
pub fn zeros<T: PlainNumber>(len: usize) -> Option<Vec<T>> {
    let layout = Layout::array::<T>(len).ok()?;
    if len == 0 {
        return Some(Vec::new());
    }
    if !can_allocate(layout.size() as u64) {
        return None;
    }
    // SAFETY: the layout is not empty.
    let first = NonNull::new(unsafe { alloc_zeroed(layout) })?;
    request_huge_pages(first, layout.size());
    // SAFETY: allocated as a list of `len` values is, and each is a zero.
    Some(unsafe { Vec::from_raw_parts(first.as_ptr().cast(), len, len) })
}

/// Returns the limit of the process's address space (`ulimit -v`), and what is left below it.
pub fn address_space() -> (u64, u64) {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: `limit` is a valid struct.
    if unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) } != 0
        || limit.rlim_cur == libc::RLIM_INFINITY
    {
        return (u64::MAX, u64::MAX);
    }
    let text = descriptor::read_to_string(Path::new("/proc/self/statm")).unwrap_or_default();
    let pages: u64 = text.split_whitespace().next().and_then(|pages| pages.parse().ok()).unwrap_or(0);
    // SAFETY: the call reads a number.
    let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(0);
    (limit.rlim_cur, limit.rlim_cur.saturating_sub(pages.saturating_mul(page)))
}

/// Makes the allocator use as little of a limited address space (`ulimit -v`) as it can. By default
/// glibc reserves 64 MiB for each thread, and keeps freed blocks of up to 32 MiB.
///
/// Concerns the whole process, so it is for programs and not for libraries. It has no effect
/// without a limit. Call it before the first thread starts.
pub fn save_address_space() {
    #[cfg(target_env = "gnu")]
    if address_space().0 < u64::MAX {
        // SAFETY: sets two numbers of the allocator. A refusal costs only addresses.
        unsafe {
            libc::mallopt(libc::M_ARENA_MAX, 1);
            libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 20);
        }
    }
}

/// Returns the physical memory and its free part, on systems without `/proc/meminfo`. The system
/// counts cached files as used here.
fn physical_bytes() -> (u64, u64) {
    // SAFETY: a struct of numbers, all of which may be 0.
    let mut found: libc::sysinfo = unsafe { std::mem::zeroed() };
    // SAFETY: `found` is a valid struct. If the call fails, it stays 0.
    unsafe { libc::sysinfo(&raw mut found) };
    // The numbers have 32 bits on some processors.
    let free = found.freeram.saturating_add(found.bufferram) as u64;
    let unit = found.mem_unit.into();
    ((found.totalram as u64).saturating_mul(unit), free.saturating_mul(unit))
}

/// Returns a value of `/proc/meminfo` in bytes.
fn meminfo(root: &Path, key: &str) -> Option<u64> {
    let text = descriptor::read_to_string(&root.join("proc/meminfo")).ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(1024)
}

struct ControlGroup {
    limit: u64,
    /// Used bytes without cached files.
    used: u64,
}

/// Returns the control groups, of either version, that limit the memory of this process.
fn control_groups(root: &Path) -> Vec<ControlGroup> {
    let text = descriptor::read_to_string(&root.join("proc/self/cgroup"));
    // Without it, the groups at the root are those of the container, if it has its own.
    let text = text.unwrap_or_else(|_| "0::/\n0:memory:/\n".into());
    let mut found = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (mount, limit, used) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max", "memory.current"),
            c if c.split(',').any(|c| c == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
            }
            _ => continue,
        };
        // From the innermost group to the root. Inside a container the path may be the one outside,
        // and then only the root exists.
        let mount = root.join(mount);
        let inner = mount.join(path.trim_start_matches('/'));
        for folder in inner.ancestors().take_while(|folder| folder.starts_with(&mount)) {
            // A missing limit, or the word `max`, means no limit.
            if let Some(limit) = read_number(&folder.join(limit)) {
                let used = read_number(&folder.join(used)).unwrap_or(0).saturating_sub(cached_bytes(folder));
                found.push(ControlGroup { limit, used });
            }
        }
    }
    found
}

/// Returns the bytes of cached files, which the system frees when they are needed.
fn cached_bytes(folder: &Path) -> u64 {
    let text = descriptor::read_to_string(&folder.join("memory.stat")).unwrap_or_default();
    let old = text.contains("total_inactive_file");
    let keys =
        if old { ["total_inactive_file", "total_active_file"] } else { ["inactive_file", "active_file"] };
    let value = |line: &str| {
        let (key, value) = line.split_once(' ')?;
        keys.contains(&key).then(|| value.trim().parse::<u64>().ok())?
    };
    text.lines().filter_map(value).sum()
}

fn read_number(path: &Path) -> Option<u64> {
    descriptor::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use testkit::Folder;

    /// Returns total and free memory according to these files in place of the system's.
    fn bytes(files: &[(&str, &str)]) -> (u64, u64) {
        let root = Folder::new();
        let meminfo = "MemTotal:  8000000 kB\nMemFree:  100 kB\nMemAvailable:  5000000 kB\n";
        for (path, text) in files.iter().chain(&[("proc/meminfo", meminfo)]) {
            let path = root.at(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        (total_below(root.path()), free_below(root.path()))
    }

    #[test]
    fn memory_is_that_of_the_machine_where_no_group_limits_it() {
        let machine = (8_000_000 * 1024, 5_000_000 * 1024);
        assert_eq!(bytes(&[]), machine);
        let unlimited = [
            ("proc/self/cgroup", "0::/user\n"),
            ("sys/fs/cgroup/user/memory.max", "max\n"),
            ("sys/fs/cgroup/user/memory.current", "123456789\n"),
        ];
        assert_eq!(bytes(&unlimited), machine);
    }

    #[test]
    fn memory_is_limited_by_a_control_group_of_version_2_and_by_those_above_it() {
        let inner = [
            ("proc/self/cgroup", "0::/job/step\n"),
            ("sys/fs/cgroup/job/step/memory.max", "3000000000\n"),
            ("sys/fs/cgroup/job/step/memory.current", "1000000000\n"),
            // Cached files are freed when memory is needed.
            (
                "sys/fs/cgroup/job/step/memory.stat",
                "anon 7\ninactive_file 300000000\nactive_file 100000000\n",
            ),
        ];
        assert_eq!(bytes(&inner), (3_000_000_000, 2_400_000_000));
        let outer = [
            ("sys/fs/cgroup/job/memory.max", "2000000000\n"),
            ("sys/fs/cgroup/job/memory.current", "1900000000\n"),
        ];
        let both = [&inner[..], &outer].concat();
        assert_eq!(bytes(&both), (2_000_000_000, 100_000_000));
        // A group may exceed its limit for a moment.
        let over = [("sys/fs/cgroup/job/memory.current", "2000000001\n")];
        assert_eq!(bytes(&[&both[..], &over].concat()), (2_000_000_000, 0));
        // A container has its own group at the root, while the path is that of the machine.
        let container = [
            ("proc/self/cgroup", "0::/docker/abc\n"),
            ("sys/fs/cgroup/memory.max", "4000000000\n"),
            ("sys/fs/cgroup/memory.current", "1000000000\n"),
        ];
        assert_eq!(bytes(&container), (4_000_000_000, 3_000_000_000));
    }

    #[test]
    fn memory_is_limited_by_a_control_group_of_version_1() {
        let files = [
            ("proc/self/cgroup", "5:cpu,cpuacct:/other\n4:hugetlb,memory:/slurm/job_7\n0::/unified\n"),
            ("sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", "3000000000\n"),
            ("sys/fs/cgroup/memory/slurm/job_7/memory.usage_in_bytes", "2500000000\n"),
            (
                "sys/fs/cgroup/memory/slurm/job_7/memory.stat",
                "inactive_file 1\nactive_file 1\ntotal_inactive_file 500000000\ntotal_active_file 200000000\n",
            ),
            // No limit is a number that no machine reaches.
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/other/memory.limit_in_bytes", "1\n"),
        ];
        assert_eq!(bytes(&files), (3_000_000_000, 1_200_000_000));
    }

    /// As with `ProcSubset=pid` of systemd.
    #[test]
    fn memory_is_limited_without_the_files_of_proc() {
        let folder = |path: &str, text: &str| {
            let root = Folder::new();
            fs::create_dir_all(root.at(path).parent().unwrap()).unwrap();
            fs::write(root.at(path), text).unwrap();
            root
        };
        let limit = 16 << 20;
        for path in ["sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"] {
            assert_eq!(total_below(folder(path, &limit.to_string()).path()), limit, "{path}");
        }
        let root = Folder::new();
        let (total, free) = (total_below(root.path()), free_below(root.path()));
        assert!(free > 0 && free < total && total >= total_bytes(), "{free} of {total}");
    }

    #[test]
    fn zeros_get_their_pages_at_first_use() {
        let resident = |list: &[f32]| {
            let mut pages = vec![0_u8; size_of_val(list) / 4096 - 1];
            let begin = (list.as_ptr() as usize).next_multiple_of(4096);
            // SAFETY: whole pages of the list, and a byte for each.
            let status = unsafe { libc::mincore(begin as *mut _, 4096 * pages.len(), pages.as_mut_ptr()) };
            assert_eq!(status, 0);
            pages.iter().filter(|&page| page & 1 == 1).count()
        };
        let mut list = zeros::<f32>(16 << 20).unwrap();
        // Less than 1024 of 16,384 pages, because the kernel may allocate 512 at a time.
        assert!(resident(&list) < 1024, "{}", resident(&list));
        list[8 << 20..].fill(1.0);
        assert!(resident(&list) > 8000 && list[..8 << 20].iter().all(|&value| value == 0.0));
        assert_eq!((zeros::<u16>(0), zeros::<f32>(usize::MAX)), (Some(vec![]), None));
    }

    #[test]
    fn the_host_has_a_name_threads_and_memory() {
        assert!(!name().is_empty() && threads() >= 1);
        let (total, free) = (total_bytes(), free_bytes());
        assert!(total > 64 << 20 && free > 0 && free <= total, "{free} of {total}");
    }
}
