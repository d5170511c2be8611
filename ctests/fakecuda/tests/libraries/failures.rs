//! Everything that can go wrong, on purpose.

use crate::raw::*;
use crate::work::filler;

/// Codes that no list of cudarc's has are among them.
pub const CODES: &str = "0:ctx:1:46;0:alloc:1:2;0:alloc:2:917;0:launch:1:701;0:launch:2:1234;0:module:1:222;\
                         0:copy:1:917;0:event:1:47;0:stream:1:2;0:host:1:2;0:free:1:1;0:function:1:500;0:info:1:801";

pub fn codes_come_back_as_they_are() {
    assert_eq!(retain(0), Err(46));
    retain(0).expect("the second time");
    assert_eq!((alloc(16), alloc(16)), (Err(2), Err(917)));
    assert_eq!(load(FEATURES), Err(222));
    let module = load(FEATURES).expect("the second time");
    assert_eq!(function(module, "fill"), Err(500));
    let (_, fill_, p) = filler();
    assert_eq!(fill(fill_, p, 1.0, 64, 1, 64), 701);
    assert_eq!(fill(fill_, p, 1.0, 64, 1, 64), 1234);
    assert_eq!(fill(fill_, p, 1.0, 64, 1, 64), 0);
    let mut x = 0usize;
    assert_eq!(cu!(cuMemcpyDtoH_v2(&mut x => &mut usize, p => u64, 8 => usize)), 917);
    assert_eq!(cu!(cuMemcpyDtoH_v2(&mut x => &mut usize, p => u64, 8 => usize)), 0);
    assert_eq!(cu!(cuEventCreate(&mut x => &mut usize, 0 => u32)), 47);
    assert_eq!(cu!(cuStreamCreate(&mut x => &mut usize, 0 => u32)), 2);
    assert_eq!(cu!(cuMemHostAlloc(&mut x => &mut usize, 64 => usize, 0 => u32)), 2);
    let (mut free, mut total) = (0usize, 0usize);
    assert_eq!(cu!(cuMemGetInfo_v2(&mut free => &mut usize, &mut total => &mut usize)), 801);
    assert_eq!((cu!(cuMemFree_v2(p => u64)), cu!(cuMemFree_v2(p => u64))), (1, 0));
    assert_eq!(sync(), 0);
    // Codes have names, but for those the driver doesn't know.
    let mut name = 0usize;
    assert_eq!(cu!(cuGetErrorName(719 => i32, &mut name => &mut usize)), 0);
    // SAFETY: the library gave a text of its own.
    let text = unsafe { std::ffi::CStr::from_ptr(name as *const std::ffi::c_char) };
    assert_eq!(text, c"CUDA_ERROR_LAUNCH_FAILED");
    assert_eq!(cu!(cuGetErrorName(1234 => i32, &mut name => &mut usize)), 1);
}

pub fn a_poisoned_card_poisons_no_other() {
    let first = retain(0).expect("a context");
    let (_, fill_, p) = filler();
    assert_eq!(fill(fill_, p, 1.0, 64, 1, 64), 0);
    assert_eq!(sync(), 0);
    // The launch itself seems to work; all that follows does not.
    assert_eq!(fill(fill_, p, 1.0, 64, 1, 64), 0);
    assert_eq!((sync(), sync()), (719, 719));
    assert_eq!((alloc(16), load(FEATURES)), (Err(719), Err(719)));
    assert_eq!(fill(fill_, p, 1.0, 64, 1, 64), 719);
    retain(1).expect("the other card");
    let (_, other, q) = filler();
    assert_eq!(fill(other, q, 1.0, 64, 1, 64), 0);
    assert_eq!(sync(), 0);
    // A reset makes it anew: a new context, without the old one's memory.
    assert_eq!(cu!(cuDevicePrimaryCtxReset_v2(0 => i32)), 0);
    assert_eq!(cu!(cuCtxSetCurrent(first => usize)), 201);
    assert_eq!(number(&report(0), "retained"), 1, "whoever retains has to release");
    let second = retain(0).expect("a new context");
    // As on a real machine, its handle says nothing of that.
    assert_eq!(first, second);
    assert_eq!(cu!(cuMemFree_v2(p => u64)), 1);
    let (_, fill_, p) = filler();
    assert_eq!(fill(fill_, p, 1.0, 64, 1, 64), 0);
    assert_eq!(sync(), 0);
    assert_eq!(number(&report(0), "contexts_made"), 2);
}

pub fn every_sticky_code_stays() {
    retain(0).expect("a context");
    assert_eq!((sync(), sync(), alloc(16)), (214, 214, Err(214)));
    assert_eq!(cu!(cuDevicePrimaryCtxReset_v2(0 => i32)), 0);
    retain(0).expect("a new context");
    assert_eq!((sync(), sync(), alloc(16)), (715, 715, Err(715)));
}

/// Launches a kernel of one pointer.
fn one(module: usize, name: &str, p: u64, threads: u32, second: i64) -> i32 {
    let f = function(module, name).expect(name);
    let mut params = [&raw const p as usize, &raw const second as usize];
    cu!(cuLaunchKernel(
        f => usize, 1 => u32, 1 => u32, 1 => u32, threads => u32, 1 => u32, 1 => u32,
        0 => u32, 0 => usize, params.as_mut_ptr() => *mut usize, 0 => usize
    ))
}

pub fn out_of_bounds_is_illegal_address() {
    retain(0).expect("a context");
    let module = load(FEATURES).expect("the module");
    let p = alloc(256).expect("memory");
    let _neighbour = alloc(256).expect("memory");
    assert_eq!(one(module, "out_of_bounds", p, 32, 33), 0);
    assert_eq!((sync(), alloc(1)), (700, Err(700)));
    let report = report(0);
    assert!(report.contains("OutOfBounds at line") && report.contains("thread [31, 0, 0]"), "{report}");
    // Far behind it the neighbour must not begin yet.
    assert_eq!(cu!(cuDevicePrimaryCtxReset_v2(0 => i32)), 0);
    retain(0).expect("a new context");
    let module = load(FEATURES).expect("the module");
    let (p, neighbour) = (alloc(256).expect("memory"), alloc(4096).expect("memory"));
    assert!(neighbour > p);
    assert_eq!(one(module, "out_of_bounds", p, 32, 128), 0);
    assert_eq!(sync(), 700);
    // Another card's memory is no memory here.
    retain(1).expect("the other card");
    let module = load(FEATURES).expect("the module");
    assert_eq!(one(module, "out_of_bounds", p, 32, 0), 0);
    assert_eq!(sync(), 700);
}

pub fn kernels_that_go_wrong() {
    for (name, threads, expected) in [("misaligned", 1, 716), ("divergent", 32, 719), ("endless", 1, 702)] {
        retain(0).expect("a context");
        let module = load(FEATURES).expect("the module");
        let p = alloc(256).expect("memory");
        assert_eq!(cu!(cuMemsetD8_v2(p => u64, 0 => u8, 256 => usize)), 0);
        assert_eq!(one(module, name, p, threads, 0), 0);
        assert_eq!(sync(), expected, "{name}");
        assert_eq!(cu!(cuDevicePrimaryCtxReset_v2(0 => i32)), 0);
    }
}

pub fn a_hang_ends_with_a_reset() {
    let context = retain(0).expect("a context");
    let (_, fill_, p) = filler();
    assert_eq!(fill(fill_, p, 1.0, 64, 1, 64), 0);
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(cu!(cuStreamQuery(0 => usize)), 600);
    // Who waits for it is set free, with an error.
    let (ready, here) = std::sync::mpsc::channel();
    let waiter = std::thread::spawn(move || {
        assert_eq!(cu!(cuCtxSetCurrent(context => usize)), 0);
        ready.send(()).expect("the main thread");
        sync()
    });
    here.recv().expect("the waiter");
    retain(1).expect("the other card");
    assert_eq!(sync(), 0);
    assert_eq!(cu!(cuDevicePrimaryCtxReset_v2(0 => i32)), 0);
    assert_eq!(waiter.join().expect("the waiter"), 709);
    retain(0).expect("a new context");
    let (_, fill_, p) = filler();
    assert_eq!(fill(fill_, p, 1.0, 64, 1, 64), 0);
    assert_eq!(sync(), 0);
}

pub fn a_card_falls_out() {
    retain(0).expect("a context");
    let nvml = nvml_wrapper::Nvml::init().expect("NVML");
    let (_, fill_, p) = filler();
    assert_eq!(fill(fill_, p, 1.0, 64, 1, 64), 0);
    assert!(nvml.device_by_index(0).is_ok());
    assert_eq!(fill(fill_, p, 1.0, 64, 1, 64), 999);
    assert_eq!((sync(), alloc(1), load(FEATURES)), (999, Err(999), Err(999)));
    assert_eq!(retain(0), Err(999));
    let lost = nvml.device_by_index(0).map(|_| ());
    assert!(matches!(lost, Err(nvml_wrapper::error::NvmlError::GpuLost)), "{lost:?}");
    retain(1).expect("the other card");
    assert!(nvml.device_by_index(1).is_ok());
}

pub fn memory_taken_by_another() {
    retain(0).expect("a context");
    let before = info().0;
    alloc(10 << 20).expect("memory");
    // Between this question and the allocation another process comes.
    assert_eq!(info().0, before - (10 << 20));
    assert_eq!(alloc(200 << 20), Err(2));
    assert_eq!(info().0, before - (10 << 20) - 900_000_000);
}

pub fn cards_that_may_not_be_used() {
    assert_eq!(retain(0), Err(46));
    assert_eq!(retain(1), Err(46));
    retain(2).expect("exclusive, and nobody there");
    let mut mode = 0i32;
    assert_eq!(cu!(cuDeviceGetAttribute(&mut mode => &mut i32, 20 => i32, 0 => i32)), 0);
    assert_eq!(mode, 2);
}
