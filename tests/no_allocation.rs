//! The time loop of a shot on the CPU allocates nothing. This needs its own program, since it
//! counts the process's allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use gpusched::backend::{Lane, cpu::Team};
use gpusched::fd::plan::{Options, Plan};
use gpusched::fd::survey::{Receivers, Shot};
use gpusched::fd::{control::Silent, shot::run};
use testmodels::shots::{homogeneous, plain_shot};

static REQUESTS: AtomicUsize = AtomicUsize::new(0);

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: all is done by the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        REQUESTS.fetch_add(1, Relaxed);
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(at, layout) }
    }
}

#[test]
fn time_step_allocates_nothing() {
    let model = homogeneous([20; 3], [10.0; 3], 2000.0, 1000.0);
    let team = Team::new(2).unwrap();
    let plan = Plan::new(model, 1e-3, Options::default()).unwrap();
    let requests = |nt: usize| {
        let receivers = Receivers::Plane { iz: 0, every: [1, 1] };
        let shot = Shot { receivers, ..plain_shot([10; 3], vec![1.0; nt], nt, Vec::new()) };
        let before = REQUESTS.load(Relaxed);
        run(&plan, &shot, Lane::Cpu(&team), &Silent).unwrap();
        REQUESTS.load(Relaxed) - before
    };
    // The first long shot tunes the tile size; a change of tiles allocates.
    requests(640);
    let [short, long] = [64, 640].map(requests);
    // With one request per step the difference would be 576, with one every 16 steps 36.
    assert!(long < short + 20, "{short} requests in 64 steps, {long} in 640");
}
