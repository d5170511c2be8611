//! Memory of a device that a task's code asks for while it runs; given back when it returns.

use std::cell::RefCell;
use std::ffi::c_void;

use super::guard::done;
use super::input::Place;
use super::run_control::{is_here, sched_exec_t, with_exec};
use super::status::sched_status_t;
use crate::backend::Lane;
use crate::backend::cpu::Buffer;
use crate::backend::cuda::Block;
use crate::error::{Error, Result};

enum Kept {
    Host(Buffer),
    Card(Block<u8>),
}

impl Kept {
    fn new(lane: Lane<'_>, bytes: u64) -> Result<Kept> {
        const WHAT: &str = "the memory that a task's code asked for";
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        match lane {
            Lane::Cpu(_) => Buffer::zeroed(bytes.div_ceil(size_of::<f32>()), WHAT).map(Kept::Host),
            Lane::Cuda(stream) => stream.alloc(bytes, WHAT).map(Kept::Card),
        }
    }

    /// On a card it is a number and no address of the host.
    fn pointer(&mut self) -> *mut c_void {
        match self {
            Kept::Host(buffer) => buffer.as_mut_ptr().cast(),
            Kept::Card(block) => std::ptr::without_provenance_mut(block.address() as usize),
        }
    }
}

/// What the code that runs with this `exec` has asked for.
struct Frame {
    told: usize,
    kept: Vec<Kept>,
}

thread_local! {
    /// Of the callbacks that the thread is inside of, innermost last.
    static FRAMES: RefCell<Vec<Frame>> = const { RefCell::new(Vec::new()) };
}

/// A callback that may ask, until dropped.
pub(super) struct Leased(usize);

impl Leased {
    pub(super) fn enter(told: &sched_exec_t) -> Self {
        let told = (&raw const *told).addr();
        let _ = FRAMES.try_with(|frames| frames.borrow_mut().push(Frame { told, kept: Vec::new() }));
        Leased(told)
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        let left = FRAMES.try_with(|frames| {
            let mut frames = frames.borrow_mut();
            let place = frames.iter().rposition(|frame| frame.told == self.0)?;
            Some(frames.remove(place))
        });
        drop(left);
    }
}

/// Puts memory of the task's device into `*memory`: `bytes` of it, aligned to 64 bytes at least, with
/// undefined contents. On a card that is memory of the card, on a processor memory of the host. It is the code's until
/// that returns, and then kept for the next that asks for as much; work that uses it has to be on the stream of
/// `exec`, or be done by then. What is asked for should be in the `device_bytes` of the task. `exec` is what the
/// task's code was given; to be called on the thread on which that was called.
///
/// Errors: SCHED_E_MEMORY where the device does not have it: the code should return that, to be tried again as
/// said at sched_run_fn. SCHED_E_ARGUMENT, SCHED_E_STALE, SCHED_E_DEVICE, SCHED_E_DRIVER.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_exec_memory(
    exec: *const sched_exec_t,
    bytes: u64,
    memory: *mut *mut c_void,
) -> sched_status_t {
    done(|| {
        // SAFETY: a pointer as the header asks for it; `Place` looks at it.
        let out = unsafe { Place::new("memory", memory)? };
        if bytes == 0 {
            return Err(Error::argument("bytes", bytes, "1 or more"));
        }
        if !is_here(exec) {
            with_exec(exec, |_| ())?;
            let accepted = "that on which the task's code was called";
            return Err(Error::argument("the calling thread", "another", accepted));
        }
        let mut kept = with_exec(exec, |exec| Kept::new(exec.lane, bytes))??;
        let pointer = kept.pointer();
        let told = exec.addr();
        FRAMES.with(|frames| {
            let mut frames = frames.borrow_mut();
            let frame = frames.iter_mut().rev().find(|frame| frame.told == told);
            let frame = frame.ok_or_else(|| Error::Internal("a task's code that no thread runs".into()))?;
            frame.kept.push(kept);
            Ok(())
        })?;
        out.put(pointer);
        Ok(())
    })
}
