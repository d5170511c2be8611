//! Device memory that a callback allocates while it runs. It is freed, or cached on a GPU, when the
//! callback returns.

use std::cell::RefCell;
use std::ffi::c_void;

use super::guard::guard_status;
use super::input::OutParam;
use super::run_control::{is_here, sched_exec_t, with_exec};
use super::status::sched_status_t;
use crate::backend::Lane;
use crate::backend::cpu::Buffer;
use crate::backend::cuda::DeviceBuffer;
use crate::error::{Error, Result};

enum Allocation {
    Host(Buffer),
    Gpu(DeviceBuffer<u8>),
}

impl Allocation {
    fn new(lane: Lane<'_>, bytes: u64) -> Result<Allocation> {
        const WHAT: &str = "memory for the task's callback";
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        match lane {
            Lane::Cpu(_) => Buffer::zeroed(bytes.div_ceil(size_of::<f32>()), WHAT).map(Allocation::Host),
            Lane::Cuda(stream) => stream.alloc(bytes, WHAT).map(Allocation::Gpu),
        }
    }

    /// Returns the address; on a GPU it is one of the device.
    fn pointer(&mut self) -> *mut c_void {
        match self {
            Allocation::Host(buffer) => buffer.as_mut_ptr().cast(),
            Allocation::Gpu(block) => std::ptr::without_provenance_mut(block.address() as usize),
        }
    }
}

thread_local! {
    /// Allocations of the callbacks that this thread runs, each with the address of its callback's
    /// `exec`. Most callbacks have none, so they cost one check.
    static ALLOCATIONS: RefCell<Vec<(usize, Allocation)>> = const { RefCell::new(Vec::new()) };
}

/// Frees the allocations of a callback when dropped.
pub(super) struct AllocationScope(usize);

impl AllocationScope {
    pub(super) fn of(exec: &sched_exec_t) -> Self {
        AllocationScope((&raw const *exec).addr())
    }
}

impl Drop for AllocationScope {
    fn drop(&mut self) {
        // The allocations are searched, because a nested callback may have allocated for this one.
        // They are freed after the borrow has ended.
        let _ = ALLOCATIONS.try_with(|allocations| {
            if !allocations.borrow().is_empty() {
                let own = |(address, _): &mut (usize, Allocation)| *address == self.0;
                let own = allocations.borrow_mut().extract_if(.., own).collect::<Vec<_>>();
                drop(own);
            }
        });
    }
}

/// Allocates `bytes` bytes on the task's device and stores their address in `*memory`: memory
/// of the GPU on a GPU, memory of the host on the CPU device. The contents are undefined, the
/// alignment is at least 64 bytes. The memory belongs to the callback until that returns. Then
/// memory of the host is freed, and memory of a GPU is cached for later requests that it exceeds by
/// an eighth at most. Work that uses the memory must be on the stream of `exec`, or be done when the
/// callback returns. The task's `device_bytes` should include these bytes; other processes then
/// count them as used, not also as reserved. `exec` is the argument of the callback; call this
/// function on the thread that runs the callback.
///
/// Errors: SCHED_E_MEMORY if the device does not have that much: the callback should return
/// this status, so that the task is retried as described at sched_run_fn. SCHED_E_ARGUMENT,
/// SCHED_E_STALE, SCHED_E_DEVICE, SCHED_E_DRIVER.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_exec_memory(
    exec: *const sched_exec_t,
    bytes: u64,
    memory: *mut *mut c_void,
) -> sched_status_t {
    guard_status(|| {
        // SAFETY: a pointer as the header requires it; `OutParam` checks it.
        let out = unsafe { OutParam::new("memory", memory)? };
        if bytes == 0 {
            return Err(Error::argument("bytes", bytes, "1 or more"));
        }
        if !is_here(exec) {
            with_exec(exec, |_| ())?;
            let accepted = "the thread that runs the callback";
            return Err(Error::argument("the calling thread", "another", accepted));
        }
        let mut allocation = with_exec(exec, |exec| {
            Allocation::new(exec.lane, bytes).inspect(|_| exec.count_allocated(bytes))
        })??;
        let pointer = allocation.pointer();
        ALLOCATIONS.with_borrow_mut(|allocations| allocations.push((exec.addr(), allocation)));
        out.write(pointer);
        Ok(())
    })
}
