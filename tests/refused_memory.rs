//! A shot or a trace does not end the process if the system refuses one of its large allocations. This needs its own program, since it refuses the process's allocations.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;
use std::sync::atomic::AtomicIsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use gpusched::backend::{Lane, cpu::Team};
use gpusched::fd::control::Control;
use gpusched::fd::equation::by_name;
use gpusched::fd::grid::Grid;
use gpusched::fd::model::{Model, Property};
use gpusched::fd::plan::{Options, Plan};
use gpusched::fd::survey::{Shot, SourceKind};
use gpusched::fd::wavelet::{Shape, Wavelet};
use gpusched::io::raw;
use gpusched::legacy::{ACOUSTIC2, Args};
use gpusched::sched::{Builder, Exec, Task, WaitResult};
use gpusched::{Error, Result, fd::shot::run};
use testkit::Folder;
use testmodels::shots::{homogeneous, plain_shot};

/// Bytes from which on an allocation is large.
const LARGE: usize = 256 << 10;

/// Large allocations until the refused one; negative after it.
static LEFT: AtomicIsize = AtomicIsize::new(-1);

/// Held by a test, whose large allocations are to be the only ones.
static ALONE: Mutex<()> = Mutex::new(());

struct Refusing;

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

// SAFETY: all is done by the system's allocator, or refused; counting allocates nothing.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() >= LARGE && LEFT.fetch_sub(1, Relaxed) == 0 {
            return null_mut();
        }
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Calls `code` until none of its large allocations is refused, and returns that result and the
/// number of calls with a refusal. Each of those must return a shortage.
fn with_refusals<T>(code: impl Fn() -> Result<T>) -> (Result<T>, usize) {
    for before in 0.. {
        LEFT.store(before, Relaxed);
        let done = code();
        if LEFT.swap(-1, Relaxed) >= 0 {
            return (done, before as usize);
        }
        let Err(error) = done else { panic!("succeeds without its allocation {before}") };
        assert!(error.is_shortage(), "{error}");
    }
    unreachable!("code allocates without end");
}

/// Ends a shot at its first step.
struct Stopping;

impl Control for Stopping {
    fn step(&self, _: usize, _: usize) -> Result<()> {
        Err(Error::Cancelled)
    }
}

#[test]
fn refused_allocation_is_an_error_of_the_shot() {
    let _alone = ALONE.lock().unwrap();
    for shape in [Shape::CutRicker, Shape::Ricker] {
        let (wavelet, refused) = with_refusals(|| Wavelet::new(shape, 0.01, 1e-3, 200_000));
        assert_eq!((wavelet.unwrap().samples.len() > 190_000, refused), (true, 1));
    }

    let model = homogeneous([20; 3], [10.0; 3], 2000.0, 1000.0);
    let team = Team::new(1).unwrap();
    let plan = Plan::new(model, 1e-3, Options::default()).unwrap();
    let nt = 200_000;
    let shot = |kind| {
        let receivers = vec![[3, 4, 5]; 50_000];
        Shot { kind, record_every: nt, ..plain_shot([10; 3], vec![1.0; nt], nt, receivers) }
    };
    for (kind, least) in [(SourceKind::Pressure, 5), (SourceKind::ForceX, 7), (SourceKind::Monopole, 8)] {
        let shot = shot(kind);
        let (done, refused) = with_refusals(|| run(&plan, &shot, Lane::Cpu(&team), &Stopping));
        assert!(done.is_err_and(|error| error == Error::Cancelled));
        assert!(refused >= least, "{refused} of {least} in {:?}", shot.kind);
    }
}

#[test]
fn memory_of_a_shot_is_counted_without_a_large_allocation() {
    let _alone = ALONE.lock().unwrap();
    let grid = Grid::new([100_000; 3], [10.0; 3]).unwrap();
    let properties = [
        (Property::Vp, 2000.0.into()),
        (Property::Epsilon, 0.1.into()),
        (Property::Delta, 0.05.into()),
        (Property::Theta, 0.5.into()),
        (Property::Phi, 0.1.into()),
    ];
    let model = Arc::new(Model::of(grid, properties).unwrap());
    let options = Options { equation: by_name("tti").unwrap(), ..Options::default() };
    let plan = Plan::new(model, 1e-4, options).unwrap();
    let shot = plain_shot([0; 3], vec![1.0], 10, vec![[0; 3]]);
    LEFT.store(0, Relaxed);
    let bytes = plan.shot_bytes(&shot, 4);
    assert_eq!(LEFT.swap(-1, Relaxed), 0, "a large allocation");
    assert!(bytes.device > 1 << 50, "{bytes:?}");
}

/// The shot is unstable, so that it ends soon although its wavelet is long.
#[test]
fn refused_allocation_is_an_error_of_an_old_call() {
    let _alone = ALONE.lock().unwrap();
    let out = Folder::new();
    let n = 41;
    raw::write(&out.at("vel.bin"), &vec![5000.0; n * n * n]).unwrap();
    let n = n as i32;
    #[rustfmt::skip]
    let args = Args {
        models: vec![out.at("vel.bin")], snap: out.at("snap_"), shot: out.at("shot.bin"), is: 0, ns: 1,
        nx: n, ny: n, nz: n, dx: 10.0, dy: 10.0, dz: 10.0, sxbeg: 20, sybeg: 20, szbeg: 20, jsx: 0, jsy: 0, jsz: 0,
        dgx: 10.0, dgy: 10.0, dgt: 200.0, nt: 70_000, dt: 0.01, wtype: 1, fm: 20.0,
        show_snapshot: true, cut_directwave: false, snap_interval: 0, device: 0,
    };
    for before in 0.. {
        LEFT.store(before, Relaxed);
        let error = ACOUSTIC2.call(&args).unwrap_err();
        let is_refused = LEFT.swap(-1, Relaxed) < 0;
        assert_eq!(out.names(), ["vel.bin"], "{error}");
        // The scheduler repeats a shot that finds too little memory.
        assert!(matches!(error, Error::Unstable { .. }) || error.is_shortage(), "{error}");
        if !is_refused {
            assert!(before >= 8, "{before}");
            break;
        }
    }
}

#[test]
fn trace_leaves_out_an_event_for_which_memory_is_refused() {
    let _alone = ALONE.lock().unwrap();
    let devices = Some("cpu".into());
    let scheduler = Builder { devices, trace_events: 10_000, ..Builder::default() }.build().unwrap();
    LEFT.store(0, Relaxed);
    for _ in 0..5000 {
        let id = scheduler.submit(Task::new(|_: &Exec<'_>| Ok(()))).unwrap();
        assert_eq!(scheduler.wait(id, None), Ok(WaitResult::Done));
        scheduler.release(id).unwrap();
    }
    assert!(LEFT.swap(-1, Relaxed) < 0, "no large allocation");
    assert_eq!(scheduler.timeline().unwrap().left_out(), 1);
}
