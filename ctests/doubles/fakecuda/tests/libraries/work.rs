//! Kernels, streams, memory and modules, and what goes wrong with them.

use std::time::{Duration, Instant};

use crate::raw::*;

/// A stream of the current context, with `fill` of small.ptx and memory for it.
struct Filler {
    stream: usize,
    kernel: usize,
    p: u64,
}

impl Filler {
    fn new() -> Self {
        let module = load(SMALL).expect("the module");
        let kernel = function(module, "fill").expect("fill");
        Filler { stream: stream(), kernel, p: alloc(1 << 20).expect("memory") }
    }

    fn fill(&self, n: i32, grid: u32, block: u32) -> i32 {
        let value = 2f32;
        let params = [&raw const self.p as usize, &raw const value as usize, &raw const n as usize];
        launch(self.kernel, grid, block, 0, self.stream, &params)
    }

    fn sync(&self) -> i32 {
        sync(self.stream)
    }
}

/// Loads a kernel of a pointer and a number, and launches it: the status once it has ended.
fn run(name: &str, p: u64, threads: u32, second: i64) -> i32 {
    let kernel = function(load(SMALL).expect("the module"), name).expect(name);
    let (stream, params) = (stream(), [&raw const p as usize, &raw const second as usize]);
    assert_eq!(launch(kernel, 1, threads, 0, stream, &params), 0);
    sync(stream)
}

pub fn launches_are_asynchronous_and_take_their_time() {
    retain(0).expect("a context");
    let filler = Filler::new();
    // 64 Ki threads of about 12 instructions at 20 million a second: some 40 ms.
    let begin = Instant::now();
    for _ in 0..5 {
        assert_eq!(filler.fill(65536, 1024, 64), 0);
    }
    let given = begin.elapsed();
    assert_eq!(filler.sync(), 0);
    let done = begin.elapsed();
    assert!(done > Duration::from_millis(150) && done > 2 * given, "given in {given:?}, done in {done:?}");
    // A pageable source may change as soon as the call is over, a pinned one not before the copy.
    let (mut pinned, mut pageable) = (Box::new(1u32), 1u32);
    let (at, p, stream) = (&raw mut *pinned, filler.p, filler.stream);
    assert_eq!(cu!(cuMemHostRegister_v2(at => *mut u32, 4 => usize, 0 => u32)), 0);
    assert_eq!(filler.fill(65536, 1024, 64), 0);
    for (to, from) in [(p, &raw mut pageable), (p + 4, at)] {
        let status = cu!(cuMemcpyHtoDAsync_v2(to => u64, from => *mut u32, 4 => usize, stream => usize));
        assert_eq!(status, 0);
    }
    (pageable, *pinned) = (7, 7);
    let mut got = [0u32; 2];
    let status = cu!(cuMemcpyDtoHAsync_v2(&mut got => &mut [u32; 2], p => u64, 8 => usize, stream => usize));
    assert_eq!((status, got, pageable), (0, [1, 7], 7));
    assert_eq!(cu!(cuMemHostUnregister(at => *mut u32)), 0);
}

pub fn memory_is_counted() {
    retain(0).expect("a context");
    assert_eq!(info(), (56 << 20, 64 << 20));
    let p = alloc(40 << 20).expect("most of it");
    assert_eq!(alloc(20 << 20), Err(2));
    assert_eq!(alloc(0), Err(1));
    assert_eq!(info().0, 16 << 20);
    assert_eq!(cu!(cuMemFree_v2(p + 256 => u64)), 1);
    assert_eq!(cu!(cuMemFree_v2(p => u64)), 0);
    assert_eq!(cu!(cuMemFree_v2(p => u64)), 1);
    alloc(50 << 20).expect("the memory that was freed");
    // A context needs memory, too.
    assert_eq!(cu!(cuDevicePrimaryCtxRelease_v2(0 => i32)), 0);
    assert_eq!(number(&report(0), "used_bytes"), 0);
    assert_eq!(alloc(1), Err(709));
}

pub fn fresh_memory_is_poisoned_and_no_host_memory() {
    retain(0).expect("a context");
    let (p, stream) = (alloc(4096).expect("memory"), stream());
    // Bit 60 without its copies above: an address that no processor follows.
    assert_eq!(p >> 60, 1);
    let mut got = [0f32; 4];
    let host = got.as_ptr() as u64;
    let mut read = |from: u64| {
        let to = &mut got;
        let status =
            cu!(cuMemcpyDtoHAsync_v2(to => &mut [f32; 4], from => u64, 16 => usize, stream => usize));
        (status, got)
    };
    let (status, fresh) = read(p);
    assert!(status == 0 && fresh.iter().all(|x| x.is_nan()));
    assert_eq!((read(p + 4088).0, read(host).0), (1, 1));
    assert_eq!(cu!(cuMemsetD8Async(p + 4 => u64, 0 => u8, 8 => usize, stream => usize)), 0);
    let (_, set) = read(p);
    assert_eq!(set.map(|x| x.to_bits()), [u32::MAX, 0, 0, u32::MAX]);
    // The caller's own memory, registered.
    let mut mine = [0u8; 64];
    let at = mine.as_mut_ptr() as usize;
    assert_eq!(cu!(cuMemHostUnregister(at => usize)), 713);
    assert_eq!(cu!(cuMemHostRegister_v2(at => usize, 64 => usize, 0 => u32)), 0);
    assert_eq!(cu!(cuMemHostRegister_v2(at + 32 => usize, 8 => usize, 0 => u32)), 712);
    assert_eq!(cu!(cuMemHostUnregister(at => usize)), 0);
}

pub fn modules_are_checked() {
    retain(0).expect("a context");
    assert_eq!(load(&SMALL.replace(".version 6.0", ".version 7.8")), Err(222));
    assert!(load(&SMALL.replace(".version 6.0", ".version 7.4")).is_ok());
    assert_eq!(load(&SMALL.replace("sm_35", "sm_61")), Err(209));
    assert_eq!(load("garbage"), Err(218));
    assert_eq!(load("\u{7f}ELF and so on"), Err(209));
    assert_eq!(load(&SMALL[..1000]), Err(218));
    // The words of the assembler.
    let text = SMALL.replace("fma.rn.f32", "wrong.b32");
    let line = 1 + text.lines().position(|line| line.contains("wrong.b32")).expect("a line");
    let text = std::ffi::CString::new(text).expect("no zero");
    let (mut module, mut log) = (0usize, [0u8; 256]);
    let options = [5i32, 6];
    let mut values = [log.as_mut_ptr() as usize, log.len()];
    let status = cu!(cuModuleLoadDataEx(
        &mut module => &mut usize, text.as_ptr() => *const i8, 2 => u32, options.as_ptr() => *const i32,
        values.as_mut_ptr() => *mut usize
    ));
    let words = String::from_utf8_lossy(&log[..values[1]]).into_owned();
    assert_eq!(status, 218);
    assert!(words.contains(&format!("line {line};")) && words.contains("wrong.b32"), "{words}");
    let module = load(SMALL).expect("a good one");
    assert_eq!(function(module, "no_such_kernel"), Err(500));
    assert_eq!(cu!(cuModuleUnload(module => usize)), 0);
    assert_eq!(cu!(cuModuleUnload(module => usize)), 400);
    assert_eq!(function(module, "fill"), Err(400));
    // A card older than the text.
    retain(1).expect("a context");
    assert_eq!(load(SMALL), Err(209));
}

pub fn launch_limits() {
    retain(0).expect("a context");
    let filler = Filler::new();
    assert_eq!(filler.fill(64, 1, 64), 0);
    // Its bounds say 64.
    assert_eq!(filler.fill(64, 1, 96), 701);
    assert_eq!(filler.fill(64, 1, 2048), 1);
    assert_eq!(filler.fill(64, 0, 64), 1);
    assert_eq!(launch(777, 1, 64, 0, filler.stream, &[]), 400);
    // Dynamic shared memory is none of this driver's.
    assert_eq!(launch(filler.kernel, 1, 64, 4, filler.stream, &[]), 1);
    assert_eq!(filler.sync(), 0);
}

pub fn report_counts_what_is_left() {
    assert_eq!(cu!(cuInit(0 => u32)), 0);
    retain(1).expect("a context");
    alloc(100).expect("memory");
    load(SMALL).expect("a module");
    let mut event = 0usize;
    assert_eq!(cu!(cuEventCreate(&mut event => &mut usize, 0 => u32)), 0);
    let keys = ["contexts", "allocations", "events", "modules", "retained", "module_loads"];
    let (left, unused) = (report(1), report(0));
    assert_eq!(keys.map(|key| number(&left, key)), [1; 6], "{left}");
    assert_eq!(keys.map(|key| number(&unused, key)), [0; 6], "{unused}");
    assert_eq!(cu!(cuDevicePrimaryCtxRelease_v2(1 => i32)), 0);
    let left = report(1);
    assert_eq!(keys.map(|key| number(&left, key)), [0, 0, 0, 0, 0, 1], "{left}");
    assert_eq!(cu!(cuEventDestroy_v2(event => usize)), 400);
}

pub fn child_of_a_fork_gets_nothing() {
    retain(0).expect("a context");
    let stream = stream();
    // SAFETY: the child only calls a library that answers at once, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let (mut free, mut total) = (0usize, 0usize);
        let wrong = cu!(cuInit(0 => u32)) != 3
            || cu!(cuMemGetInfo_v2(&mut free => &mut usize, &mut total => &mut usize)) != 3
            || cu!(cuDevicePrimaryCtxRetain(&mut free => &mut usize, 0 => i32)) != 3;
        // SAFETY: ends the child without touching what it shares with its parent.
        unsafe { libc::_exit(i32::from(wrong)) };
    }
    let mut status = -1;
    // SAFETY: our own child.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!((status, sync(stream)), (0, 0));
}

pub fn poisoned_gpu_poisons_no_other() {
    let first = retain(0).expect("a context");
    let filler = Filler::new();
    assert_eq!((filler.fill(64, 1, 64), filler.sync()), (0, 0));
    // The launch itself seems to work; everything after it fails.
    assert_eq!(filler.fill(64, 1, 64), 0);
    assert_eq!((filler.sync(), filler.sync(), filler.fill(64, 1, 64)), (719, 719, 719));
    assert_eq!((alloc(16), load(SMALL)), (Err(719), Err(719)));
    retain(1).expect("the other card");
    let other = Filler::new();
    assert_eq!((other.fill(64, 1, 64), other.sync()), (0, 0));
    // After a reset there is a new context, without the old one's memory.
    assert_eq!(cu!(cuDevicePrimaryCtxReset_v2(0 => i32)), 0);
    assert_eq!(cu!(cuCtxSetCurrent(first => usize)), 201);
    assert_eq!(number(&report(0), "retained"), 1, "whoever retains has to release");
    let second = retain(0).expect("a new context");
    // As on a real machine, its handle is that of the old one.
    assert_eq!(first, second);
    assert_eq!(cu!(cuMemFree_v2(filler.p => u64)), 1);
    let filler = Filler::new();
    assert_eq!((filler.fill(64, 1, 64), filler.sync()), (0, 0));
    assert_eq!(number(&report(0), "module_loads"), 2);
}

pub fn out_of_bounds_is_illegal_address() {
    retain(0).expect("a context");
    let (p, neighbour) = (alloc(256).expect("memory"), alloc(4096).expect("memory"));
    assert!(neighbour > p);
    assert_eq!((run("out_of_bounds", p, 32, 33), alloc(1)), (700, Err(700)));
    // The neighbour does not begin near it.
    assert_eq!(cu!(cuDevicePrimaryCtxReset_v2(0 => i32)), 0);
    retain(0).expect("a new context");
    let p = alloc(256).expect("memory");
    assert_eq!(run("out_of_bounds", p, 32, 128), 700);
    // Another card's memory is no memory here.
    retain(1).expect("the other card");
    assert_eq!(run("out_of_bounds", p, 32, 0), 700);
}

pub fn kernels_that_go_wrong() {
    for (name, threads, expected) in [("misaligned", 1, 716), ("divergent", 32, 719), ("endless", 1, 702)] {
        retain(0).expect("a context");
        let (p, stream) = (alloc(256).expect("memory"), stream());
        assert_eq!(cu!(cuMemsetD8Async(p => u64, 0 => u8, 256 => usize, stream => usize)), 0);
        assert_eq!((sync(stream), run(name, p, threads, 0)), (0, expected), "{name}");
        assert_eq!(cu!(cuDevicePrimaryCtxReset_v2(0 => i32)), 0);
    }
}
