//! The floating-point mode in which the library computes.
//!
//! A host program may have set its threads to flush denormal numbers or to trap on overflow
//! (`-ffast-math`, `-ffpe-trap`), and new threads inherit that. Records must not depend on it, and
//! an unstable shot must not end the process.

/// Sets a mode on the calling thread, and restores the previous one when it is dropped.
pub struct FloatMode {
    before: FloatControl,
}

impl FloatMode {
    /// Sets the standard mode: round to nearest, keep denormal numbers, trap on nothing.
    // Reading the register waits for the arithmetic before it (9 ns on Zen 4); writing an unchanged
    // value costs nothing. So it is read once and always written.
    pub fn standard() -> Self {
        FloatMode::of(STANDARD)
    }

    /// Sets the standard mode, but with denormal operands and results replaced by zeros of their
    /// sign, until dropped. The propagator computes its steps in it. Processors other than x86-64
    /// and 64-bit Arm keep denormal numbers.
    pub fn flushing() -> Self {
        FloatMode::of(FLUSHING)
    }

    fn of(mode: FloatControl) -> Self {
        let before = read();
        write(mode);
        FloatMode { before }
    }
}

impl Drop for FloatMode {
    fn drop(&mut self) {
        write(self.before);
    }
}

#[cfg(target_arch = "x86_64")]
mod register {
    use std::arch::asm;

    pub type FloatControl = u32;
    /// Round to nearest, keep denormal numbers, trap on nothing.
    pub const STANDARD: FloatControl = 0x1f80;
    /// `STANDARD` with flush-to-zero (bit 15) and denormals-are-zeros (bit 6).
    pub const FLUSHING: FloatControl = STANDARD | 0x8040;

    pub fn read() -> FloatControl {
        let mut control = 0;
        // SAFETY: stores the register to the address of `control`.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut control, options(nostack, preserves_flags)) };
        control
    }

    pub fn write(control: FloatControl) {
        // SAFETY: the value is a mode of this module or was returned by `read`.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const control, options(nostack, preserves_flags)) };
    }
}

#[cfg(target_arch = "aarch64")]
mod register {
    use std::arch::asm;

    pub type FloatControl = u64;
    /// Round to nearest, keep denormal numbers, trap on nothing.
    pub const STANDARD: FloatControl = 0;
    /// `STANDARD` with flush-to-zero (FZ, bit 24), which also treats denormal operands as zeros.
    pub const FLUSHING: FloatControl = 1 << 24;

    pub fn read() -> FloatControl {
        let control;
        // SAFETY: reads a register.
        unsafe { asm!("mrs {}, fpcr", out(reg) control, options(nomem, nostack, preserves_flags)) };
        control
    }

    pub fn write(control: FloatControl) {
        // Without `nomem`, so that the compiler moves no load or store across it.
        // SAFETY: the value is a mode of this module or was returned by `read`.
        unsafe { asm!("msr fpcr, {}", in(reg) control, options(nostack, preserves_flags)) };
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod register {
    pub type FloatControl = ();
    pub const STANDARD: FloatControl = ();
    pub const FLUSHING: FloatControl = ();
    pub fn read() -> FloatControl {}
    pub fn write(_: FloatControl) {}
}

use register::{FLUSHING, FloatControl, STANDARD, read, write};

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn callers_mode_is_replaced_and_restored() {
        /// Flush to zero, denormals are zero, round up.
        const ODD: FloatControl = 0x1f80 | 0x8040 | 0x4000;
        const MODES: FloatControl = !0x3f;
        let ours = read();
        write(ODD);
        let team = crate::backend::cpu::Team::new(2);
        let ended = team.and_then(|team| {
            team.run(&(), |_, _| {
                assert_eq!(read() & MODES, STANDARD);
                Ok(())
            })
        });
        let after = read() & MODES;
        write(ours);
        assert_eq!((ended, after), (Ok(()), ODD));
    }

    #[test]
    fn flushing_ends_with_its_guard_and_nests() {
        let ours = read();
        {
            let _outer = FloatMode::flushing();
            let _inner = FloatMode::standard();
            assert_eq!(read() & 0x8040, 0);
            drop(_inner);
            assert_eq!(read() & 0x8040, 0x8040);
        }
        assert_eq!(read() & 0x8040, ours & 0x8040);
    }
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod boundary {
    use std::hint::black_box;

    use super::*;

    /// Returns the bits of the product in the mode.
    fn product(mode: fn() -> FloatMode, a: f32, b: f32) -> u32 {
        let _mode = mode();
        let [a, b] = black_box([a, b]);
        black_box(a * b).to_bits()
    }

    #[test]
    fn denormal_operands_and_results_are_flushed_with_their_sign() {
        let ulp = f32::EPSILON;
        let least = f32::MIN_POSITIVE;
        // Arm flushes values below 2^-126 before it rounds them.
        let rounded = if cfg!(target_arch = "aarch64") { 0.0 } else { least };
        for (a, b, standard, flushing) in [
            (1e-40, 1e30, 1e-40 * 1e30, 0.0),
            (1e-20, 1e-20, 1e-40, 0.0),
            (least, 1.0, least, least),
            // 2^-126 - 2^-150 needs no rounding; denormal numbers are too coarse for it.
            (least, 1.0 - ulp / 2.0, least, 0.0),
            // 2^-126 (1 - 2^-46).
            (2f32.powi(-100) * (1.0 - ulp), 2f32.powi(-26) * (1.0 + ulp), least, rounded),
        ] {
            for sign in [1.0, -1.0] {
                let expected = [standard, flushing].map(|product: f32| (sign * product).to_bits());
                let found = [FloatMode::standard, FloatMode::flushing].map(|mode| product(mode, sign * a, b));
                assert_eq!(found, expected, "{a:e} times {b:e}");
            }
        }
    }
}
