//! The instructions that only read and write registers.

use super::program::{Cmp, Op};

/// Returns the operation of an opcode and the files of its operands, the destination first: `n` 32 bits (16 too),
/// `w` 64 bits, `p` predicates. The list has what the shipped kernels and the tests use.
pub(super) fn simple(opcode: &str) -> Option<(Op, &'static str)> {
    if let Some(compared) = opcode.strip_prefix("setp.") {
        return compare(compared);
    }
    Some(match opcode {
        "mov.u16" | "mov.u32" | "mov.b32" | "mov.f32" => (Op::Mov32, "nn"),
        "mov.u64" | "mov.b64" | "cvta.to.global.u64" => (Op::Mov64, "ww"),
        "add.rn.f32" => (Op::AddF32, "nnn"),
        "sub.rn.f32" => (Op::SubF32, "nnn"),
        "mul.rn.f32" => (Op::MulF32, "nnn"),
        "fma.rn.f32" => (Op::FmaF32, "nnnn"),
        "neg.f32" => (Op::NegF32, "nn"),
        "add.rn.ftz.f32" => (Op::AddFtz, "nnn"),
        "sub.rn.ftz.f32" => (Op::SubFtz, "nnn"),
        "mul.rn.ftz.f32" => (Op::MulFtz, "nnn"),
        "fma.rn.ftz.f32" => (Op::FmaFtz, "nnnn"),
        "neg.ftz.f32" => (Op::NegFtz, "nn"),
        "add.s32" => (Op::Add32, "nnn"),
        "sub.s32" => (Op::Sub32, "nnn"),
        "mul.lo.s32" => (Op::Mul32, "nnn"),
        "mad.lo.s32" => (Op::Mad32, "nnnn"),
        "min.s32" => (Op::MinS32, "nnn"),
        "max.s32" => (Op::MaxS32, "nnn"),
        "max.u32" => (Op::MaxU32, "nnn"),
        "and.b32" => (Op::And32, "nnn"),
        "or.b32" => (Op::Or32, "nnn"),
        "not.b32" => (Op::Not32, "nn"),
        "shl.b32" => (Op::Shl32, "nnn"),
        "shr.s32" => (Op::ShrS32, "nnn"),
        "shr.u32" => (Op::ShrU32, "nnn"),
        "selp.b32" | "selp.f32" | "selp.u32" => (Op::Sel32, "nnnp"),
        "add.s64" => (Op::Add64, "www"),
        "sub.s64" => (Op::Sub64, "www"),
        "mul.lo.s64" => (Op::Mul64, "www"),
        "and.b64" => (Op::And64, "www"),
        "shl.b64" => (Op::Shl64, "wwn"),
        "selp.b64" => (Op::Sel64, "wwwp"),
        "mul.wide.s32" => (Op::MulWideS, "wnn"),
        "mul.wide.u32" => (Op::MulWideU, "wnn"),
        "cvt.s64.s32" => (Op::Extend, "wn"),
        "cvt.u64.u32" => (Op::ZeroExtend, "wn"),
        "cvt.u32.u64" => (Op::Truncate, "nw"),
        "cvt.rn.f32.u16" => (Op::FloatU16, "nn"),
        "and.pred" => (Op::AndPred, "ppp"),
        "or.pred" => (Op::OrPred, "ppp"),
        "not.pred" => (Op::NotPred, "pp"),
        _ => return None,
    })
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
        _ => return None,
    })
}
