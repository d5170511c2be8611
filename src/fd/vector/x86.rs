//! Vectors of x86-64 processors: AVX2 with FMA, and AVX-512.

use std::arch::x86_64::*;

use super::lanes::Lanes;

/// Implements methods of [`Lanes`], each with an instruction or a function.
macro_rules! instructions {
    ($($method:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? = $instruction:ident;)*) => {$(
        #[inline(always)]
        unsafe fn $method($($argument: $type),*) $(-> $result)? {
            $instruction($($argument),*)
        }
    )*};
}

/// Implements [`Lanes`] with the named instructions of the processor.
macro_rules! x86 {
    ($name:ident, $v:ty, $n:literal,
     $load:ident $store:ident $stream:ident $set:ident $add:ident $sub:ident $mul:ident $div:ident $fma:ident $fnma:ident
     $shifted:ident $widened:ident) => {
        impl Lanes for $name {
            type V = $v;
            const N: usize = $n;

            instructions! {
                load(from: *const f32) -> $v = $load;
                widened(from: *const u16) -> $v = $widened;
                store(to: *mut f32, v: $v) = $store;
                stream(to: *mut f32, v: $v) = $stream;
                splat(value: f32) -> $v = $set;
                add(x: $v, y: $v) -> $v = $add;
                sub(x: $v, y: $v) -> $v = $sub;
                mul(x: $v, y: $v) -> $v = $mul;
                fma(x: $v, y: $v, z: $v) -> $v = $fma;
                fnma(x: $v, y: $v, z: $v) -> $v = $fnma;
            }
            #[inline(always)]
            fn prefetch(from: *const f32) {
                // SAFETY: a prefetch, which accepts any address.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) }
            }
            #[inline(always)]
            fn prefetch_far(from: *const f32) {
                // SAFETY: as above.
                unsafe { _mm_prefetch::<_MM_HINT_T1>(from.cast()) }
            }
            #[inline(always)]
            unsafe fn reciprocal(x: $v) -> $v {
                $div($set(1.0), x)
            }
            #[inline(always)]
            unsafe fn earlier<const K: usize>(before: $v, at: $v) -> $v {
                match K {
                    1 => $shifted::<{ $n - 1 }>(before, at),
                    2 => $shifted::<{ $n - 2 }>(before, at),
                    3 => $shifted::<{ $n - 3 }>(before, at),
                    _ => $shifted::<{ $n - 4 }>(before, at),
                }
            }
            #[inline(always)]
            unsafe fn later<const K: usize>(at: $v, after: $v) -> $v {
                match K {
                    1 => $shifted::<1>(at, after),
                    2 => $shifted::<2>(at, after),
                    3 => $shifted::<3>(at, after),
                    _ => $shifted::<4>(at, after),
                }
            }
        }
    };
}

/// Returns the values from the `K`th on of two vectors, one after the other.
#[inline(always)]
unsafe fn shifted16<const K: i32>(first: __m512, second: __m512) -> __m512 {
    let (first, second) = (_mm512_castps_si512(first), _mm512_castps_si512(second));
    _mm512_castsi512_ps(_mm512_alignr_epi32::<K>(second, first))
}

/// Returns the same for AVX2, whose byte shifts work within halves only.
#[inline(always)]
unsafe fn shifted8<const K: i32>(first: __m256, second: __m256) -> __m256 {
    let (first, second) = (_mm256_castps_si256(first), _mm256_castps_si256(second));
    let middle = _mm256_permute2x128_si256::<0x21>(first, second);
    _mm256_castsi256_ps(match K {
        1 => _mm256_alignr_epi8::<4>(middle, first),
        2 => _mm256_alignr_epi8::<8>(middle, first),
        3 => _mm256_alignr_epi8::<12>(middle, first),
        4 => middle,
        5 => _mm256_alignr_epi8::<4>(second, middle),
        6 => _mm256_alignr_epi8::<8>(second, middle),
        _ => _mm256_alignr_epi8::<12>(second, middle),
    })
}

#[inline(always)]
unsafe fn widened16(from: *const u16) -> __m512 {
    _mm512_cvtepi32_ps(_mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast())))
}

#[inline(always)]
unsafe fn widened8(from: *const u16) -> __m256 {
    _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast())))
}

/// AVX2 with FMA.
pub struct Avx2;
/// AVX-512 F and VL.
pub struct Avx512;

x86!(Avx2, __m256, 8,
    _mm256_loadu_ps _mm256_storeu_ps _mm256_stream_ps _mm256_set1_ps
    _mm256_add_ps _mm256_sub_ps _mm256_mul_ps _mm256_div_ps _mm256_fmadd_ps _mm256_fnmadd_ps shifted8 widened8);
x86!(Avx512, __m512, 16,
    _mm512_loadu_ps _mm512_storeu_ps _mm512_stream_ps _mm512_set1_ps
    _mm512_add_ps _mm512_sub_ps _mm512_mul_ps _mm512_div_ps _mm512_fmadd_ps _mm512_fnmadd_ps shifted16 widened16);
