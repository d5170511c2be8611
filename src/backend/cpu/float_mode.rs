//! How a thread rounds, flushes and traps, for as long as it works for us.
//!
//! A host program may have told its threads to flush denormal numbers or to trap on an overflow
//! (`-ffast-math`, `-ffpe-trap`), and new threads take that over. Records must not
//! depend on it, and a shot that blows up must not end the process.

/// The standard mode, until dropped; then again what was before.
pub struct FloatMode {
    before: Control,
}

impl FloatMode {
    /// To read the register waits for the arithmetic before it, 9 ns on Zen 4; to write what is there
    /// already costs nothing. So it is read once, and written whether or not it has to be.
    pub fn standard() -> Self {
        let before = read();
        write(STANDARD);
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

    pub type Control = u32;
    /// Round to nearest, keep denormal numbers, trap on nothing.
    pub const STANDARD: Control = 0x1f80;

    pub fn read() -> Control {
        let mut control = 0;
        // SAFETY: stores the register to the address of `control`.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut control, options(nostack, preserves_flags)) };
        control
    }

    pub fn write(control: Control) {
        // SAFETY: either the standard mode or what `read` gave.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const control, options(nostack, preserves_flags)) };
    }
}

#[cfg(target_arch = "aarch64")]
mod register {
    use std::arch::asm;

    pub type Control = u64;
    /// Round to nearest, keep denormal numbers, trap on nothing.
    pub const STANDARD: Control = 0;

    pub fn read() -> Control {
        let control;
        // SAFETY: reads a register.
        unsafe { asm!("mrs {}, fpcr", out(reg) control, options(nomem, nostack, preserves_flags)) };
        control
    }

    pub fn write(control: Control) {
        // SAFETY: either the standard mode or what `read` gave.
        unsafe { asm!("msr fpcr, {}", in(reg) control, options(nomem, nostack, preserves_flags)) };
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod register {
    pub type Control = ();
    pub const STANDARD: Control = ();
    pub fn read() -> Control {}
    pub fn write(_: Control) {}
}

use register::{Control, STANDARD, read, write};

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn the_callers_mode_is_put_aside_and_back() {
        /// Flush to zero, denormals are zero, round up.
        const ODD: Control = 0x1f80 | 0x8040 | 0x4000;
        const MODES: Control = !0x3f;
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
}
