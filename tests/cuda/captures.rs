//! Another library captures a graph: the capture goes on, and the calls of this library succeed.

use std::sync::{Arc, Mutex};

use gpusched::Error;
use gpusched::fd::survey::Receivers;

use crate::fixtures::*;
use testkit::Random;
use testmodels::shots::World;

const GLOBAL: u32 = 0;
const INVALIDATED: i32 = 901;

fn exchange_mode(mut mode: u32) -> u32 {
    assert_eq!(cu!(cuThreadExchangeStreamCaptureMode(&mut mode => &mut u32)), 0);
    mode
}

/// A library that captures a stream of its own on the calling thread, with its context current.
struct OtherLibrary {
    context: usize,
    stream: usize,
}

impl OtherLibrary {
    fn begin() -> Self {
        let (mut context, mut stream) = (0_usize, 0_usize);
        assert_eq!(cu!(cuInit(0 => u32)), 0);
        assert_eq!(cu!(cuDevicePrimaryCtxRetain(&mut context => &mut usize, 0 => i32)), 0);
        assert_eq!(cu!(cuCtxSetCurrent(context => usize)), 0);
        assert_eq!(cu!(cuStreamCreate(&mut stream => &mut usize, 1 => u32)), 0);
        assert_eq!(cu!(cuStreamBeginCapture_v2(stream => usize, GLOBAL => u32)), 0);
        OtherLibrary { context, stream }
    }

    /// Ends the capture; returns its status.
    fn end(self) -> i32 {
        let (mut graph, mut current) = (0_usize, 0_usize);
        let status = cu!(cuStreamEndCapture(self.stream => usize, &mut graph => &mut usize));
        if status == 0 {
            assert_eq!(cu!(cuGraphDestroy(graph => usize)), 0);
        }
        assert_eq!((cu!(cuCtxGetCurrent(&mut current => &mut usize)), current), (0, self.context));
        assert_eq!(cu!(cuStreamDestroy_v2(self.stream => usize)), 0);
        assert_eq!(cu!(cuDevicePrimaryCtxRelease_v2(0 => i32)), 0);
        status
    }
}

/// The capturing thread itself calls the library.
pub fn a_capture_of_another_library_goes_on() {
    for mode in 0..3 {
        let theirs = OtherLibrary::begin();
        exchange_mode(mode);
        let scheduler = scheduler("cuda", 2).unwrap();
        run_together(&scheduler, 2, |stream| {
            assert!(stream.free_bytes() > 0);
            filled(stream, 1.0)
        });
        let too_much = task(|stream| stream.alloc::<f32>(1 << 40, "a test's values").map(|_| ()));
        assert!(matches!(run(&scheduler, too_much), Err(Error::NoMemory { .. })));
        let world = World::rough([5; 3], 40, Receivers::List(vec![[0; 3]]), &mut Random::new(5));
        world.fire_on(&scheduler).unwrap();
        // This thread destroys the event, and with the last buffer the context.
        let kept = Arc::new(Mutex::new(None));
        let keeps = kept.clone();
        let keep = task(move |stream| {
            *keeps.lock().unwrap() = Some((stream.record()?, stream.zeroed::<f32>(10, "a test's values")?));
            Ok(())
        });
        run(&scheduler, keep).unwrap();
        drop(scheduler);
        assert_eq!(driver_count(0, "retained"), 2);
        drop(kept);
        assert_eq!(exchange_mode(GLOBAL), mode, "the thread's mode");
        assert_eq!((theirs.end(), driver_count(0, "retained")), (0, 0));
    }
}

/// Shows that the test above can fail.
pub fn a_call_in_the_wrong_mode_ends_the_capture() {
    let theirs = OtherLibrary::begin();
    let mut address = 0_u64;
    let allocates = move || cu!(cuMemAlloc_v2(&mut address => &mut u64, 512 => usize));
    assert_eq!(std::thread::spawn(allocates).join().unwrap(), 900);
    assert_eq!(theirs.end(), INVALIDATED);
}
