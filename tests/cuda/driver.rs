//! The virtual driver itself, by its C functions: what the other modules rely on.

use std::ffi::CString;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use testkit::Folder;

use crate::fixtures::*;

const SMALL: &str = crate::fixtures::SMALL.text;

/// A call's result, or its code.
fn answer<T>(status: i32, value: T) -> Result<T, i32> {
    if status == 0 { Ok(value) } else { Err(status) }
}

/// Makes a device's context current.
fn retain(device: i32) -> Result<usize, i32> {
    keeps_objects();
    let mut context = 0usize;
    assert_eq!(cu!(cuInit(0 => u32)), 0);
    answer(cu!(cuDevicePrimaryCtxRetain(&mut context => &mut usize, device => i32)), ())?;
    answer(cu!(cuCtxSetCurrent(context => usize)), context)
}

fn alloc(bytes: usize) -> Result<u64, i32> {
    let mut pointer = 0u64;
    let status = cu!(cuMemAlloc_v2(&mut pointer => &mut u64, bytes => usize));
    answer(status, pointer)
}

fn info() -> (usize, usize) {
    let (mut free, mut total) = (0usize, 0usize);
    assert_eq!(cu!(cuMemGetInfo_v2(&mut free => &mut usize, &mut total => &mut usize)), 0);
    (free, total)
}

fn load(text: &str) -> Result<usize, i32> {
    let (text, mut module) = (CString::new(text).unwrap(), 0usize);
    let status = cu!(cuModuleLoadData(&mut module => &mut usize, text.as_ptr() => *const i8));
    answer(status, module)
}

fn function(module: usize, name: &str) -> Result<usize, i32> {
    let (name, mut function) = (CString::new(name).unwrap(), 0usize);
    let name = name.as_ptr();
    let status = cu!(cuModuleGetFunction(&mut function => &mut usize, module => usize, name => *const i8));
    answer(status, function)
}

fn stream() -> usize {
    let mut stream = 0usize;
    assert_eq!(cu!(cuStreamCreate(&mut stream => &mut usize, 0 => u32)), 0);
    stream
}

fn sync(stream: usize) -> i32 {
    cu!(cuStreamSynchronize(stream => usize))
}

/// Launches a kernel with pointers to its parameters.
fn launch(function: usize, grid: u32, block: u32, shared: u32, stream: usize, params: &[usize]) -> i32 {
    cu!(cuLaunchKernel(
        function => usize, grid => u32, 1 => u32, 1 => u32, block => u32, 1 => u32, 1 => u32,
        shared => u32, stream => usize, params.as_ptr() => *const usize, 0 => usize
    ))
}

/// A stream of the current context, with `fill` of small.ptx and memory for it.
struct Filler {
    stream: usize,
    kernel: usize,
    p: u64,
}

impl Filler {
    fn new() -> Self {
        let module = load(SMALL).unwrap();
        let kernel = function(module, "fill").unwrap();
        Filler { stream: stream(), kernel, p: alloc(1 << 20).unwrap() }
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

/// Runs a kernel of a pointer and a number. Returns its status at the end.
fn run_small(name: &str, p: u64, threads: u32, second: i64) -> i32 {
    let kernel = function(load(SMALL).unwrap(), name).unwrap();
    let (stream, params) = (stream(), [&raw const p as usize, &raw const second as usize]);
    assert_eq!(launch(kernel, 1, threads, 0, stream, &params), 0);
    sync(stream)
}

pub fn launches_are_asynchronous_and_take_their_time() {
    retain(0).unwrap();
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
    retain(0).unwrap();
    assert_eq!(info(), (56 << 20, 64 << 20));
    let p = alloc(40 << 20).unwrap();
    assert_eq!(alloc(20 << 20), Err(2));
    assert_eq!(alloc(0), Err(1));
    assert_eq!(info().0, 16 << 20);
    assert_eq!(cu!(cuMemFree_v2(p + 256 => u64)), 1);
    assert_eq!(cu!(cuMemFree_v2(p => u64)), 0);
    assert_eq!(cu!(cuMemFree_v2(p => u64)), 1);
    alloc(50 << 20).unwrap();
    // A context needs memory, too.
    assert_eq!(cu!(cuDevicePrimaryCtxRelease_v2(0 => i32)), 0);
    assert_eq!(told(0, "used_bytes"), 0);
    assert_eq!(alloc(1), Err(709));
}

pub fn fresh_memory_is_poisoned_and_no_host_memory() {
    retain(0).unwrap();
    let (p, stream) = (alloc(4096).unwrap(), stream());
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
    retain(0).unwrap();
    assert_eq!(load(&SMALL.replace(".version 6.0", ".version 7.8")), Err(222));
    assert!(load(&SMALL.replace(".version 6.0", ".version 7.4")).is_ok());
    assert_eq!(load(&SMALL.replace("sm_35", "sm_61")), Err(209));
    assert_eq!(load("garbage"), Err(218));
    assert_eq!(load("\u{7f}ELF and so on"), Err(209));
    assert_eq!(load(&SMALL[..1000]), Err(218));
    // The words of the assembler.
    let text = SMALL.replace("fma.rn.f32", "wrong.b32");
    let line = 1 + text.lines().position(|line| line.contains("wrong.b32")).expect("a line");
    let text = std::ffi::CString::new(text).unwrap();
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
    let module = load(SMALL).unwrap();
    assert_eq!(function(module, "no_such_kernel"), Err(500));
    assert_eq!(cu!(cuModuleUnload(module => usize)), 0);
    assert_eq!(cu!(cuModuleUnload(module => usize)), 400);
    assert_eq!(function(module, "fill"), Err(400));
    // A GPU older than the text.
    retain(1).unwrap();
    assert_eq!(load(SMALL), Err(209));
}

pub fn launch_limits() {
    retain(0).unwrap();
    let filler = Filler::new();
    assert_eq!(filler.fill(64, 1, 64), 0);
    // Its bounds say 64.
    assert_eq!(filler.fill(64, 1, 96), 701);
    assert_eq!(filler.fill(64, 1, 2048), 1);
    assert_eq!(filler.fill(64, 0, 64), 1);
    assert_eq!(launch(777, 1, 64, 0, filler.stream, &[]), 400);
    // The virtual driver has no dynamic shared memory.
    assert_eq!(launch(filler.kernel, 1, 64, 4, filler.stream, &[]), 1);
    assert_eq!(filler.sync(), 0);
}

pub fn report_counts_what_is_left() {
    retain(1).unwrap();
    alloc(100).unwrap();
    load(SMALL).unwrap();
    let mut event = 0usize;
    assert_eq!(cu!(cuEventCreate(&mut event => &mut usize, 0 => u32)), 0);
    let counts = |card| {
        let keys = ["contexts", "allocations", "events", "modules", "retained", "module_loads"];
        keys.map(|key| told(card, key))
    };
    assert_eq!((counts(0), counts(1)), ([0; 6], [1; 6]));
    assert_eq!(cu!(cuDevicePrimaryCtxRelease_v2(1 => i32)), 0);
    assert_eq!(counts(1), [0, 0, 0, 0, 0, 1]);
    assert_eq!(cu!(cuEventDestroy_v2(event => usize)), 400);
}

pub fn child_of_a_fork_gets_nothing() {
    retain(0).unwrap();
    let stream = stream();
    let refused = in_a_child(|| {
        let (mut some, mut other) = (0usize, 0usize);
        [
            cu!(cuInit(0 => u32)),
            cu!(cuMemGetInfo_v2(&mut some => &mut usize, &mut other => &mut usize)),
            cu!(cuDevicePrimaryCtxRetain(&mut some => &mut usize, 0 => i32)),
        ] == [3; 3]
    });
    assert_eq!((refused, sync(stream)), (true, 0));
}

pub fn poisoned_gpu_poisons_no_other() {
    let first = retain(0).unwrap();
    let filler = Filler::new();
    assert_eq!((filler.fill(64, 1, 64), filler.sync()), (0, 0));
    // The launch itself seems to work; everything after it fails.
    assert_eq!(filler.fill(64, 1, 64), 0);
    assert_eq!((filler.sync(), filler.sync(), filler.fill(64, 1, 64)), (719, 719, 719));
    assert_eq!((alloc(16), load(SMALL)), (Err(719), Err(719)));
    retain(1).unwrap();
    let other = Filler::new();
    assert_eq!((other.fill(64, 1, 64), other.sync()), (0, 0));
    // After a reset there is a new context, without the old one's memory.
    assert_eq!(cu!(cuDevicePrimaryCtxReset_v2(0 => i32)), 0);
    assert_eq!(cu!(cuCtxSetCurrent(first => usize)), 201);
    assert_eq!(told(0, "retained"), 1, "whoever retains has to release");
    let second = retain(0).unwrap();
    // As on a real machine, its handle is that of the old one.
    assert_eq!(first, second);
    assert_eq!(cu!(cuMemFree_v2(filler.p => u64)), 1);
    let filler = Filler::new();
    assert_eq!((filler.fill(64, 1, 64), filler.sync()), (0, 0));
    assert_eq!(told(0, "module_loads"), 2);
}

/// Errors of kernels end the context with the code that a real driver gives.
pub fn kernels_that_go_wrong() {
    retain(1).unwrap();
    let of_another_gpu = alloc(256).unwrap();
    for (name, threads, second, code) in [
        ("out_of_bounds", 32, 33, 700),
        // The next allocation does not begin near.
        ("out_of_bounds", 32, 128, 700),
        ("misaligned", 1, 0, 716),
        ("divergent", 32, 0, 719),
        ("endless", 1, 0, 702),
    ] {
        retain(0).unwrap();
        let (p, stream) = (alloc(256).unwrap(), stream());
        alloc(4096).unwrap();
        assert_eq!(cu!(cuMemsetD8Async(p => u64, 0 => u8, 256 => usize, stream => usize)), 0);
        assert_eq!((sync(stream), run_small(name, p, threads, second)), (0, code), "{name}");
        assert_eq!((alloc(1), cu!(cuDevicePrimaryCtxReset_v2(0 => i32))), (Err(code), 0));
    }
    retain(0).unwrap();
    assert_eq!(run_small("out_of_bounds", of_another_gpu, 32, 0), 700);
}

/// Returns a child that has run `code` with success and waits to be killed.
fn child(code: impl FnOnce() -> bool) -> i32 {
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    // SAFETY: this process has one thread.
    let child = unsafe { libc::fork() };
    if child == 0 {
        writer.write_all(&[code().into()]).unwrap();
        std::thread::sleep(Duration::from_secs(60));
        std::process::exit(1);
    }
    drop(writer);
    let mut good = [0];
    reader.read_exact(&mut good).expect("a byte from the child");
    assert_eq!(good, [1]);
    child
}

fn kill(child: i32) {
    let mut status = 0;
    // SAFETY: our own child.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, &mut status, 0);
    }
}

/// GPUs of 64 MiB with contexts of 8 MiB.
pub fn memory_of_a_node_is_of_all_its_processes() {
    let folder = Folder::new();
    let file = folder.at("node");
    // SAFETY: nobody else reads variables now.
    unsafe { std::env::set_var("FAKECUDA_NODE", &file) };
    // Before anything of the driver is used here: a driver does not survive a fork.
    let first = child(|| retain(0).is_ok() && alloc(30 << 20).is_ok() && alloc(40 << 20) == Err(2));
    let second = child(|| retain(0).is_ok() && alloc(20 << 20) == Err(2) && alloc(10 << 20).is_ok());
    let third = child(|| retain(1).is_ok() && alloc(50 << 20).is_ok());

    kill(first);
    retain(0).unwrap();
    assert_eq!(info().0 >> 20, 64 - 8 - 10 - 8);
    let pointer = alloc(30 << 20).expect("the memory of the first");
    assert_eq!(alloc(20 << 20), Err(2));
    assert_eq!(cu!(cuMemFree_v2(pointer => u64)), 0);
    assert_eq!(cu!(cuDevicePrimaryCtxRelease_v2(0 => i32)), 0);

    let log = std::fs::read_to_string(folder.at("node.log")).unwrap();
    let count =
        |process: i32, gpu: usize, event: &str| log.matches(&format!(" {process} {gpu} {event} ")).count();
    assert_eq!((count(first, 0, "context"), count(first, 0, "refuse"), count(first, 0, "gone")), (1, 1, 1));
    assert_eq!((count(third, 1, "context"), count(third, 1, "take"), count(third, 0, "context")), (1, 2, 0));
    assert_eq!(count(std::process::id() as i32, 0, "leave"), 1);
    kill(second);
    kill(third);
}
