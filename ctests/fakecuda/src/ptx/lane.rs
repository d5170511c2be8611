//! What an instruction does to one lane, for the instructions that are not worth a loop of
//! their own. Values travel as raw bits in the low end of a `u64`.

use super::program::LaneFn;

/// A type of PTX: `.b32` and `.u32` are the same to us.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Ty {
    U8,
    S8,
    U16,
    S16,
    U32,
    S32,
    U64,
    S64,
    F32,
    F64,
    Pred,
}

impl Ty {
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "u8" | "b8" => Ty::U8,
            "s8" => Ty::S8,
            "u16" | "b16" => Ty::U16,
            "s16" => Ty::S16,
            "u32" | "b32" => Ty::U32,
            "s32" => Ty::S32,
            "u64" | "b64" => Ty::U64,
            "s64" => Ty::S64,
            "f32" => Ty::F32,
            "f64" => Ty::F64,
            "pred" => Ty::Pred,
            _ => return None,
        })
    }

    pub fn bytes(self) -> usize {
        match self {
            Ty::U8 | Ty::S8 | Ty::Pred => 1,
            Ty::U16 | Ty::S16 => 2,
            Ty::U32 | Ty::S32 | Ty::F32 => 4,
            Ty::U64 | Ty::S64 | Ty::F64 => 8,
        }
    }

    pub fn wide(self) -> bool {
        self.bytes() == 8
    }

    pub fn signed(self) -> bool {
        matches!(self, Ty::S8 | Ty::S16 | Ty::S32 | Ty::S64)
    }

    pub fn float(self) -> bool {
        matches!(self, Ty::F32 | Ty::F64)
    }
}

trait Bits: Copy + PartialOrd {
    fn of(bits: u64) -> Self;
    fn bits(self) -> u64;
}

trait Int: Bits + Eq + Ord {
    const BITS: u32;
    fn add(self, o: Self) -> Self;
    fn sub(self, o: Self) -> Self;
    fn mul(self, o: Self) -> Self;
    fn div(self, o: Self) -> Self;
    fn rem(self, o: Self) -> Self;
    fn high(self, o: Self) -> Self;
    fn neg(self) -> Self;
    fn abs(self) -> Self;
    fn shr(self, by: u32) -> Self;
    fn wide(self) -> i128;
}

macro_rules! int {
    ($($t:ident as $u:ident $abs:expr;)*) => { $(
        impl Bits for $t {
            #[inline(always)]
            fn of(bits: u64) -> Self { bits as $t }
            #[inline(always)]
            fn bits(self) -> u64 { self as $u as u64 }
        }
        impl Int for $t {
            const BITS: u32 = $t::BITS;
            fn add(self, o: Self) -> Self { self.wrapping_add(o) }
            fn sub(self, o: Self) -> Self { self.wrapping_sub(o) }
            fn mul(self, o: Self) -> Self { self.wrapping_mul(o) }
            // Division by zero gives all ones on a card, whatever the type.
            fn div(self, o: Self) -> Self { if o == 0 { !0 } else { self.wrapping_div(o) } }
            fn rem(self, o: Self) -> Self { if o == 0 { self } else { self.wrapping_rem(o) } }
            fn high(self, o: Self) -> Self { ((self as i128).wrapping_mul(o as i128) >> $t::BITS) as $t }
            fn neg(self) -> Self { self.wrapping_neg() }
            fn abs(self) -> Self { $abs(self) }
            fn shr(self, by: u32) -> Self { if by >= $t::BITS { if self.wide() < 0 { !0 } else { 0 } } else { self >> by } }
            fn wide(self) -> i128 { self as i128 }
        }
    )* };
}
int! {
    u8 as u8 |x| x; u16 as u16 |x| x; u32 as u32 |x| x; u64 as u64 |x| x;
    i8 as u8 i8::wrapping_abs; i16 as u16 i16::wrapping_abs; i32 as u32 i32::wrapping_abs; i64 as u64 i64::wrapping_abs;
}

trait Float: Bits {
    fn add(self, o: Self) -> Self;
    fn sub(self, o: Self) -> Self;
    fn mul(self, o: Self) -> Self;
    fn div(self, o: Self) -> Self;
    fn fma(self, m: Self, o: Self) -> Self;
    fn min(self, o: Self) -> Self;
    fn max(self, o: Self) -> Self;
    fn neg(self) -> Self;
    fn abs(self) -> Self;
    fn wide(self) -> f64;
    fn narrow(x: f64) -> Self;
    fn sqrt(self) -> Self;
}

macro_rules! float {
    ($($t:ident $u:ident;)*) => { $(
        impl Bits for $t {
            #[inline(always)]
            fn of(bits: u64) -> Self { $t::from_bits(bits as $u) }
            #[inline(always)]
            fn bits(self) -> u64 { self.to_bits() as u64 }
        }
        impl Float for $t {
            fn add(self, o: Self) -> Self { self + o }
            fn sub(self, o: Self) -> Self { self - o }
            fn mul(self, o: Self) -> Self { self * o }
            fn div(self, o: Self) -> Self { self / o }
            fn fma(self, m: Self, o: Self) -> Self { self.mul_add(m, o) }
            // A NaN yields to a number; of two zeros the minimum is the negative one.
            fn min(self, o: Self) -> Self {
                if self.is_nan() { o } else if o.is_nan() { self }
                else if self == o { if self.is_sign_negative() { self } else { o } }
                else if self < o { self } else { o }
            }
            fn max(self, o: Self) -> Self {
                if self.is_nan() { o } else if o.is_nan() { self }
                else if self == o { if self.is_sign_negative() { o } else { self } }
                else if self > o { self } else { o }
            }
            fn neg(self) -> Self { -self }
            fn abs(self) -> Self { $t::abs(self) }
            fn wide(self) -> f64 { self as f64 }
            fn narrow(x: f64) -> Self { x as $t }
            fn sqrt(self) -> Self { $t::sqrt(self) }
        }
    )* };
}
float! { f32 u32; f64 u64; }

fn i_add<T: Int>(a: u64, b: u64, _: u64) -> u64 {
    T::of(a).add(T::of(b)).bits()
}
fn i_sub<T: Int>(a: u64, b: u64, _: u64) -> u64 {
    T::of(a).sub(T::of(b)).bits()
}
fn i_mul<T: Int>(a: u64, b: u64, _: u64) -> u64 {
    T::of(a).mul(T::of(b)).bits()
}
fn i_div<T: Int>(a: u64, b: u64, _: u64) -> u64 {
    T::of(a).div(T::of(b)).bits()
}
fn i_rem<T: Int>(a: u64, b: u64, _: u64) -> u64 {
    T::of(a).rem(T::of(b)).bits()
}
fn i_high<T: Int>(a: u64, b: u64, _: u64) -> u64 {
    T::of(a).high(T::of(b)).bits()
}
fn i_min<T: Int>(a: u64, b: u64, _: u64) -> u64 {
    T::of(a).min(T::of(b)).bits()
}
fn i_max<T: Int>(a: u64, b: u64, _: u64) -> u64 {
    T::of(a).max(T::of(b)).bits()
}
fn i_neg<T: Int>(a: u64, _: u64, _: u64) -> u64 {
    T::of(a).neg().bits()
}
fn i_abs<T: Int>(a: u64, _: u64, _: u64) -> u64 {
    T::of(a).abs().bits()
}
fn i_mad<T: Int>(a: u64, b: u64, c: u64) -> u64 {
    T::of(a).mul(T::of(b)).add(T::of(c)).bits()
}
fn i_mad_high<T: Int>(a: u64, b: u64, c: u64) -> u64 {
    T::of(a).high(T::of(b)).add(T::of(c)).bits()
}
fn i_sad<T: Int>(a: u64, b: u64, c: u64) -> u64 {
    let (a, b) = (T::of(a), T::of(b));
    (if a < b { b.sub(a) } else { a.sub(b) }).add(T::of(c)).bits()
}
fn i_mul_wide<T: Int>(a: u64, b: u64, _: u64) -> u64 {
    (T::of(a).wide() * T::of(b).wide()) as u64 & mask(2 * T::BITS)
}
fn i_mad_wide<T: Int>(a: u64, b: u64, c: u64) -> u64 {
    ((T::of(a).wide() * T::of(b).wide()) as u64).wrapping_add(c) & mask(2 * T::BITS)
}
fn i_not<T: Int>(a: u64, _: u64, _: u64) -> u64 {
    !a & mask(T::BITS)
}
fn i_cnot<T: Int>(a: u64, _: u64, _: u64) -> u64 {
    u64::from(a & mask(T::BITS) == 0)
}
fn i_and<T: Int>(a: u64, b: u64, _: u64) -> u64 {
    a & b & mask(T::BITS)
}
fn i_or<T: Int>(a: u64, b: u64, _: u64) -> u64 {
    (a | b) & mask(T::BITS)
}
fn i_xor<T: Int>(a: u64, b: u64, _: u64) -> u64 {
    (a ^ b) & mask(T::BITS)
}
fn i_shl<T: Int>(a: u64, b: u64, _: u64) -> u64 {
    if b as u32 >= T::BITS { 0 } else { (a << b as u32) & mask(T::BITS) }
}
fn i_shr<T: Int>(a: u64, b: u64, _: u64) -> u64 {
    T::of(a).shr(b as u32).bits()
}
fn i_popc<T: Int>(a: u64, _: u64, _: u64) -> u64 {
    (a & mask(T::BITS)).count_ones().into()
}
fn i_clz<T: Int>(a: u64, _: u64, _: u64) -> u64 {
    ((a & mask(T::BITS)).leading_zeros() - (64 - T::BITS)).into()
}
fn i_brev<T: Int>(a: u64, _: u64, _: u64) -> u64 {
    a.reverse_bits() >> (64 - T::BITS)
}
/// The highest bit that differs from the sign; all ones if there is none.
fn i_bfind<T: Int>(a: u64, _: u64, _: u64) -> u64 {
    let x = if T::of(a).wide() < 0 { !a } else { a } & mask(T::BITS);
    if x == 0 { u32::MAX.into() } else { (63 - x.leading_zeros()).into() }
}
fn i_bfind_shift<T: Int>(a: u64, _: u64, _: u64) -> u64 {
    let x = if T::of(a).wide() < 0 { !a } else { a } & mask(T::BITS);
    if x == 0 { u32::MAX.into() } else { (x.leading_zeros() - (64 - T::BITS)).into() }
}
fn i_bfe<T: Int>(a: u64, b: u64, c: u64) -> u64 {
    let (pos, len, bits) = ((b & 0xff) as u32, (c & 0xff) as u32, T::BITS);
    let signed = T::of(mask(bits)).wide() < 0;
    let sign = if !signed || len == 0 { 0 } else { a >> (pos + len - 1).min(bits - 1) & 1 };
    let field = if pos >= bits { 0 } else { (a & mask(bits)) >> pos };
    let got = bits.saturating_sub(pos).min(len);
    let value = field & mask(got);
    (if sign == 1 { value | !mask(got) } else { value }) & mask(bits)
}
fn f_add<T: Float>(a: u64, b: u64, _: u64) -> u64 {
    T::of(a).add(T::of(b)).bits()
}
fn f_sub<T: Float>(a: u64, b: u64, _: u64) -> u64 {
    T::of(a).sub(T::of(b)).bits()
}
fn f_mul<T: Float>(a: u64, b: u64, _: u64) -> u64 {
    T::of(a).mul(T::of(b)).bits()
}
fn f_div<T: Float>(a: u64, b: u64, _: u64) -> u64 {
    T::of(a).div(T::of(b)).bits()
}
fn f_fma<T: Float>(a: u64, b: u64, c: u64) -> u64 {
    T::of(a).fma(T::of(b), T::of(c)).bits()
}
fn f_min<T: Float>(a: u64, b: u64, _: u64) -> u64 {
    T::of(a).min(T::of(b)).bits()
}
fn f_max<T: Float>(a: u64, b: u64, _: u64) -> u64 {
    T::of(a).max(T::of(b)).bits()
}
fn f_neg<T: Float>(a: u64, _: u64, _: u64) -> u64 {
    T::of(a).neg().bits()
}
fn f_abs<T: Float>(a: u64, _: u64, _: u64) -> u64 {
    T::of(a).abs().bits()
}
fn f_sqrt<T: Float>(a: u64, _: u64, _: u64) -> u64 {
    T::of(a).sqrt().bits()
}
fn f_rcp<T: Float>(a: u64, _: u64, _: u64) -> u64 {
    T::narrow(1.0).div(T::of(a)).bits()
}
fn f_rsqrt<T: Float>(a: u64, _: u64, _: u64) -> u64 {
    T::narrow(1.0 / T::of(a).wide().sqrt()).bits()
}
fn f_sin<T: Float>(a: u64, _: u64, _: u64) -> u64 {
    T::narrow(T::of(a).wide().sin()).bits()
}
fn f_cos<T: Float>(a: u64, _: u64, _: u64) -> u64 {
    T::narrow(T::of(a).wide().cos()).bits()
}
fn f_ex2<T: Float>(a: u64, _: u64, _: u64) -> u64 {
    T::narrow(T::of(a).wide().exp2()).bits()
}
fn f_lg2<T: Float>(a: u64, _: u64, _: u64) -> u64 {
    T::narrow(T::of(a).wide().log2()).bits()
}
fn f_copysign<T: Float>(a: u64, b: u64, _: u64) -> u64 {
    // The sign of the first operand, the value of the second.
    let positive = T::of(b).abs();
    (if T::of(a).bits() >> (size_of::<T>() * 8 - 1) == 1 { positive.neg() } else { positive }).bits()
}

fn prmt(a: u64, b: u64, c: u64) -> u64 {
    let bytes = (a & 0xffff_ffff) | b << 32;
    (0..4).fold(0, |out, k| {
        let pick = c >> (4 * k);
        let byte = bytes >> (8 * (pick & 7)) & 0xff;
        let byte = if pick & 8 == 0 { byte } else { 0xff * (byte >> 7) };
        out | byte << (8 * k)
    })
}
fn shf_l_wrap(a: u64, b: u64, c: u64) -> u64 {
    (((b << 32 | (a & 0xffff_ffff)) << (c & 31)) >> 32) & 0xffff_ffff
}
fn shf_l_clamp(a: u64, b: u64, c: u64) -> u64 {
    ((u128::from(b << 32 | (a & 0xffff_ffff)) << (c as u32).min(32)) >> 32) as u32 as u64
}
fn shf_r_wrap(a: u64, b: u64, c: u64) -> u64 {
    ((b << 32 | (a & 0xffff_ffff)) >> (c & 31)) & 0xffff_ffff
}
fn shf_r_clamp(a: u64, b: u64, c: u64) -> u64 {
    ((b << 32 | (a & 0xffff_ffff)) >> (c as u32).min(32)) & 0xffff_ffff
}
/// Inserts the low bits of `a` into `b`; position and length are packed into `c`.
fn bfi32(a: u64, b: u64, c: u64) -> u64 {
    bfi(a, b, c, 32)
}
fn bfi64(a: u64, b: u64, c: u64) -> u64 {
    bfi(a, b, c, 64)
}
fn bfi(a: u64, b: u64, c: u64, bits: u32) -> u64 {
    let (pos, len) = ((c & 0xff) as u32, (c >> 8 & 0xff) as u32);
    if pos >= bits {
        return b;
    }
    let field = mask(len.min(bits - pos)) << pos;
    (b & !field | (a << pos) & field) & mask(bits)
}
fn exch(_: u64, b: u64, _: u64) -> u64 {
    b
}
fn cas(a: u64, b: u64, c: u64) -> u64 {
    if a == b { c } else { a }
}
fn inc(a: u64, b: u64, _: u64) -> u64 {
    if a >= b { 0 } else { a + 1 }
}
fn dec(a: u64, b: u64, _: u64) -> u64 {
    if a == 0 || a > b { b } else { a - 1 }
}

/// The lowest `bits` bits.
pub(super) fn mask(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

macro_rules! ints {
    ($ty:expr, $f:ident) => {
        match $ty {
            Ty::U8 => $f::<u8>,
            Ty::S8 => $f::<i8>,
            Ty::U16 => $f::<u16>,
            Ty::S16 => $f::<i16>,
            Ty::U32 => $f::<u32>,
            Ty::S32 => $f::<i32>,
            Ty::U64 => $f::<u64>,
            Ty::S64 => $f::<i64>,
            _ => return None,
        }
    };
}
macro_rules! floats {
    ($ty:expr, $f:ident) => {
        match $ty {
            Ty::F32 => $f::<f32>,
            Ty::F64 => $f::<f64>,
            _ => return None,
        }
    };
}
macro_rules! both {
    ($ty:expr, $i:ident, $f:ident) => {
        match $ty {
            Ty::F32 => $f::<f32>,
            Ty::F64 => $f::<f64>,
            other => ints!(other, $i),
        }
    };
}

/// The function of an arithmetic instruction, by the name without its modifiers.
pub(super) fn arithmetic(name: &str, ty: Ty) -> Option<LaneFn> {
    Some(match name {
        "add" => both!(ty, i_add, f_add),
        "sub" => both!(ty, i_sub, f_sub),
        "mul" => both!(ty, i_mul, f_mul),
        "mul.hi" => ints!(ty, i_high),
        "mul.wide" => ints!(ty, i_mul_wide),
        "mad" => both!(ty, i_mad, f_fma),
        "mad.hi" => ints!(ty, i_mad_high),
        "mad.wide" => ints!(ty, i_mad_wide),
        "fma" => floats!(ty, f_fma),
        "div" => both!(ty, i_div, f_div),
        "rem" => ints!(ty, i_rem),
        "sad" => ints!(ty, i_sad),
        "min" => both!(ty, i_min, f_min),
        "max" => both!(ty, i_max, f_max),
        "neg" => both!(ty, i_neg, f_neg),
        "abs" => both!(ty, i_abs, f_abs),
        "not" => ints!(ty, i_not),
        "cnot" => ints!(ty, i_cnot),
        "and" => ints!(ty, i_and),
        "or" => ints!(ty, i_or),
        "xor" => ints!(ty, i_xor),
        "shl" => ints!(ty, i_shl),
        "shr" => ints!(ty, i_shr),
        "popc" => ints!(ty, i_popc),
        "clz" => ints!(ty, i_clz),
        "brev" => ints!(ty, i_brev),
        "bfind" => ints!(ty, i_bfind),
        "bfind.shiftamt" => ints!(ty, i_bfind_shift),
        "bfe" => ints!(ty, i_bfe),
        "bfi" => {
            if ty.wide() {
                bfi64
            } else {
                bfi32
            }
        }
        "prmt" => prmt,
        "shf.l.wrap" => shf_l_wrap,
        "shf.l.clamp" => shf_l_clamp,
        "shf.r.wrap" => shf_r_wrap,
        "shf.r.clamp" => shf_r_clamp,
        "sqrt" => floats!(ty, f_sqrt),
        "rcp" => floats!(ty, f_rcp),
        "rsqrt" => floats!(ty, f_rsqrt),
        "sin" => floats!(ty, f_sin),
        "cos" => floats!(ty, f_cos),
        "ex2" => floats!(ty, f_ex2),
        "lg2" => floats!(ty, f_lg2),
        "copysign" => floats!(ty, f_copysign),
        _ => return None,
    })
}

/// The function of an atomic: what was there, and the operands, give what shall be there.
pub(super) fn atomic(name: &str, ty: Ty) -> Option<LaneFn> {
    Some(match name {
        "add" | "min" | "max" | "and" | "or" | "xor" => arithmetic(name, ty)?,
        "exch" => exch,
        "cas" => cas,
        "inc" if ty == Ty::U32 => inc,
        "dec" if ty == Ty::U32 => dec,
        _ => return None,
    })
}

fn c_eq<T: Bits>(a: u64, b: u64, _: u64) -> u64 {
    (T::of(a) == T::of(b)).into()
}
fn c_ne<T: Bits>(a: u64, b: u64, _: u64) -> u64 {
    matches!(T::of(a).partial_cmp(&T::of(b)), Some(o) if o.is_ne()).into()
}
fn c_lt<T: Bits>(a: u64, b: u64, _: u64) -> u64 {
    (T::of(a) < T::of(b)).into()
}
fn c_le<T: Bits>(a: u64, b: u64, _: u64) -> u64 {
    (T::of(a) <= T::of(b)).into()
}
fn c_gt<T: Bits>(a: u64, b: u64, _: u64) -> u64 {
    (T::of(a) > T::of(b)).into()
}
fn c_ge<T: Bits>(a: u64, b: u64, _: u64) -> u64 {
    (T::of(a) >= T::of(b)).into()
}
// The unordered ones: also true if either is no number.
fn c_equ<T: Bits>(a: u64, b: u64, _: u64) -> u64 {
    (!matches!(T::of(a).partial_cmp(&T::of(b)), Some(o) if o.is_ne())).into()
}
fn c_neu<T: Bits>(a: u64, b: u64, _: u64) -> u64 {
    (T::of(a) != T::of(b)).into()
}
fn c_ltu<T: Bits>(a: u64, b: u64, _: u64) -> u64 {
    (!matches!(T::of(a).partial_cmp(&T::of(b)), Some(o) if o.is_ge())).into()
}
fn c_leu<T: Bits>(a: u64, b: u64, _: u64) -> u64 {
    (!matches!(T::of(a).partial_cmp(&T::of(b)), Some(o) if o.is_gt())).into()
}
fn c_gtu<T: Bits>(a: u64, b: u64, _: u64) -> u64 {
    (!matches!(T::of(a).partial_cmp(&T::of(b)), Some(o) if o.is_le())).into()
}
fn c_geu<T: Bits>(a: u64, b: u64, _: u64) -> u64 {
    (!matches!(T::of(a).partial_cmp(&T::of(b)), Some(o) if o.is_lt())).into()
}
fn c_num<T: Bits>(a: u64, b: u64, _: u64) -> u64 {
    T::of(a).partial_cmp(&T::of(b)).is_some().into()
}
fn c_nan<T: Bits>(a: u64, b: u64, _: u64) -> u64 {
    T::of(a).partial_cmp(&T::of(b)).is_none().into()
}

pub(super) fn comparison(name: &str, ty: Ty) -> Option<LaneFn> {
    Some(match name {
        "eq" => both!(ty, c_eq, c_eq),
        "ne" => both!(ty, c_ne, c_ne),
        "lt" | "lo" => both!(ty, c_lt, c_lt),
        "le" | "ls" => both!(ty, c_le, c_le),
        "gt" | "hi" => both!(ty, c_gt, c_gt),
        "ge" | "hs" => both!(ty, c_ge, c_ge),
        "equ" => floats!(ty, c_equ),
        "neu" => floats!(ty, c_neu),
        "ltu" => floats!(ty, c_ltu),
        "leu" => floats!(ty, c_leu),
        "gtu" => floats!(ty, c_gtu),
        "geu" => floats!(ty, c_geu),
        "num" => floats!(ty, c_num),
        "nan" => floats!(ty, c_nan),
        _ => return None,
    })
}

fn ii<D: Int, S: Int>(a: u64, _: u64, _: u64) -> u64 {
    D::of(S::of(a).wide() as u64).bits()
}
fn fi<D: Float, S: Int>(a: u64, _: u64, _: u64) -> u64 {
    // Straight to f32: by way of f64 a 64-bit integer would be rounded twice.
    let x = S::of(a).wide();
    if size_of::<D>() == 4 { (x as f32).to_bits().into() } else { (x as f64).to_bits() }
}
fn ff<D: Float, S: Float>(a: u64, _: u64, _: u64) -> u64 {
    D::narrow(S::of(a).wide()).bits()
}
fn round<S: Float>(a: u64, _: u64, mode: u64) -> u64 {
    S::narrow(rounded(S::of(a).wide(), mode)).bits()
}
fn rounded(x: f64, mode: u64) -> f64 {
    match mode {
        0 => x.round_ties_even(),
        1 => x.trunc(),
        2 => x.floor(),
        _ => x.ceil(),
    }
}
fn if_<D: Int, S: Float>(a: u64, _: u64, mode: u64) -> u64 {
    let x = rounded(S::of(a).wide(), mode);
    let signed = D::of(mask(D::BITS)).wide() < 0;
    // Saturates; no number becomes zero, or the lowest of the 64-bit types.
    match (D::BITS, signed) {
        (64, true) => {
            if x.is_nan() {
                i64::MIN as u64
            } else {
                x as i64 as u64
            }
        }
        (64, false) => {
            if x.is_nan() {
                1 << 63
            } else {
                x as u64
            }
        }
        (32, true) => x as i32 as u32 as u64,
        (32, false) => (x as u32).into(),
        (16, true) => x as i16 as u16 as u64,
        (16, false) => (x as u16).into(),
        (_, true) => x as i8 as u8 as u64,
        _ => (x as u8).into(),
    }
}

macro_rules! pair {
    ($d:expr, $ds:ident, $s:expr, $ss:ident, $f:ident) => {
        $ds!(@ $d, $s, $ss, $f)
    };
}
macro_rules! to_int {
    (@ $d:expr, $s:expr, $ss:ident, $f:ident) => {
        match $d {
            Ty::U8 => $ss!($s, $f, u8),
            Ty::S8 => $ss!($s, $f, i8),
            Ty::U16 => $ss!($s, $f, u16),
            Ty::S16 => $ss!($s, $f, i16),
            Ty::U32 => $ss!($s, $f, u32),
            Ty::S32 => $ss!($s, $f, i32),
            Ty::U64 => $ss!($s, $f, u64),
            Ty::S64 => $ss!($s, $f, i64),
            _ => return None,
        }
    };
}
macro_rules! to_float {
    (@ $d:expr, $s:expr, $ss:ident, $f:ident) => {
        match $d {
            Ty::F32 => $ss!($s, $f, f32),
            Ty::F64 => $ss!($s, $f, f64),
            _ => return None,
        }
    };
}
macro_rules! from_int {
    ($s:expr, $f:ident, $d:ident) => {
        match $s {
            Ty::U8 => $f::<$d, u8> as LaneFn,
            Ty::S8 => $f::<$d, i8>,
            Ty::U16 => $f::<$d, u16>,
            Ty::S16 => $f::<$d, i16>,
            Ty::U32 => $f::<$d, u32>,
            Ty::S32 => $f::<$d, i32>,
            Ty::U64 => $f::<$d, u64>,
            Ty::S64 => $f::<$d, i64>,
            _ => return None,
        }
    };
}
macro_rules! from_float {
    ($s:expr, $f:ident, $d:ident) => {
        match $s {
            Ty::F32 => $f::<$d, f32> as LaneFn,
            Ty::F64 => $f::<$d, f64>,
            _ => return None,
        }
    };
}

/// The function of `cvt` and its third operand, the rounding (0 even, 1 zero, 2 down, 3 up).
pub(super) fn conversion(to: Ty, from: Ty, rounding: &str) -> Option<(LaneFn, u64)> {
    let mode = match rounding {
        "" | "rn" | "rni" => 0,
        "rzi" => 1,
        "rmi" => 2,
        "rpi" => 3,
        _ => return None,
    };
    let f: LaneFn = match (to.float(), from.float()) {
        (false, false) => pair!(to, to_int, from, from_int, ii),
        (true, false) => pair!(to, to_float, from, from_int, fi),
        (false, true) => pair!(to, to_int, from, from_float, if_),
        (true, true) if to == from && rounding.len() == 3 => floats!(to, round),
        (true, true) => pair!(to, to_float, from, from_float, ff),
    };
    Some((f, mode))
}
