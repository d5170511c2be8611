//! What a PTX text is once it is decoded.

use std::fmt;

/// A text that the assembler refuses: the line and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    pub line: u32,
    pub why: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

#[derive(Debug, Default)]
pub struct Module {
    /// `.version`, as (major, minor).
    pub version: (u32, u32),
    /// The number of `.target sm_NN`.
    pub target: u32,
    pub globals: Vec<Global>,
    pub kernels: Vec<Kernel>,
}

impl Module {
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }
}

/// A variable of the module in global or constant memory.
#[derive(Debug)]
pub struct Global {
    pub name: String,
    pub constant: bool,
    pub align: usize,
    /// As long as the variable.
    pub init: Vec<u8>,
}

/// Where a parameter lies in the parameter block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Param {
    pub offset: usize,
    pub size: usize,
}

#[derive(Debug, Default)]
pub struct Kernel {
    pub name: String,
    pub params: Vec<Param>,
    pub param_bytes: usize,
    /// Most threads of a block by `.maxntid` (or exactly that many by `.reqntid`).
    pub max_threads: Option<u32>,
    pub required: Option<[u32; 3]>,
    /// Static shared memory; dynamic shared memory begins behind it.
    pub shared_bytes: usize,
    pub local_bytes: usize,
    /// There are barriers of warps.
    pub(super) warps_meet: bool,
    pub(super) code: Vec<Ins>,
    pub(super) lines: Vec<u32>,
    /// Registers of each file: 32 bits (16 too), 64 bits, predicates.
    pub(super) files: [usize; 3],
    pub(super) init: Vec<(Slot, Source)>,
    /// Registers of vector loads and stores.
    pub(super) vectors: Vec<[u16; 4]>,
}

impl Kernel {
    /// Registers by the PTX: virtual ones, an upper bound of what an assembler would need.
    pub fn registers(&self) -> usize {
        (self.files[0] + 2 * self.files[1]).clamp(8, 64)
    }

    pub fn instructions(&self) -> usize {
        self.code.len()
    }
}

/// A register of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Slot {
    Narrow(u16),
    Wide(u16),
}

/// What a slot holds before the first instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Source {
    Constant(u64),
    /// Address of the module's variable of that index, plus an offset.
    Global(usize, i64),
    Special(Special),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    Lane,
    Warp,
    Warps,
    /// Masks of the lanes equal to, less than, at most, greater than, at least one's own.
    Mask(u8),
}

/// No guard, no second predicate.
pub(super) const NONE: u16 = u16::MAX;

/// One instruction. `d` is written, `a`, `b`, `c` are read; which file each belongs to
/// follows from `op`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ins {
    pub op: Op,
    /// Predicate, shifted left by one, plus one if it must be false; or [`NONE`].
    pub guard: u16,
    pub d: u16,
    pub a: u16,
    pub b: u16,
    pub c: u16,
    /// Offset of an address, target of a branch.
    pub imm: i64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cmp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Space {
    Global,
    Shared,
    Local,
    Param,
    /// Looked up by the address itself.
    Generic,
}

/// How a load or store touches memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub space: Space,
    /// Bytes of one element.
    pub width: u8,
    /// Elements: 1, 2 or 4; with more than one the registers are in `Kernel::vectors[d]`.
    pub count: u8,
    /// The register is of the 64-bit file.
    pub wide: bool,
    /// Loads: sign-extend to the register.
    pub signed: bool,
    /// Loads: the register has 16 bits.
    pub half: bool,
}

/// A function of one lane: raw bits in, raw bits out.
pub(super) type LaneFn = fn(u64, u64, u64) -> u64;

/// Which operands of a [`Op::Lane`] are of the 64-bit file: bit 0 d, 1 a, 2 b, 3 c.
pub(super) type Files = u8;

#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    Mov32,
    Mov64,
    AddF32,
    SubF32,
    MulF32,
    FmaF32,
    AddF64,
    SubF64,
    MulF64,
    FmaF64,
    Add32,
    Sub32,
    Mul32,
    Mad32,
    Add64,
    Sub64,
    Mul64,
    MulWideS,
    MulWideU,
    And32,
    Or32,
    Xor32,
    And64,
    Or64,
    Xor64,
    Shl32,
    Shl64,
    ShrU32,
    ShrS32,
    Extend,
    ZeroExtend,
    Truncate,
    Sel32,
    Sel64,
    CmpS32(Cmp),
    CmpU32(Cmp),
    CmpS64(Cmp),
    CmpU64(Cmp),
    CmpF32(Cmp),
    /// Any other comparison: `d` a predicate.
    CmpLane(LaneFn, Files),
    Lane(LaneFn, Files),
    /// `d = a op b` of predicates; the byte is the truth table, bit (a + 2 b).
    Pred(u8),
    /// A predicate that is always true (`imm` 1) or false.
    PredConst,
    LdParam(Access),
    Ld(Access),
    St(Access),
    /// So many bytes from global memory at `b` into shared memory at `a`, both with nothing added, some time before it is waited for.
    Copy(u8),
    /// The copies of a thread since its last one are a group.
    EndGroup,
    /// Until all groups but the last `imm` are there; negative: all copies.
    WaitCopies,
    /// Reads, changes and writes; `d` may be [`NONE`] (red). `b`, `c` are the operands.
    Atom(LaneFn, Access),
    Bra,
    Bar,
    /// 0 popc, 1 and, 2 or, over predicate `a` (shifted, inverted by bit 0).
    BarRed(u8),
    /// 0 up, 1 down, 2 bfly, 3 idx; `imm` the second destination (a predicate) or NONE.
    Shfl(u8),
    /// 0 all, 1 any, 2 uni, 3 ballot; `a` a predicate, `b` the member mask.
    Vote(u8),
    ActiveMask,
    Nop,
    Exit,
    Trap,
}
