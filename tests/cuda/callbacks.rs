//! Callbacks of the C API on GPUs: what they receive, and what they may return.

use std::ffi::{CStr, c_void};
use std::ptr;

use crate::fixtures::{cu, driver_count, found};
use gpusched::ffi::*;
use gpusched::node::{Membership, NodePolicy, SharedDevice};

fn create(devices: &CStr, slots: u32) -> *mut sched_t {
    // SAFETY: zeros are the defaults.
    let mut config: sched_config_t = unsafe { std::mem::zeroed() };
    (config.size, config.devices, config.slots) = (size_of_val(&config), devices.as_ptr(), slots);
    let mut scheduler = ptr::null_mut();
    assert_eq!(unsafe { sched_create(&config, &mut scheduler) }, SCHED_OK);
    scheduler
}

fn run(scheduler: *mut sched_t, run: sched_run_fn, device_bytes: u64) -> sched_status_t {
    run_with(scheduler, run, device_bytes, ptr::null_mut())
}

fn run_with(
    scheduler: *mut sched_t,
    run: sched_run_fn,
    device_bytes: u64,
    user: *mut c_void,
) -> sched_status_t {
    // SAFETY: zeros are the defaults.
    let mut desc: sched_task_desc_t = unsafe { std::mem::zeroed() };
    (desc.size, desc.run, desc.device_bytes, desc.user) = (size_of_val(&desc), run, device_bytes, user);
    let mut id = 0;
    assert_eq!(unsafe { sched_submit(scheduler, &desc, &mut id) }, SCHED_OK);
    unsafe { sched_wait(scheduler, id, SCHED_FOREVER) }
}

fn destroy(scheduler: *mut sched_t) {
    assert_eq!(unsafe { sched_destroy(scheduler) }, SCHED_OK);
}

const BYTES: usize = 100_000;

unsafe extern "C-unwind" fn fills(exec: *const sched_exec_t, _: *mut c_void) -> i32 {
    let fields = unsafe { &*exec };
    let (mut memory, mut context) = (ptr::null_mut(), 0_usize);
    assert!(fields.backend == SCHED_BACKEND_CUDA && fields.cpu_threads == 0 && !fields.stream.is_null());
    let mut bytes = vec![0_u8; BYTES];
    unsafe {
        assert_eq!((cu!(cuCtxGetCurrent(&mut context => &mut usize)), context == 0), (0, false));
        assert_eq!(sched_exec_memory(exec, BYTES as u64, &mut memory), SCHED_OK);
        let address = memory.addr() as u64;
        let (to, value, stream) = (bytes.as_mut_ptr(), fields.attempt as u8, fields.stream);
        assert_eq!(
            cu!(cuMemsetD8Async(address => u64, value => u8, BYTES => usize, stream => *mut c_void)),
            0
        );
        let read =
            cu!(cuMemcpyDtoHAsync_v2(to => *mut u8, address => u64, BYTES => usize, stream => *mut c_void));
        assert_eq!(read, 0);
        let mut other = ptr::null_mut();
        assert_eq!((sched_exec_memory(exec, 1, &mut other), other == memory), (SCHED_OK, false));
        assert_eq!(sched_exec_memory(exec, 0, &mut other), SCHED_E_ARGUMENT);
        let exec = exec.expose_provenance();
        let elsewhere = std::thread::spawn(move || {
            let (exec, mut other) = (ptr::with_exposed_provenance(exec), ptr::null_mut());
            sched_exec_memory(exec, 1, &mut other)
        });
        assert_eq!(elsewhere.join().unwrap(), SCHED_E_ARGUMENT);
    }
    if bytes.iter().all(|&byte| byte == 1) { SCHED_OK } else { 1 }
}

pub fn a_callback_has_context_stream_and_memory() {
    let scheduler = create(c"cuda:0", 1);
    (0..5).for_each(|_| assert_eq!(run(scheduler, Some(fills), 2 * BYTES as u64), SCHED_OK));
    assert_eq!((driver_count(0, "allocations_made"), driver_count(0, "contexts_made")), (2, 1));
    destroy(scheduler);
}

/// Stores the bytes that another member of the node counts as reserved and not allocated, before
/// and after two allocations of half of them.
unsafe extern "C-unwind" fn allocates_halves(exec: *const sched_exec_t, user: *mut c_void) -> i32 {
    let (node, pending) = unsafe { &mut *user.cast::<(Membership, Vec<u64>)>() };
    let mut look = || pending.push(node.lock().unwrap().availability()[0].pending_bytes);
    look();
    for _ in 0..2 {
        assert_eq!(unsafe { sched_exec_memory(exec, 15 << 20, &mut ptr::null_mut()) }, SCHED_OK);
        look();
    }
    SCHED_OK
}

pub fn memory_of_a_callback_is_not_reserved_as_well() {
    let scheduler = create(c"cuda:0", 1);
    let (devices, _) = found();
    let device = Some(SharedDevice { uuid: devices[0].id.as_str(), slots: 1 });
    let node = Membership::join(None, &[device], NodePolicy::default()).unwrap().unwrap();
    let mut user = (node, Vec::<u64>::new());
    let user_pointer = (&raw mut user).cast();
    assert_eq!(run_with(scheduler, Some(allocates_halves), 30 << 20, user_pointer), SCHED_OK);
    assert_eq!(user.1, [30 << 20, 15 << 20, 0]);
    destroy(scheduler);
}

/// Allocates by itself. The first attempt fails because of the memory that the library caches.
unsafe extern "C-unwind" fn allocates(_: *const sched_exec_t, _: *mut c_void) -> i32 {
    let mut address = 0_u64;
    if cu!(cuMemAlloc_v2(&mut address => &mut u64, 40 << 20 => usize)) != 0 {
        return SCHED_E_MEMORY;
    }
    assert_eq!(cu!(cuMemFree_v2(address => u64)), 0);
    SCHED_OK
}

unsafe extern "C-unwind" fn requests_memory(exec: *const sched_exec_t, _: *mut c_void) -> i32 {
    let mut memory = ptr::null_mut();
    unsafe { sched_exec_memory(exec, 30 << 20, &mut memory) }
}

/// Requests too much memory, and continues without it.
fn requests_too_much(exec: *const sched_exec_t) -> i32 {
    let (mut memory, before) = (ptr::dangling_mut(), ptr::dangling_mut());
    assert_eq!(unsafe { sched_exec_memory(exec, 1 << 60, &mut memory) }, SCHED_E_MEMORY);
    if memory == before { SCHED_OK } else { 1 }
}

unsafe extern "C-unwind" fn continues_without(exec: *const sched_exec_t, _: *mut c_void) -> i32 {
    requests_too_much(exec)
}

pub fn callback_gets_the_memory_that_the_library_caches() {
    let scheduler = create(c"cuda:0", 1);
    assert_eq!(run(scheduler, Some(requests_memory), 30 << 20), SCHED_OK);
    assert_eq!(driver_count(0, "allocations"), 1);
    assert_eq!(run(scheduler, Some(allocates), 40 << 20), SCHED_OK);
    assert_eq!(driver_count(0, "allocations"), 0);
    destroy(scheduler);
}

unsafe extern "C-unwind" fn reports_device(exec: *const sched_exec_t, _: *mut c_void) -> i32 {
    if unsafe { (*exec).attempt } == 1 { SCHED_E_DEVICE } else { SCHED_OK }
}

unsafe extern "C-unwind" fn reports_resources(exec: *const sched_exec_t, _: *mut c_void) -> i32 {
    if unsafe { (*exec).attempt } == 1 { SCHED_E_RESOURCES } else { SCHED_OK }
}

/// Leaves no context current, as a careless library does.
unsafe extern "C-unwind" fn leaves_no_context(exec: *const sched_exec_t, user: *mut c_void) -> i32 {
    let done = unsafe { fills(exec, user) };
    assert_eq!(cu!(cuCtxSetCurrent(0 => usize)), 0);
    done
}

unsafe extern "C-unwind" fn synchronizes(exec: *const sched_exec_t, _: *mut c_void) -> i32 {
    let stream = unsafe { (*exec).stream };
    if cu!(cuStreamSynchronize(stream => *mut c_void)) == 0 { SCHED_OK } else { SCHED_E_DEVICE }
}

pub fn gpu_that_is_lost_under_a_callback_is_retired() {
    let scheduler = create(c"cuda", 1);
    assert_eq!(run(scheduler, Some(synchronizes), 0), SCHED_OK);
    let health = |device| {
        // SAFETY: numbers.
        let mut stats: sched_device_stats_t = unsafe { std::mem::zeroed() };
        stats.size = size_of_val(&stats);
        assert_eq!(unsafe { sched_device_stats(scheduler, device, &mut stats) }, SCHED_OK);
        stats.health
    };
    assert_eq!([0, 1, 2].map(health), [SCHED_HEALTH_RETIRED, SCHED_HEALTH_RETIRED, SCHED_HEALTH_GOOD]);
    destroy(scheduler);
}

pub fn status_of_a_callback_ends_or_retries_its_task() {
    let scheduler = create(c"cuda:0", 1);
    assert_eq!(run(scheduler, Some(reports_device), 0), SCHED_OK);
    assert_eq!(driver_count(0, "contexts_made"), 2);
    assert_eq!(run(scheduler, Some(reports_resources), 0), SCHED_OK);
    assert_eq!(run(scheduler, Some(leaves_no_context), 0), SCHED_OK);
    assert_eq!(run(scheduler, Some(leaves_no_context), 0), SCHED_OK);
    assert_eq!(run(scheduler, Some(continues_without), 0), SCHED_OK);
    assert_eq!(driver_count(0, "contexts_made"), 2);
    destroy(scheduler);
}

/// Leaves a capture open, as code does that fails while it captures a graph.
unsafe extern "C-unwind" fn leaves_a_recording(exec: *const sched_exec_t, _: *mut c_void) -> i32 {
    let stream = unsafe { (*exec).stream };
    assert_eq!(cu!(cuStreamBeginCapture_v2(stream => *mut c_void, 0 => u32)), 0);
    SCHED_OK
}

/// The task that leaves the capture fails, and the next task has another stream.
pub fn stream_left_in_a_capture_is_replaced() {
    let scheduler = create(c"cuda:0", 1);
    assert_eq!(run(scheduler, Some(leaves_a_recording), 0), SCHED_E_DRIVER);
    assert_eq!(run(scheduler, Some(fills), 2 * BYTES as u64), SCHED_OK);
    assert_eq!(driver_count(0, "streams"), 1);
    destroy(scheduler);
}

/// Allocates during a capture, as a library does that caches memory for its graphs.
unsafe extern "C-unwind" fn captures(exec: *const sched_exec_t, _: *mut c_void) -> i32 {
    let stream = unsafe { (*exec).stream };
    let (mut memory, mut graph) = (ptr::null_mut(), 0_usize);
    assert_eq!(cu!(cuStreamBeginCapture_v2(stream => *mut c_void, 0 => u32)), 0);
    let allocated = unsafe { sched_exec_memory(exec, BYTES as u64, &mut memory) };
    let ended = cu!(cuStreamEndCapture(stream => *mut c_void, &mut graph => &mut usize));
    assert_eq!((allocated, ended), (SCHED_OK, 0));
    assert_eq!(cu!(cuGraphDestroy(graph => usize)), 0);
    SCHED_OK
}

pub fn a_callback_captures_a_graph_of_its_own() {
    let scheduler = create(c"cuda:0", 1);
    assert_eq!(run(scheduler, Some(captures), BYTES as u64), SCHED_OK);
    destroy(scheduler);
}

fn text(field: &[std::ffi::c_char]) -> &str {
    // SAFETY: the library ends its texts with a zero.
    unsafe { CStr::from_ptr(field.as_ptr()) }.to_str().unwrap()
}

pub fn device_info_describes_a_gpu() {
    let scheduler = create(c"cuda", 1);
    // SAFETY: numbers and texts.
    let mut info: sched_device_info_t = unsafe { std::mem::zeroed() };
    info.size = size_of_val(&info);
    assert_eq!(unsafe { sched_device_info(scheduler, 1, &mut info) }, SCHED_OK);
    assert_eq!((info.backend, info.ordinal, info.health), (SCHED_BACKEND_CUDA, 1, SCHED_HEALTH_GOOD));
    assert_eq!((info.compute_major, info.compute_minor, info.cpu_threads), (3, 5, 0));
    assert_eq!((text(&info.name), text(&info.pci_bus_id)), ("Tesla K40", "0000:02:00.0"));
    assert_eq!(text(&info.uuid), "GPU-5d8ab7e4-5f5f-5f5f-5f5f-5f5f5f5f5f01");
    assert_eq!((info.total_bytes, info.free_bytes), (1 << 30, 1 << 30));
    destroy(scheduler);
}
