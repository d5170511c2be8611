//! The instructions of the processor that this runs on.

/// The instructions that a sweep is compiled for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Isa {
    /// What every processor of the architecture has.
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// Whether it multiplies and adds with one rounding.
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
