//! Calls the caller's functions, which a C++ exception or `pthread_exit` may leave. Neither may
//! unwind through Rust's frames: the first would end the process, the second is undefined
//! behaviour. So both end in the trampoline's frame, directly above the function.
//!
//! That frame has a personality routine (Itanium C++ ABI, level I). In the search phase it claims a
//! foreign exception. In the cleanup phase, also of a forced unwinding, it sends the thread to the
//! frame's landing pad. The landing pad returns in the function's place, reports the cause, and
//! deletes an exception. An unwinding of `pthread_exit` or `pthread_cancel` stops there. The thread
//! then ends by returning from its first function, after the task is complete: the worker receives
//! a request to end. After an exception the thread ends as well, because the exception's runtime
//! may count uncaught exceptions per thread.
//!
//! The trampoline also handles a `pthread_cancel` that is pending when the function returns. It
//! would otherwise take effect where the library opens or writes a file, or inside the next
//! function. (A thread of the host, in [`CancelGuard`](crate::backend::thread::CancelGuard),
//! handles it after its call.)
//!
//! Panics of Rust pass through to the frames above. Systems other than Linux on x86-64 have no such
//! frame: the function is called directly, and an exception that leaves it ends the process with a
//! message of Rust's.

use std::ffi::c_void;

use crate::backend::callback_mode::CallbackScope;
use crate::backend::thread::exit_in_child;
use crate::error::Error;

/// Any function of the caller with up to four words as arguments.
pub(super) type CallerFunction =
    unsafe extern "C-unwind" fn(*const c_void, *mut c_void, *mut c_void, *mut c_void) -> i32;

/// Result of the landing pad; all zero if the function returned.
#[repr(C)]
#[derive(Default)]
struct UnwindState {
    exception: usize,
    kind: usize,
}

/// Calls a function of the caller, and then restores the thread's own floating-point mode.
///
/// Errors: [`Error::Unwound`] if the function did not return.
///
/// # Safety
/// The function may be called with these arguments on this thread.
pub(super) unsafe fn call<const WORDS: usize>(
    mode: CallbackScope,
    function: CallerFunction,
    arguments: [*mut c_void; WORDS],
) -> Result<i32, Error> {
    const { assert!(WORDS <= 4, "a word too many") };
    let mut state = UnwindState::default();
    let word = |place: usize| arguments.get(place).copied().unwrap_or_default();
    // SAFETY: as promised by the caller; `state` outlives the call.
    let code = unsafe { frame::call(function, word(0), word(1), word(2), word(3), &mut state) };
    drop(mode);
    exit_in_child();
    let how = match state.kind {
        0 => return Ok(code),
        frame::THROWN => "an exception",
        _ => "pthread_exit or pthread_cancel",
    };
    if state.kind == frame::THROWN {
        // SAFETY: the exception was caught, and nothing uses it after this.
        unsafe { frame::delete(state.exception) };
    }
    crate::sched::leave_thread();
    Err(Error::Unwound { how })
}

#[cfg(target_arch = "x86_64")]
mod frame {
    use std::arch::global_asm;
    use std::ffi::{c_int, c_void};

    use super::{CallerFunction, UnwindState};

    pub const THROWN: usize = 1;
    const FORCED: usize = 2;

    // The unwinder restores rbx, which holds the address of the `UnwindState`. The stack holds the
    // function's result. rax and rdx are the unwinder's two words for a landing pad.
    global_asm!(
        ".pushsection .text.gpusched_trampoline_call, \"ax\", @progbits",
        ".globl gpusched_trampoline_call",
        ".hidden gpusched_trampoline_call",
        ".type gpusched_trampoline_call, @function",
        ".p2align 4",
        "gpusched_trampoline_call:",
        ".cfi_startproc",
        // Relative to its own address, in four signed bytes.
        ".cfi_personality 0x1b, {personality}",
        "push rbx",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbx, -16",
        "sub rsp, 16",
        ".cfi_def_cfa_offset 32",
        "mov rbx, r9",
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov rcx, r8",
        "call rax",
        "mov [rsp], eax",
        "call {testcancel}@PLT",
        "mov eax, [rsp]",
        "2:",
        ".cfi_remember_state",
        "add rsp, 16",
        ".cfi_def_cfa_offset 16",
        "pop rbx",
        ".cfi_def_cfa_offset 8",
        ".cfi_restore rbx",
        "ret",
        ".cfi_restore_state",
        ".globl gpusched_landing_pad",
        ".hidden gpusched_landing_pad",
        "gpusched_landing_pad:",
        "mov [rbx], rax",
        "mov [rbx + 8], rdx",
        "xor eax, eax",
        "jmp 2b",
        ".cfi_endproc",
        ".size gpusched_trampoline_call, . - gpusched_trampoline_call",
        ".popsection",
        personality = sym personality,
        testcancel = sym pthread_testcancel,
    );

    unsafe extern "C-unwind" {
        #[link_name = "gpusched_trampoline_call"]
        pub fn call(
            function: CallerFunction,
            first: *const c_void,
            second: *mut c_void,
            third: *mut c_void,
            fourth: *mut c_void,
            state: &mut UnwindState,
        ) -> i32;
    }

    unsafe extern "C" {
        fn gpusched_landing_pad();
        fn pthread_testcancel();
        fn _Unwind_SetGR(context: *mut c_void, register: c_int, value: usize);
        fn _Unwind_SetIP(context: *mut c_void, address: usize);
        fn _Unwind_DeleteException(exception: *mut c_void);
    }

    const SEARCH: c_int = 1;
    const HANDLER: c_int = 4;
    const FORCE: c_int = 8;
    const FOUND: c_int = 6;
    const INSTALL: c_int = 7;
    const CONTINUE: c_int = 8;
    /// Exception class of Rust.
    const RUST: u64 = u64::from_be_bytes(*b"MOZ\0RUST");

    /// Claims foreign exceptions, and sends every unwinding to the landing pad except Rust's.
    ///
    /// # Safety
    /// Called by the unwinder only.
    unsafe extern "C" fn personality(
        _version: c_int,
        actions: c_int,
        class: u64,
        exception: *mut c_void,
        context: *mut c_void,
    ) -> c_int {
        let kind = match actions {
            _ if actions & FORCE != 0 => FORCED,
            _ if class == RUST => return CONTINUE,
            _ if actions & SEARCH != 0 => return FOUND,
            _ if actions & HANDLER != 0 => THROWN,
            _ => return CONTINUE,
        };
        // SAFETY: the context is that of the trampoline's frame; the landing pad is in the same
        // function.
        unsafe {
            _Unwind_SetGR(context, 0, exception.expose_provenance());
            _Unwind_SetGR(context, 1, kind);
            _Unwind_SetIP(context, gpusched_landing_pad as *const () as usize);
        }
        INSTALL
    }

    /// Deletes an exception.
    ///
    /// # Safety
    /// The landing pad has received the exception. Called once.
    pub unsafe fn delete(exception: usize) {
        // SAFETY: as promised by the caller.
        unsafe { _Unwind_DeleteException(std::ptr::with_exposed_provenance_mut(exception)) }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod frame {
    use std::ffi::c_void;

    use super::{CallerFunction, UnwindState};

    pub const THROWN: usize = 1;

    /// Calls the function without a landing pad.
    ///
    /// # Safety
    /// As for [`super::call`].
    pub unsafe fn call(
        function: CallerFunction,
        first: *const c_void,
        second: *mut c_void,
        third: *mut c_void,
        fourth: *mut c_void,
        _state: &mut UnwindState,
    ) -> i32 {
        // SAFETY: as promised by the caller.
        unsafe { function(first, second, third, fourth) }
    }

    /// Does nothing.
    ///
    /// # Safety
    /// Never called: this platform has no landing pad.
    pub unsafe fn delete(_exception: usize) {}
}
