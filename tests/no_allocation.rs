//! The time loop of a shot on the CPU allocates nothing: a long shot requests memory as often as a short one. A program
//! of its own, because the requests of the whole process are counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use gpusched::backend::Lane;
use gpusched::backend::cpu::Team;
use gpusched::fd::grid::Grid;
use gpusched::fd::model::Model;
use gpusched::fd::plan::{Form, Options, Plan};
use gpusched::fd::survey::{Receivers, Shot};
use gpusched::fd::wavelet::{Shape, Wavelet};
use gpusched::fd::{control::Silent, shot::run};

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
fn a_step_asks_for_no_memory() {
    const DT: f32 = 1e-3;
    let grid = Grid::new([20; 3], [10.0; 3]).unwrap();
    let model = Arc::new(Model::new(grid, vec![2000.0; grid.cells()], None).unwrap());
    let team = Team::new(2).unwrap();
    for form in [Form::OnePass, Form::TwoSweeps] {
        let plan = Plan::new(model.clone(), DT, Options { form, ..Options::default() }).unwrap();
        let requests = |nt: usize| {
            let shot = Shot {
                source: [10; 3],
                wavelet: Wavelet::new(Shape::Ricker, 25.0, DT, nt).unwrap(),
                amplitude: 1.0,
                nt,
                receivers: Receivers::Plane { iz: 0, every: [1, 1] },
                record_every: 1,
                snapshot_every: None,
                mute: None,
            };
            let before = REQUESTS.load(Relaxed);
            run(&plan, &shot, Lane::Cpu(&team), &Silent).unwrap();
            REQUESTS.load(Relaxed) - before
        };
        requests(64);
        let [short, long] = [64, 640].map(requests);
        // One in a step would be 576, one every 16 steps 36.
        assert!(long < short + 20, "{form:?}: {short} requests in 64 steps, {long} in 640");
    }
}
