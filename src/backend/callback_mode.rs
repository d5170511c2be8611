//! The floating-point mode in which a callback runs: that of the thread that submitted it.
//!
//! A mode consists of the rounding direction, flush-to-zero, denormals-are-zero and the trap masks.
//! The sticky exception flags are not part of it: a callback starts with clear flags, and the flags
//! of the thread are restored after it. On x86-64 SSE and the x87 unit (`long double`,
//! `fegetround`, `fegetexcept`) have registers each, and a mode has both.
//!
//! The library's own code runs in the standard mode: its threads from their start
//! ([`begin_thread`]), host threads inside a [`FloatMode`](super::float_mode::FloatMode).

use register::FloatState;

/// The floating-point mode of a thread, without its exception flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallbackMode(u32);

impl CallbackMode {
    /// Returns the mode of the calling thread.
    #[inline]
    pub fn of_this_thread() -> Self {
        CallbackMode(register::mode())
    }

    /// Enters the mode until the result is dropped. Dropping it restores the thread's state.
    pub fn enter(self) -> CallbackScope {
        CallbackScope::new(self, FloatState::read())
    }

    /// As [`enter`](Self::enter), for a worker in the library's standard mode, which therefore is
    /// not read.
    #[inline]
    pub fn enter_on_worker(self) -> CallbackScope {
        debug_assert_eq!(register::mode() & register::ARITHMETIC, register::STANDARD & register::ARITHMETIC);
        CallbackScope::new(self, FloatState::of_worker())
    }

    /// Returns the mode as a word, for [`CallbackMode::from_word`].
    pub fn to_word(self) -> usize {
        self.0 as usize
    }

    pub fn from_word(word: usize) -> Self {
        CallbackMode(word as u32)
    }
}

/// The time inside a callback: its mode is set, and the thread's own state is restored on drop,
/// whatever the callback has set.
pub struct CallbackScope {
    outside: FloatState,
}

impl CallbackScope {
    #[inline]
    fn new(mode: CallbackMode, outside: FloatState) -> Self {
        FloatState::of_mode(mode.0).write_over(outside);
        CallbackScope { outside }
    }
}

impl Drop for CallbackScope {
    #[inline]
    fn drop(&mut self) {
        self.outside.write();
    }
}

/// Sets the standard mode in a new thread of the library, which inherits that of its creator.
pub fn begin_thread() {
    FloatState::of_mode(register::STANDARD).write();
}

#[cfg(target_arch = "x86_64")]
mod register {
    use std::arch::asm;

    /// The control bits of MXCSR, and above them the control word of the x87 unit.
    pub const STANDARD: u32 = 0x1f80 | 0x037f << 16;
    /// The part of a mode that the library's arithmetic depends on: it does not use the x87 unit.
    pub const ARITHMETIC: u32 = CONTROL;
    const CONTROL: u32 = 0xffc0;
    /// The masks in the control word of the x87 unit, and the flags in its status word.
    const X87: u16 = 0x3f;

    /// MXCSR with its flags; control word and flags of the x87 unit.
    #[derive(Clone, Copy)]
    pub struct FloatState {
        mxcsr: u32,
        x87: u16,
        x87_flags: u16,
    }

    impl FloatState {
        #[inline]
        pub fn read() -> Self {
            FloatState { mxcsr: read_mxcsr(), ..FloatState::of_worker() }
        }

        /// Returns the state of a thread whose MXCSR is known to be standard.
        #[inline]
        pub fn of_worker() -> Self {
            FloatState { mxcsr: STANDARD & CONTROL, x87: read_x87(), x87_flags: read_x87_flags() }
        }

        #[inline]
        pub fn of_mode(mode: u32) -> Self {
            FloatState { mxcsr: mode & CONTROL, x87: (mode >> 16) as u16, x87_flags: 0 }
        }

        #[inline]
        pub fn write(self) {
            self.write_over(FloatState::of_worker());
        }

        /// Writes the state on a thread whose x87 unit is in the state `before`.
        #[inline]
        pub fn write_over(self, before: FloatState) {
            // SAFETY: the value was read from the register, or consists of such bits.
            unsafe {
                asm!("ldmxcsr [{}]", in(reg) &raw const self.mxcsr, options(nostack, preserves_flags, readonly));
            }
            if (before.x87, before.x87_flags) != (self.x87, self.x87_flags) {
                self.write_x87();
            }
        }

        /// Writes the control word and the flags. A flag of an exception that is not masked would
        /// trap in the next instruction of the x87 unit, so it is not restored.
        #[cold]
        fn write_x87(self) {
            let flags = self.x87_flags & self.x87;
            // The environment: seven words, of which the second is the status word.
            let mut environment = [0_u32; 7];
            // SAFETY: clears flags; the control word was read from the register, and the
            // environment is that of the unit with other flags.
            unsafe {
                asm!("fnclex", options(nomem, nostack, preserves_flags));
                asm!("fldcw [{}]", in(reg) &raw const self.x87, options(nostack, preserves_flags, readonly));
                if flags != 0 {
                    asm!("fnstenv [{}]", in(reg) &raw mut environment, options(nostack, preserves_flags));
                    environment[1] |= u32::from(flags);
                    asm!("fldenv [{}]", in(reg) &raw const environment, options(nostack, preserves_flags, readonly));
                }
            }
        }
    }

    /// Returns the mode of the thread. Does not read the flags of the x87 unit: that takes 6 ns on
    /// Zen 3, more than everything else here.
    #[inline]
    pub fn mode() -> u32 {
        read_mxcsr() & CONTROL | u32::from(read_x87()) << 16
    }

    #[inline]
    fn read_mxcsr() -> u32 {
        let mut mxcsr = 0;
        // SAFETY: stores the register to the address of `mxcsr`.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut mxcsr, options(nostack, preserves_flags)) };
        mxcsr
    }

    #[inline]
    fn read_x87() -> u16 {
        let mut control = 0_u16;
        // SAFETY: stores the register to the address of `control`.
        unsafe { asm!("fnstcw [{}]", in(reg) &raw mut control, options(nostack, preserves_flags)) };
        control
    }

    #[inline]
    fn read_x87_flags() -> u16 {
        let status: u16;
        // SAFETY: reads the status word.
        unsafe { asm!("fnstsw ax", out("ax") status, options(nomem, nostack, preserves_flags)) };
        status & X87
    }
}

#[cfg(target_arch = "aarch64")]
mod register {
    use std::arch::asm;

    pub const STANDARD: u32 = 0;
    pub const ARITHMETIC: u32 = u32::MAX;

    /// FPCR, and FPSR with the exception flags. The upper halves of the registers are reserved.
    #[derive(Clone, Copy)]
    pub struct FloatState {
        control: u32,
        status: u32,
    }

    impl FloatState {
        #[inline]
        pub fn read() -> Self {
            FloatState { control: mode(), ..FloatState::of_worker() }
        }

        #[inline]
        pub fn of_worker() -> Self {
            let status: u64;
            // SAFETY: reads a register.
            unsafe { asm!("mrs {}, fpsr", out(reg) status, options(nomem, nostack, preserves_flags)) };
            FloatState { control: STANDARD, status: status as u32 }
        }

        #[inline]
        pub fn of_mode(mode: u32) -> Self {
            FloatState { control: mode, status: 0 }
        }

        #[inline]
        pub fn write_over(self, _: FloatState) {
            self.write();
        }

        #[inline]
        pub fn write(self) {
            let (control, status) = (u64::from(self.control), u64::from(self.status));
            // SAFETY: the values were read from the registers, or are clear flags or a mode.
            unsafe {
                asm!("msr fpcr, {}", "msr fpsr, {}", in(reg) control, in(reg) status, options(nomem, nostack, preserves_flags));
            }
        }
    }

    /// Returns the mode of the thread.
    #[inline]
    pub fn mode() -> u32 {
        let control: u64;
        // SAFETY: reads a register.
        unsafe { asm!("mrs {}, fpcr", out(reg) control, options(nomem, nostack, preserves_flags)) };
        control as u32
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod register {
    pub const STANDARD: u32 = 0;
    pub const ARITHMETIC: u32 = 0;

    /// Modes are not captured on this processor.
    #[derive(Clone, Copy)]
    pub struct FloatState;

    impl FloatState {
        pub fn read() -> Self {
            FloatState
        }

        pub fn of_worker() -> Self {
            FloatState
        }

        pub fn of_mode(_: u32) -> Self {
            FloatState
        }

        pub fn write_over(self, _: FloatState) {}

        pub fn write(self) {}
    }

    pub fn mode() -> u32 {
        STANDARD
    }
}
