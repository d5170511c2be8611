//! A host that rounds and flushes in its own way gets the same numbers, and keeps its way.
#![cfg(target_arch = "x86_64")]

use std::arch::asm;

use gpusched::ffi;

fn mode() -> u32 {
    let mut mode = 0;
    // SAFETY: stores a register to `mode`.
    unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut mode) };
    mode
}

fn set_mode(mode: u32) {
    // SAFETY: a valid value for the register, of this thread only.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const mode) };
}

fn wavelet() -> Vec<u32> {
    let mut samples = vec![0.0_f32; 200];
    // SAFETY: room for as many samples as are asked for.
    let status = unsafe { ffi::sched_fd_wavelet(1, 20.0, 1e-3, samples.as_mut_ptr(), samples.len()) };
    assert_eq!(status, 0);
    samples.into_iter().map(f32::to_bits).collect()
}

#[test]
fn a_callers_float_mode_changes_no_number_and_is_given_back() {
    /// Rounds toward zero, flushes denormal numbers and takes them as zero; flags masked, none raised.
    const ODD: u32 = 0x1f80 | 0x6000 | 0x8000 | 0x40;
    let before = mode();
    let expected = wavelet();
    set_mode(ODD);
    let found = wavelet();
    let after = mode();
    set_mode(before);
    assert_eq!(found, expected);
    assert_eq!(after & !0x3f, ODD, "the flags of the low bits aside");
}
