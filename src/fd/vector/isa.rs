//! Instruction sets of the processor.

use super::lanes::{Lanes, Plain};
#[cfg(target_arch = "x86_64")]
use super::x86::{Avx2, Avx512};

/// Instruction set that a kernel is compiled for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Isa {
    /// Instructions of every processor of the architecture.
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// Work on whole rows, compiled once for each instruction set.
pub trait RowWork {
    /// # Safety
    /// The processor has the instructions of `L`, and the kernel's own conditions hold.
    unsafe fn run<L: Lanes>(&self);
}

/// Aligns the stack of the calling function to a vector, so that vectors for which it has no
/// registers are aligned. A store that crosses a cache line costs two, one that crosses a page some
/// hundred cycles.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn align_stack<L: Lanes>() {
    std::hint::black_box(&mut L::splat(0.0));
}

impl Isa {
    /// Runs a kernel with this instruction set.
    ///
    /// # Safety
    /// See [`RowWork::run`].
    #[inline(always)]
    pub unsafe fn run<K: RowWork>(self, kernel: &K) {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma")]
        unsafe fn avx2<K: RowWork>(kernel: &K) {
            align_stack::<Avx2>();
            kernel.run::<Avx2>()
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f,avx512vl,fma")]
        unsafe fn avx512<K: RowWork>(kernel: &K) {
            align_stack::<Avx512>();
            kernel.run::<Avx512>()
        }
        #[inline(never)]
        unsafe fn plain<K: RowWork>(kernel: &K) {
            kernel.run::<Plain>()
        }
        match self {
            Isa::Baseline => plain(kernel),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => avx2(kernel),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => avx512(kernel),
        }
    }

    /// Orders the values that kernels wrote past the caches before all later writes of this thread.
    pub fn fence(self) {
        // SAFETY: an instruction of every x86-64 processor.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::x86_64::_mm_sfence()
        }
    }

    /// Returns true if multiply-add has one rounding.
    pub fn is_fused(self) -> bool {
        self != Isa::Baseline || cfg!(target_arch = "aarch64")
    }

    /// Returns all instruction sets that this processor has.
    #[cfg(test)]
    pub fn all() -> Vec<Isa> {
        let mut all = vec![Isa::Baseline];
        #[cfg(target_arch = "x86_64")]
        if Isa::best() == Isa::Avx512 {
            all.push(Isa::Avx2);
        }
        if Isa::best() != Isa::Baseline {
            all.push(Isa::best());
        }
        all
    }

    pub fn best() -> Isa {
        #[cfg(target_arch = "x86_64")]
        {
            let fma = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            if fma && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl") {
                return Isa::Avx512;
            }
            if fma {
                return Isa::Avx2;
            }
        }
        Isa::Baseline
    }
}
