//! The operations, and the opcodes of those that only read and write registers.

use super::program::{Access, Cmp};

macro_rules! operations {
    ($( $op:ident $files:literal: $($opcode:literal)|+; )*) => {
        #[derive(Clone, Copy, Debug)]
        pub(super) enum Op {
            $($op,)*
            CmpS32(Cmp),
            CmpU32(Cmp),
            CmpS64(Cmp),
            Ld(Access),
            St(Access),
            /// `d` gets the value in global memory at `a`. The greater of that value and `b`,
            /// unsigned, replaces it.
            AtomicMax,
            /// Adds `b` to the value of 64 bits in global memory at `a`. `d` gets the value before.
            AtomicAdd,
            Bra,
            Bar,
            Exit,
            Trap,
        }

        /// Returns an opcode's operation and operands, the destination first: `n` 32 bits (or 16),
        /// `w` 64, `p` predicates.
        pub(super) fn simple(opcode: &str) -> Option<(Op, &'static str)> {
            if let Some(compared) = opcode.strip_prefix("setp.") {
                return compare(compared);
            }
            Some(match opcode {
                $( $($opcode)|+ => (Op::$op, $files), )*
                _ => return None,
            })
        }
    };
}

// The opcodes of the shipped kernels, the tests and the examples. Those without `ftz` occur in the
// texts from which tests/kernels has removed it.
operations! {
    Mov32 "nn": "mov.u16" | "mov.u32" | "mov.b32" | "mov.f32";
    Mov64 "ww": "mov.u64" | "mov.b64" | "cvta.to.global.u64";
    AddF32 "nnn": "add.rn.f32";
    SubF32 "nnn": "sub.rn.f32";
    MulF32 "nnn": "mul.rn.f32";
    FmaF32 "nnnn": "fma.rn.f32";
    NegF32 "nn": "neg.f32";
    AddFtz "nnn": "add.rn.ftz.f32";
    SubFtz "nnn": "sub.rn.ftz.f32";
    MulFtz "nnn": "mul.rn.ftz.f32";
    FmaFtz "nnnn": "fma.rn.ftz.f32";
    NegFtz "nn": "neg.ftz.f32";
    RcpF32 "nn": "rcp.approx.f32";
    RcpFtz "nn": "rcp.approx.ftz.f32";
    Add32 "nnn": "add.s32";
    Sub32 "nnn": "sub.s32";
    Mul32 "nnn": "mul.lo.s32";
    Mad32 "nnnn": "mad.lo.s32";
    MinS32 "nnn": "min.s32";
    MaxS32 "nnn": "max.s32";
    MaxU32 "nnn": "max.u32";
    And32 "nnn": "and.b32";
    Or32 "nnn": "or.b32";
    Neg32 "nn": "neg.s32";
    Not32 "nn": "not.b32";
    Shl32 "nnn": "shl.b32";
    Bits32 "nnnn": "bfe.u32";
    ShrS32 "nnn": "shr.s32";
    ShrU32 "nnn": "shr.u32";
    Sel32 "nnnp": "selp.b32" | "selp.f32" | "selp.u32" | "selp.s32" | "selp.u16";
    Add64 "www": "add.s64";
    Sub64 "www": "sub.s64";
    Mul64 "www": "mul.lo.s64";
    And64 "www": "and.b64";
    Shl64 "wwn": "shl.b64";
    Sel64 "wwwp": "selp.b64";
    MulWideS "wnn": "mul.wide.s32";
    MulWideU "wnn": "mul.wide.u32";
    Extend "wn": "cvt.s64.s32";
    ZeroExtend "wn": "cvt.u64.u32";
    Truncate "nw": "cvt.u32.u64";
    FloatU16 "nn": "cvt.rn.f32.u16";
    AndPred "ppp": "and.pred";
    OrPred "ppp": "or.pred";
    NotPred "pp": "not.pred";
}

fn compare(name: &str) -> Option<(Op, &'static str)> {
    let (relation, ty) = name.split_once('.')?;
    let cmp = match relation {
        "eq" => Cmp::Eq,
        "ne" => Cmp::Ne,
        "lt" => Cmp::Lt,
        "le" => Cmp::Le,
        "gt" => Cmp::Gt,
        "ge" => Cmp::Ge,
        _ => return None,
    };
    Some(match ty {
        "s32" => (Op::CmpS32(cmp), "pnn"),
        "u32" => (Op::CmpU32(cmp), "pnn"),
        "s64" => (Op::CmpS64(cmp), "pww"),
        // Registers hold 16 bits without a sign; `b32` has none.
        "s16" | "b32" if matches!(cmp, Cmp::Eq | Cmp::Ne) => (Op::CmpU32(cmp), "pnn"),
        _ => return None,
    })
}
