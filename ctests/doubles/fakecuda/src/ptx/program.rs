//! A decoded PTX text.

use std::fmt;

use super::simple::Op;

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
    pub version: (u32, u32),
    pub target: u32,
    pub kernels: Vec<Kernel>,
}

impl Module {
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }
}

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
    pub max_threads: Option<u32>,
    pub shared_bytes: usize,
    pub(super) code: Vec<Ins>,
    pub(super) lines: Vec<u32>,
    /// Number of registers of each file: 32 bits (16 too), 64 bits, predicates.
    pub(super) files: [usize; 3],
    pub(super) init: Vec<(Reg, Source)>,
}

impl Kernel {
    /// Number of registers in the PTX: virtual ones, an upper bound of the number that an assembler
    /// would need.
    pub fn registers(&self) -> usize {
        (self.files[0] + 2 * self.files[1]).clamp(8, 64)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Reg {
    Narrow(u16),
    Wide(u16),
    Pred(u16),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Source {
    Constant(u64),
    Special(Special, usize),
}

/// A register of the hardware, with its axis in a [`Source`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Special {
    Tid,
    Ntid,
    Ctaid,
    Nctaid,
}

pub(super) const NONE: u16 = u16::MAX;

/// An instruction. It writes `d` and reads `a`, `b`, `c`; `op` determines the register file of
/// each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ins {
    pub op: Op,
    /// Predicate, shifted left by one, plus one if it must be false; or [`NONE`].
    pub guard: u16,
    pub d: u16,
    pub a: u16,
    pub b: u16,
    pub c: u16,
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
    Param,
}

/// A load or store: the address is in `a`, the value in `d`, the second value of a pair in `c`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Access {
    pub space: Space,
    pub width: u8,
    pub pair: bool,
}

impl Access {
    pub fn word(space: Space) -> Self {
        Access { space, width: 4, pair: false }
    }

    pub fn wide(self) -> bool {
        self.width == 8
    }
}
