//! Vectors of the processor: the operations that a kernel is written with.

/// Operations on vectors of float32 values. Every method is a single instruction where the
/// processor has it.
///
/// # Safety
/// Of all unsafe methods: the processor has the instructions.
#[expect(clippy::missing_safety_doc, reason = "the trait states it for all methods")]
pub trait Lanes {
    type V: Copy;
    /// A divisor of [`WIDEST`].
    const N: usize;

    /// # Safety
    /// `N` values may be read, aligned or not.
    unsafe fn load(from: *const f32) -> Self::V;
    /// Loads 16-bit numbers and converts them to float32.
    ///
    /// # Safety
    /// `N` numbers may be read, aligned or not.
    unsafe fn widened(from: *const u16) -> Self::V;
    /// # Safety
    /// `N` values may be written, aligned or not.
    unsafe fn store(to: *mut f32, v: Self::V);
    /// Stores past the caches, for values that are not read soon.
    ///
    /// # Safety
    /// `N` values may be written at a multiple of their size.
    /// Call [`Isa::fence`](super::isa::Isa::fence) before other threads read the values.
    unsafe fn stream(to: *mut f32, v: Self::V);
    /// Prefetches a line that is used soon, to the first-level cache. Any address is accepted.
    fn prefetch(from: *const f32);
    /// Prefetches a line that is used later, to the second-level cache.
    fn prefetch_far(from: *const f32);
    unsafe fn splat(value: f32) -> Self::V;
    unsafe fn add(x: Self::V, y: Self::V) -> Self::V;
    unsafe fn sub(x: Self::V, y: Self::V) -> Self::V;
    unsafe fn mul(x: Self::V, y: Self::V) -> Self::V;
    /// Returns the reciprocal, rounded once.
    unsafe fn reciprocal(x: Self::V) -> Self::V;
    /// Returns `x y + z`.
    unsafe fn fma(x: Self::V, y: Self::V, z: Self::V) -> Self::V;
    /// Returns `z - x y`.
    unsafe fn fnma(x: Self::V, y: Self::V, z: Self::V) -> Self::V;
    /// Returns the values `K` (1 to 4) before those of `at`, which follow those of `before` in
    /// memory.
    unsafe fn earlier<const K: usize>(before: Self::V, at: Self::V) -> Self::V;
    /// Returns the values `K` (1 to 4) after those of `at`, which `after` follows in memory.
    unsafe fn later<const K: usize>(at: Self::V, after: Self::V) -> Self::V;
}

/// Values of the widest vector. Kernels process rows in multiples of it.
pub const WIDEST: usize = 16;

/// Returns four coefficients in each lane.
///
/// # Safety
/// The processor has the instructions.
#[inline(always)]
pub unsafe fn splats<L: Lanes>(c: &[f32; 4]) -> [L::V; 4] {
    [L::splat(c[0]), L::splat(c[1]), L::splat(c[2]), L::splat(c[3])]
}

/// Vectors of the baseline instructions, as the compiler makes them.
pub struct Plain;

/// Returns `x y + z`, fused where the baseline has the instruction: 64-bit Arm. Elsewhere it would
/// be a function call for each number.
#[inline(always)]
fn plain_fma(x: f32, y: f32, z: f32) -> f32 {
    if cfg!(target_arch = "aarch64") { x.mul_add(y, z) } else { x * y + z }
}

impl Lanes for Plain {
    type V = [f32; 4];
    const N: usize = 4;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> [f32; 4] {
        from.cast::<[f32; 4]>().read_unaligned()
    }
    #[inline(always)]
    unsafe fn widened(from: *const u16) -> [f32; 4] {
        from.cast::<[u16; 4]>().read_unaligned().map(f32::from)
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, v: [f32; 4]) {
        to.cast::<[f32; 4]>().write_unaligned(v)
    }
    #[inline(always)]
    unsafe fn stream(to: *mut f32, v: [f32; 4]) {
        Self::store(to, v)
    }
    #[inline(always)]
    fn prefetch(_: *const f32) {}
    #[inline(always)]
    fn prefetch_far(_: *const f32) {}
    #[inline(always)]
    unsafe fn splat(value: f32) -> [f32; 4] {
        [value; 4]
    }
    #[inline(always)]
    unsafe fn add(x: [f32; 4], y: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| x[i] + y[i])
    }
    #[inline(always)]
    unsafe fn sub(x: [f32; 4], y: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| x[i] - y[i])
    }
    #[inline(always)]
    unsafe fn mul(x: [f32; 4], y: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| x[i] * y[i])
    }
    #[inline(always)]
    unsafe fn reciprocal(x: [f32; 4]) -> [f32; 4] {
        x.map(f32::recip)
    }
    #[inline(always)]
    unsafe fn fma(x: [f32; 4], y: [f32; 4], z: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| plain_fma(x[i], y[i], z[i]))
    }
    #[inline(always)]
    unsafe fn fnma(x: [f32; 4], y: [f32; 4], z: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| plain_fma(-x[i], y[i], z[i]))
    }
    #[inline(always)]
    unsafe fn earlier<const K: usize>(before: [f32; 4], at: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| if i < K { before[4 + i - K] } else { at[i - K] })
    }
    #[inline(always)]
    unsafe fn later<const K: usize>(at: [f32; 4], after: [f32; 4]) -> [f32; 4] {
        std::array::from_fn(|i| if i + K < 4 { at[i + K] } else { after[i + K - 4] })
    }
}
