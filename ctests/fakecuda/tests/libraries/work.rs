//! What works: kernels, streams, events, memory, modules.

use std::time::{Duration, Instant};

use cudarc::driver::{CudaContext, DevicePtr, DevicePtrMut, DriverError, result};

use crate::common::{noise, step};
use crate::raw::*;

/// A stencil by cudarc's own types: streams, slices, copies.
fn stencil(ordinal: usize) -> Result<(), DriverError> {
    let n @ [nx, ny, nz] = [20, 17, 70];
    let cells = nx * ny * nz;
    let (p1, v, mut p0) = (noise(cells, 1), noise(cells, 2), noise(cells, 3));
    let context = CudaContext::new(ordinal)?;
    let stream = context.new_stream()?;
    let d1 = stream.clone_htod(&p1)?;
    let dv = stream.clone_htod(&v)?;
    let mut d0 = stream.clone_htod(&p0)?;
    let text = std::ffi::CString::new(STENCIL).expect("no zero inside");
    // SAFETY: a text that ends with zero; the kernel's parameters in their order and types.
    unsafe {
        let module = result::module::load_data(text.as_ptr().cast())?;
        let f = result::module::get_function(module, c"step_tiled".into())?;
        let sizes = n.map(|n| n as i32);
        {
            let ((a, _a), (b, _b), (c, _c)) =
                (d1.device_ptr(&stream), dv.device_ptr(&stream), d0.device_ptr_mut(&stream));
            let mut params = [
                (&raw const a).cast_mut().cast(),
                (&raw const b).cast_mut().cast(),
                (&raw const c).cast_mut().cast(),
                (&raw const sizes[0]).cast_mut().cast(),
                (&raw const sizes[1]).cast_mut().cast(),
                (&raw const sizes[2]).cast_mut().cast(),
            ];
            let grid = ((nz as u32 - 8).div_ceil(32), (nx as u32 - 8).div_ceil(4), 1);
            result::launch_kernel(f, grid, (32, 4, 1), 12 * 40 * 4, stream.cu_stream(), &mut params)?;
        }
        let got = stream.clone_dtoh(&d0)?;
        stream.synchronize()?;
        step(&p1, &v, &mut p0, n);
        assert!(got.iter().zip(&p0).all(|(a, b)| a.to_bits() == b.to_bits()), "device {ordinal}");
        result::module::unload(module)
    }
}

pub fn a_stencil_on_two_cards() {
    // The second has no memory pools: cudarc takes the other way to allocate.
    for ordinal in 0..2 {
        stencil(ordinal).unwrap_or_else(|e| panic!("device {ordinal}: {e:?}"));
    }
}

/// `fill` of features.ptx and memory for it, in the current context.
pub fn filler() -> (usize, usize, u64) {
    let module = load(FEATURES).expect("the module");
    (module, function(module, "fill").expect("fill"), alloc(1 << 20).expect("memory"))
}

pub fn launches_are_asynchronous() {
    retain(0).expect("a context");
    let (_, fill_, p) = filler();
    // 64 Ki threads of about 14 instructions at 20 million a second: some 40 ms.
    let begin = Instant::now();
    for _ in 0..5 {
        assert_eq!(fill(fill_, p, 2.0, 65536, 1024, 64), 0);
    }
    assert_eq!(cu!(cuStreamQuery(0 => usize)), 600);
    let given = begin.elapsed();
    assert_eq!(sync(), 0);
    let done = begin.elapsed();
    assert_eq!(cu!(cuStreamQuery(0 => usize)), 0);
    assert!(done > Duration::from_millis(150) && done > 2 * given, "given in {given:?}, done in {done:?}");
    // A pageable source may change as soon as the call is over, a pinned one not before the copy.
    let mut pinned = 0usize;
    assert_eq!(cu!(cuMemHostAlloc(&mut pinned => &mut usize, 4 => usize, 1 => u32)), 0);
    let mut stream = 0usize;
    assert_eq!(cu!(cuStreamCreate(&mut stream => &mut usize, 0 => u32)), 0);
    // SAFETY: the library gave four bytes.
    let cell = unsafe { &mut *(pinned as *mut u32) };
    *cell = 1;
    let mut pageable = 1u32;
    // Behind the default stream's work, since this stream is a blocking one.
    assert_eq!(fill(fill_, p, 2.0, 65536, 1024, 64), 0);
    assert_eq!(
        cu!(cuMemcpyHtoDAsync_v2(p => u64, &mut pageable => &mut u32, 4 => usize, stream => usize)),
        0
    );
    assert_eq!(cu!(cuMemcpyHtoDAsync_v2(p + 4 => u64, pinned => usize, 4 => usize, stream => usize)), 0);
    (pageable, *cell) = (7, 7);
    let mut got = [0u32; 2];
    assert_eq!(
        cu!(cuMemcpyDtoHAsync_v2(&mut got => &mut [u32; 2], p => u64, 8 => usize, stream => usize)),
        0
    );
    assert_eq!((got, pageable), ([1, 7], 7));
}

pub fn speeds_are_kept() {
    let time = |device| {
        retain(device).expect("a context");
        let (_, fill_, p) = filler();
        let begin = Instant::now();
        assert_eq!(fill(fill_, p, 2.0, 131072, 2048, 64), 0);
        assert_eq!(sync(), 0);
        begin.elapsed().as_secs_f64()
    };
    let (fast, slow) = (time(0), time(1));
    // The pace is a sleep: a loaded machine can only be slower, the slow card more than 40 ms.
    assert!(slow > 0.04 && slow > 1.2 * fast, "fast {fast}, slow {slow}");
}

pub fn events_have_generations() {
    retain(0).expect("a context");
    let (_, fill_, p) = filler();
    let (mut a, mut b, mut event, mut other) = (0usize, 0usize, 0usize, 0usize);
    assert_eq!(cu!(cuStreamCreate(&mut a => &mut usize, 1 => u32)), 0);
    assert_eq!(cu!(cuStreamCreate(&mut b => &mut usize, 1 => u32)), 0);
    assert_eq!(cu!(cuEventCreate(&mut event => &mut usize, 0 => u32)), 0);
    assert_eq!(cu!(cuEventCreate(&mut other => &mut usize, 0 => u32)), 0);
    // A wait for an event never recorded is over at once.
    assert_eq!(cu!(cuStreamWaitEvent(b => usize, event => usize, 0 => u32)), 0);
    assert_eq!(cu!(cuStreamSynchronize(b => usize)), 0);
    // b waits for the recording on a; then the event is recorded on b behind that wait: were
    // the wait for the later recording, b would wait for itself.
    assert_eq!(cu!(cuEventRecord(event => usize, a => usize)), 0);
    assert_eq!(cu!(cuStreamWaitEvent(b => usize, event => usize, 0 => u32)), 0);
    assert_eq!(cu!(cuEventRecord(event => usize, b => usize)), 0);
    assert_eq!(cu!(cuStreamSynchronize(b => usize)), 0);
    assert_eq!(cu!(cuEventSynchronize(event => usize)), 0);
    // Times, once both are done.
    assert_eq!(cu!(cuEventRecord(event => usize, 0 => usize)), 0);
    assert_eq!(fill(fill_, p, 2.0, 65536, 1024, 64), 0);
    assert_eq!(cu!(cuEventRecord(other => usize, 0 => usize)), 0);
    let mut ms = 0f32;
    assert_eq!(cu!(cuEventElapsedTime(&mut ms => &mut f32, event => usize, other => usize)), 600);
    assert_eq!(cu!(cuEventQuery(other => usize)), 600);
    assert_eq!(cu!(cuEventSynchronize(other => usize)), 0);
    assert_eq!(cu!(cuEventElapsedTime(&mut ms => &mut f32, event => usize, other => usize)), 0);
    assert!(ms > 20.0, "{ms}");
    assert_eq!(cu!(cuEventDestroy_v2(event => usize)), 0);
    assert_eq!(cu!(cuEventDestroy_v2(event => usize)), 400);
    assert_eq!(cu!(cuEventQuery(77 => usize)), 400);
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
    alloc(50 << 20).expect("what was given back");
    assert_eq!(number(&report(0), "peak_bytes"), 58 << 20);
    // A context needs memory too.
    assert_eq!(cu!(cuDevicePrimaryCtxRelease_v2(0 => i32)), 0);
    assert_eq!(number(&report(0), "used_bytes"), 0);
    assert_eq!(alloc(1), Err(709));
}

pub fn fresh_memory_is_poisoned_and_no_host_memory() {
    retain(0).expect("a context");
    let p = alloc(4096).expect("memory");
    // Bit 60 without its copies above: an address that no processor follows.
    assert_eq!(p >> 60, 1);
    let mut got = [0f32; 4];
    assert_eq!(cu!(cuMemcpyDtoH_v2(&mut got => &mut [f32; 4], p => u64, 16 => usize)), 0);
    assert!(got.iter().all(|x| x.is_nan()));
    assert_eq!(cu!(cuMemcpyDtoH_v2(&mut got => &mut [f32; 4], p + 4088 => u64, 16 => usize)), 1);
    let host = got.as_ptr() as u64;
    assert_eq!(cu!(cuMemcpyDtoH_v2(&mut got => &mut [f32; 4], host => u64, 16 => usize)), 1);
    assert_eq!(cu!(cuMemsetD32_v2(p => u64, 1.5f32.to_bits() => u32, 1024 => usize)), 0);
    assert_eq!(cu!(cuMemsetD8_v2(p + 4 => u64, 0 => u8, 4 => usize)), 0);
    assert_eq!(cu!(cuMemcpyDtoH_v2(&mut got => &mut [f32; 4], p => u64, 16 => usize)), 0);
    assert_eq!(got, [1.5, 0.0, 1.5, 1.5]);
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
    let newer = FEATURES.replace(".version 6.0", ".version 7.8");
    assert_eq!(load(&newer), Err(222));
    assert!(load(&FEATURES.replace(".version 6.0", ".version 7.4")).is_ok());
    assert_eq!(load(&FEATURES.replace("sm_35", "sm_61")), Err(209));
    assert_eq!(load("garbage"), Err(218));
    assert_eq!(load("\u{7f}ELF and so on"), Err(209));
    assert_eq!(load(&FEATURES[..3000]), Err(218));
    // The words of the assembler.
    let text = std::ffi::CString::new(FEATURES.replace("popc.b32", "wrong.b32")).expect("no zero");
    let (mut module, mut log) = (0usize, [0u8; 256]);
    let options = [5i32, 6];
    let mut values = [log.as_mut_ptr() as usize, log.len()];
    let status = cu!(cuModuleLoadDataEx(
        &mut module => &mut usize, text.as_ptr() => *const i8, 2 => u32, options.as_ptr() => *const i32,
        values.as_mut_ptr() => *mut usize
    ));
    let words = String::from_utf8_lossy(&log[..values[1]]).into_owned();
    assert_eq!(status, 218);
    assert!(words.contains("line 129") && words.contains("wrong.b32") || words.contains("line "), "{words}");
    let module = load(FEATURES).expect("a good one");
    assert_eq!(function(module, "no_such_kernel"), Err(500));
    let (mut p, mut bytes) = (0u64, 0usize);
    assert_eq!(
        cu!(cuModuleGetGlobal_v2(&mut p => &mut u64, &mut bytes => &mut usize, module => usize, c"counter".as_ptr() => *const i8)),
        0
    );
    let mut counter = 0i32;
    assert_eq!(cu!(cuMemcpyDtoH_v2(&mut counter => &mut i32, p => u64, bytes => usize)), 0);
    assert_eq!((bytes, counter), (4, 7));
    assert_eq!(cu!(cuModuleUnload(module => usize)), 0);
    assert_eq!(cu!(cuModuleUnload(module => usize)), 400);
    assert_eq!(function(module, "fill"), Err(400));
    // A card older than the text.
    retain(1).expect("a context");
    assert_eq!(load(FEATURES), Err(209));
}

pub fn launch_limits() {
    retain(0).expect("a context");
    let (module, fill_, p) = filler();
    assert_eq!(fill(fill_, p, 1.0, 64, 1, 64), 0);
    // Its bounds say 64.
    assert_eq!(fill(fill_, p, 1.0, 64, 1, 96), 701);
    assert_eq!(fill(fill_, p, 1.0, 64, 1, 2048), 1);
    assert_eq!(fill(fill_, p, 1.0, 64, 0, 64), 1);
    assert_eq!(fill(777, p, 1.0, 64, 1, 64), 400);
    let shared = function(module, "shared_out").expect("it");
    let launch = |bytes: u32| {
        let mut params = [&raw const p as usize];
        cu!(cuLaunchKernel(
            shared => usize, 1 => u32, 1 => u32, 1 => u32, 32 => u32, 1 => u32, 1 => u32,
            bytes => u32, 0 => usize, params.as_mut_ptr() => *mut usize, 0 => usize
        ))
    };
    assert_eq!((launch(48 << 10), launch(49 << 10)), (0, 1));
    assert_eq!(cu!(cuFuncSetAttribute(shared => usize, 8 => i32, 64 << 10 => i32)), 0);
    assert_eq!(launch(49 << 10), 0);
    assert_eq!(cu!(cuFuncSetAttribute(shared => usize, 8 => i32, 500 << 10 => i32)), 1);
    assert_eq!(sync(), 0);
    let mut value = 0i32;
    assert_eq!(cu!(cuFuncGetAttribute(&mut value => &mut i32, 0 => i32, fill_ => usize)), 0);
    assert_eq!(value, 64);
}

pub fn sixteen_threads() {
    std::thread::scope(|scope| {
        for t in 0..16 {
            scope.spawn(move || {
                stencil(t % 2).unwrap_or_else(|e| panic!("thread {t}: {e:?}"));
            });
        }
    });
    for card in 0..2 {
        let report = report(card);
        assert_eq!(number(&report, "launches"), 8, "{report}");
        assert_eq!(number(&report, "module_loads"), 8, "{report}");
        assert_eq!(number(&report, "contexts") + number(&report, "streams"), 0, "{report}");
    }
}

pub fn nothing_is_left_and_the_unused_card_untouched() {
    assert_eq!(cu!(cuInit(0 => u32)), 0);
    let mut bytes = 0usize;
    assert_eq!(cu!(cuDeviceTotalMem_v2(&mut bytes => &mut usize, 1 => i32)), 0);
    assert_eq!(bytes, 3 << 30);
    stencil(0).expect("the stencil");
    let (used, unused) = (report(0), report(1));
    assert_eq!(number(&used, "contexts_made"), 1);
    assert_eq!(number(&unused, "contexts_made"), 0);
    for key in ["contexts", "allocations", "used_bytes", "streams", "events", "modules", "retained"] {
        assert_eq!(number(&used, key), 0, "{key} in {used}");
    }
    // What is left is seen.
    retain(1).expect("a context");
    alloc(100).expect("memory");
    load(FEATURES).expect("a module");
    let mut event = 0usize;
    assert_eq!(cu!(cuEventCreate(&mut event => &mut usize, 0 => u32)), 0);
    let left = report(1);
    for key in ["contexts", "allocations", "events", "modules", "retained", "module_loads"] {
        assert_eq!(number(&left, key), 1, "{key} in {left}");
    }
}

pub fn a_child_of_a_fork_gets_nothing() {
    retain(0).expect("a context");
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
    assert_eq!(status, 0);
    assert_eq!(sync(), 0);
}

pub fn no_cards() {
    assert_eq!(cu!(cuInit(0 => u32)), 100);
    let mut count = 5i32;
    assert_eq!(cu!(cuDeviceGetCount(&mut count => &mut i32)), 0);
    assert_eq!(count, 0);
    assert_eq!(CudaContext::new(0).map(|_| ()).map_err(|e| e.0 as i32), Err(100));
}
