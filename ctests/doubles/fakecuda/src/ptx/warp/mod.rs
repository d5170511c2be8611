//! Runs a warp of 32 threads in lockstep.
//!
//! Threads that took different branches are groups, each with its own place in the code; the group
//! with the lowest place runs, and groups that meet become one. A group that comes to a barrier or
//! shuffle without the others waits for them; if all wait in different places, the barrier is
//! divergent and the launch fails.

mod access;
mod watch;

use watch::{Watch, Wrong};

use crate::ptx::flush;
use crate::ptx::program::*;
use crate::ptx::reciprocal::reciprocal;
use crate::ptx::simple::Op;

pub(in crate::ptx) const LANES: usize = 32;

/// A region of memory that a kernel may access: addresses `lo..hi` are the host's bytes at `host`.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    pub lo: u64,
    pub hi: u64,
    pub host: *mut u8,
    pub writable: bool,
}

impl Region {
    const NONE: Region = Region { lo: u64::MAX, hi: 0, host: std::ptr::null_mut(), writable: false };
}

pub trait Memory {
    fn find(&self, address: u64) -> Option<Region>;
}

#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    pub kind: FaultKind,
    pub line: u32,
    pub block: [u32; 3],
    pub thread: [u32; 3],
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    OutOfBounds,
    Misaligned,
    DivergentBarrier,
    Unwritten,
    /// Two threads access a word of shared memory without a barrier in between, and at least one
    /// writes.
    Race,
    Trapped,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Fault { kind, line, block, thread, detail } = self;
        write!(f, "{kind:?} at line {line}, block {block:?}, thread {thread:?}: {detail}")
    }
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Lanes<T>([T; LANES]);

#[derive(Clone, Copy, Debug)]
struct Group {
    pc: usize,
    mask: u32,
    waits: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::ptx) enum Stop {
    Done,
    Barrier(usize),
}

pub(in crate::ptx) struct Warp {
    narrow: Vec<Lanes<u32>>,
    wide: Vec<Lanes<u64>>,
    preds: Vec<u32>,
    index: usize,
    pub live: u32,
    mask: u32,
    pub pc: usize,
    rest: Vec<Group>,
    /// The lowest position of a group in `rest` that can run.
    next: usize,
    block: [u32; 3],
    dim: [u32; 3],
}

/// State that the warps of a block share, and all blocks of a launch.
pub(in crate::ptx) struct Shared<'a> {
    pub kernel: &'a Kernel,
    pub params: &'a [u8],
    pub memory: &'a dyn Memory,
    pub shared: Vec<u128>,
    pub shared_bytes: usize,
    pub watch: Watch,
    pub cache: Vec<Region>,
    pub executed: u64,
}

impl<'a> Shared<'a> {
    pub fn new(kernel: &'a Kernel, params: &'a [u8], memory: &'a dyn Memory) -> Self {
        let shared_bytes = kernel.shared_bytes;
        Shared {
            kernel,
            params,
            memory,
            shared: vec![u128::MAX; shared_bytes.div_ceil(16)],
            shared_bytes,
            watch: Watch::new(shared_bytes),
            cache: vec![Region::NONE; kernel.code.len()],
            executed: 0,
        }
    }
}

/// Number of lanes that an instruction reads before it writes them, so that the destination may be
/// an operand.
const CHUNK: usize = 8;

macro_rules! each {
    ($self:ident, $full:expr, $m:expr, $d:expr => $dt:ty, |$($x:ident : $src:expr => $st:ty),*| $body:expr) => {{
        let d = $d as *mut $dt;
        $( let $x = $src as *const $st; )*
        for chunk in 0..LANES / CHUNK {
            // SAFETY: every pointer is that of a register of 32 lanes, and chunk * CHUNK + CHUNK <=
            // 32. Registers are read whole before the destination, which may be one of them, is
            // written.
            unsafe {
                $( let $x = $x.add(chunk * CHUNK).cast::<[$st; CHUNK]>().read(); )*
                let value: [$dt; CHUNK] = std::array::from_fn(|k| { $( let $x = $x[k]; )* $body });
                let to = d.add(chunk * CHUNK);
                if $full {
                    to.cast::<[$dt; CHUNK]>().write(value);
                } else {
                    for k in 0..CHUNK {
                        if $m >> (chunk * CHUNK + k) & 1 != 0 {
                            to.add(k).write(value[k]);
                        }
                    }
                }
            }
        }
    }};
}

impl Warp {
    pub fn new(kernel: &Kernel, index: usize, dim: [u32; 3]) -> Self {
        let mut warp = Warp {
            narrow: vec![Lanes([0; LANES]); kernel.files[0].max(1)],
            wide: vec![Lanes([0; LANES]); kernel.files[1].max(1)],
            preds: vec![0; kernel.files[2].max(1)],
            index,
            live: 0,
            mask: 0,
            pc: 0,
            rest: Vec::with_capacity(LANES),
            next: usize::MAX,
            block: [0; 3],
            dim,
        };
        for (reg, source) in &kernel.init {
            if let Source::Constant(value) = *source {
                warp.set(*reg, [value; LANES]);
            }
        }
        warp
    }

    fn set(&mut self, reg: Reg, values: [u64; LANES]) {
        match reg {
            Reg::Narrow(r) => self.narrow[usize::from(r)].0 = values.map(|v| v as u32),
            Reg::Wide(r) => self.wide[usize::from(r)].0 = values,
            Reg::Pred(_) => {}
        }
    }

    pub fn thread(&self, lane: usize) -> [u32; 3] {
        let t = (self.index * LANES + lane) as u32;
        [t % self.dim[0], t / self.dim[0] % self.dim[1], t / self.dim[0] / self.dim[1]]
    }

    pub fn start(&mut self, kernel: &Kernel, block: [u32; 3], grid: [u32; 3]) {
        self.live = self.all();
        self.mask = self.live;
        self.pc = 0;
        self.rest.clear();
        self.next = usize::MAX;
        self.block = block;
        for (reg, source) in &kernel.init {
            let Source::Special(special, axis) = *source else { continue };
            let values = match special {
                Special::Tid => std::array::from_fn(|lane| self.thread(lane)[axis].into()),
                Special::Ntid => [self.dim[axis].into(); LANES],
                Special::Ctaid => [block[axis].into(); LANES],
                Special::Nctaid => [grid[axis].into(); LANES],
            };
            self.set(*reg, values);
        }
    }

    /// Runs until the warp ends or reaches a barrier of the block, with wide instructions if the
    /// processor has them.
    pub fn run(&mut self, shared: &mut Shared) -> Result<Stop, Fault> {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
            // SAFETY: the processor has both, asked just now.
            return unsafe { self.run_wide(shared) };
        }
        self.run_any(shared)
    }

    /// # Safety
    /// The processor must have AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,bmi1,bmi2,popcnt,lzcnt")]
    unsafe fn run_wide(&mut self, shared: &mut Shared) -> Result<Stop, Fault> {
        self.run_any(shared)
    }

    #[inline(always)]
    fn truth(&self, shifted: u16) -> u32 {
        // SAFETY: the decoder allocated every register it names.
        let p = unsafe { *self.preds.get_unchecked(usize::from(shifted >> 1)) };
        if shifted & 1 == 0 { p } else { !p }
    }

    pub fn all(&self) -> u32 {
        let threads = self.dim.iter().product::<u32>() as usize;
        u32::MAX >> (LANES - (threads - self.index * LANES).min(LANES))
    }

    fn fault(&self, shared: &Shared, kind: FaultKind, mask: u32, detail: String) -> Fault {
        let lane = (mask.trailing_zeros() as usize).min(LANES - 1);
        Fault {
            kind,
            line: shared.kernel.lines[self.pc],
            block: self.block,
            thread: self.thread(lane),
            detail,
        }
    }

    fn refresh(&mut self) {
        self.next = self.rest.iter().filter(|g| !g.waits).map(|g| g.pc).min().unwrap_or(usize::MAX);
    }

    /// Suspends the running group and selects the lowest that can run; groups at the same position
    /// become one.
    fn switch(&mut self, waits: bool) {
        if self.mask != 0 {
            self.rest.push(Group { pc: self.pc, mask: self.mask, waits });
            self.mask = 0;
        }
        let Some(pc) = self.rest.iter().filter(|g| !g.waits).map(|g| g.pc).min() else {
            self.next = usize::MAX;
            return;
        };
        self.pc = pc;
        // Waiting groups at the same position join, too: the instruction is tried again.
        self.rest.retain(|group| {
            let same = group.pc == pc;
            if same {
                self.mask |= group.mask;
            }
            !same
        });
        self.refresh();
    }

    /// Handles the case that all groups wait: continues if they wait at one position, otherwise the
    /// warp is divergent.
    fn converge(&mut self, shared: &Shared) -> Result<bool, Fault> {
        if self.rest.is_empty() {
            return Ok(false);
        }
        let pc = self.rest[0].pc;
        if let Some(other) = self.rest.iter().find(|g| g.pc != pc).copied() {
            self.pc = pc;
            let lines = [pc, other.pc].map(|pc| shared.kernel.lines[pc]);
            let detail = format!("threads of one warp wait at lines {} and {}", lines[0], lines[1]);
            return Err(self.fault(shared, FaultKind::DivergentBarrier, other.mask, detail));
        }
        self.pc = pc;
        self.mask = self.rest.drain(..).map(|g| g.mask).sum();
        self.next = usize::MAX;
        Ok(true)
    }

    #[inline(always)]
    fn run_any(&mut self, shared: &mut Shared) -> Result<Stop, Fault> {
        let code = shared.kernel.code.as_ptr();
        // SAFETY (of the three): `n`, `w` and `p` are only given registers that the decoder
        // allocated, and the files were made as long as it says.
        let narrow = self.narrow.as_mut_ptr();
        let wide = self.wide.as_mut_ptr();
        let preds = self.preds.as_mut_ptr();
        let n = |r: u16| unsafe { narrow.add(usize::from(r)).cast::<u32>() };
        let w = |r: u16| unsafe { wide.add(usize::from(r)).cast::<u64>() };
        let p = |r: u16| unsafe { preds.add(usize::from(r)) };
        loop {
            if self.mask == 0 {
                self.switch(false);
                if self.mask == 0 && !self.converge(shared)? {
                    return Ok(Stop::Done);
                }
            }
            if self.pc >= self.next {
                self.switch(false);
            }
            // SAFETY: branches lead to labels inside the code, and the last instruction ends
            // the kernel, so `pc` is always inside.
            let ins = unsafe { &*code.add(self.pc) };
            let mut m = self.mask;
            if ins.guard != NONE {
                m &= self.truth(ins.guard);
                if m == 0 {
                    self.pc += 1;
                    continue;
                }
            }
            shared.executed += u64::from(m.count_ones());
            // Registers of threads that have ended may be overwritten.
            let full = m | !self.live == u32::MAX;
            macro_rules! op {
                ($file:ident $t:ty, |$a:ident| $body:expr) => {
                    each!(self, full, m, $file(ins.d) => $t, |$a: $file(ins.a) => $t| $body)
                };
                ($file:ident $t:ty, |$a:ident, $b:ident| $body:expr) => {
                    each!(self, full, m, $file(ins.d) => $t, |$a: $file(ins.a) => $t, $b: $file(ins.b) => $t| $body)
                };
                ($file:ident $t:ty, |$a:ident, $b:ident, $c:ident| $body:expr) => {
                    each!(self, full, m, $file(ins.d) => $t,
                        |$a: $file(ins.a) => $t, $b: $file(ins.b) => $t, $c: $file(ins.c) => $t| $body)
                };
            }
            macro_rules! compare {
                ($file:ident $t:ty, $cmp:expr) => {{
                    // SAFETY: as in `each!`.
                    let (a, b) = unsafe {
                        (&*($file(ins.a) as *const [$t; LANES]), &*($file(ins.b) as *const [$t; LANES]))
                    };
                    macro_rules! bits {
                        ($o:tt) => {{
                            let mut bits = 0u32;
                            for k in 0..LANES {
                                bits |= u32::from(a[k] $o b[k]) << k;
                            }
                            bits
                        }};
                    }
                    let bits = match $cmp {
                        Cmp::Eq => bits!(==),
                        Cmp::Ne => bits!(!=),
                        Cmp::Lt => bits!(<),
                        Cmp::Le => bits!(<=),
                        Cmp::Gt => bits!(>),
                        Cmp::Ge => bits!(>=),
                    };
                    // SAFETY: as above.
                    unsafe { *p(ins.d) = *p(ins.d) & !m | bits & m };
                }};
            }
            match ins.op {
                Op::Mov32 => op!(n u32, |a| a),
                Op::Mov64 => op!(w u64, |a| a),
                Op::AddF32 => op!(n f32, |a, b| a + b),
                Op::SubF32 => op!(n f32, |a, b| a - b),
                Op::MulF32 => op!(n f32, |a, b| a * b),
                Op::FmaF32 => op!(n f32, |a, b, c| a.mul_add(b, c)),
                Op::NegF32 => op!(n f32, |a| -a),
                Op::AddFtz => op!(n f32, |a, b| flush::add(a, b)),
                Op::SubFtz => op!(n f32, |a, b| flush::sub(a, b)),
                Op::MulFtz => op!(n f32, |a, b| flush::mul(a, b)),
                Op::FmaFtz => op!(n f32, |a, b, c| flush::fma(a, b, c)),
                Op::NegFtz => op!(n f32, |a| -flush::operand(a)),
                Op::RcpF32 => op!(n f32, |a| reciprocal(a)),
                Op::RcpFtz => op!(n f32, |a| flush::operand(reciprocal(flush::operand(a)))),
                Op::Add32 => op!(n u32, |a, b| a.wrapping_add(b)),
                Op::Sub32 => op!(n u32, |a, b| a.wrapping_sub(b)),
                Op::Mul32 => op!(n u32, |a, b| a.wrapping_mul(b)),
                Op::Mad32 => op!(n u32, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
                Op::MinS32 => op!(n i32, |a, b| a.min(b)),
                Op::MaxS32 => op!(n i32, |a, b| a.max(b)),
                Op::MaxU32 => op!(n u32, |a, b| a.max(b)),
                Op::And32 => op!(n u32, |a, b| a & b),
                Op::Or32 => op!(n u32, |a, b| a | b),
                Op::Neg32 => op!(n u32, |a| a.wrapping_neg()),
                Op::Not32 => op!(n u32, |a| !a),
                Op::Bits32 => op!(n u32, |a, b, c| a >> (b & 31) & ((1u64 << (c & 63)) - 1) as u32),
                Op::Shl32 => op!(n u32, |a, b| if b > 31 { 0 } else { a << (b & 31) }),
                Op::ShrU32 => op!(n u32, |a, b| if b > 31 { 0 } else { a >> (b & 31) }),
                Op::ShrS32 => op!(n i32, |a, b| a >> (b as u32).min(31)),
                Op::Add64 => op!(w u64, |a, b| a.wrapping_add(b)),
                Op::Sub64 => op!(w u64, |a, b| a.wrapping_sub(b)),
                Op::Mul64 => op!(w u64, |a, b| a.wrapping_mul(b)),
                Op::And64 => op!(w u64, |a, b| a & b),
                Op::Shl64 => {
                    each!(self, full, m, w(ins.d) => u64, |a: w(ins.a) => u64, b: n(ins.b) => u32| if b > 63 { 0 } else { a << (b & 63) })
                }
                Op::MulWideS => {
                    each!(self, full, m, w(ins.d) => i64, |a: n(ins.a) => i32, b: n(ins.b) => i32| i64::from(a) * i64::from(b))
                }
                Op::MulWideU => {
                    each!(self, full, m, w(ins.d) => u64, |a: n(ins.a) => u32, b: n(ins.b) => u32| u64::from(a) * u64::from(b))
                }
                Op::Extend => each!(self, full, m, w(ins.d) => i64, |a: n(ins.a) => i32| i64::from(a)),
                Op::ZeroExtend => each!(self, full, m, w(ins.d) => u64, |a: n(ins.a) => u32| u64::from(a)),
                Op::Truncate => each!(self, full, m, n(ins.d) => u32, |a: w(ins.a) => u64| a as u32),
                Op::FloatU16 => {
                    each!(self, full, m, n(ins.d) => f32, |a: n(ins.a) => u32| f32::from(a as u16))
                }
                Op::Sel32 | Op::Sel64 => self.select(ins, m),
                Op::CmpS32(cmp) => compare!(n i32, cmp),
                Op::CmpU32(cmp) => compare!(n u32, cmp),
                Op::CmpS64(cmp) => compare!(w i64, cmp),
                Op::AndPred => self.set_pred(ins.d, m, self.truth(ins.a << 1) & self.truth(ins.b << 1)),
                Op::OrPred => self.set_pred(ins.d, m, self.truth(ins.a << 1) | self.truth(ins.b << 1)),
                Op::NotPred => self.set_pred(ins.d, m, !self.truth(ins.a << 1)),
                Op::Ld(access) if access == Access::word(Space::Global) => {
                    self.global32(shared, ins, m, false)?;
                }
                Op::St(access) if access == Access::word(Space::Global) => {
                    self.global32(shared, ins, m, true)?;
                }
                Op::Ld(access) => self.touch(shared, ins, m, access, false)?,
                Op::St(access) => self.touch(shared, ins, m, access, true)?,
                Op::AtomicMax => self.atomic_max(shared, ins, m)?,
                Op::AtomicAdd => self.atomic_add(shared, ins, m)?,
                Op::Bra => {
                    let target = ins.imm as usize;
                    let stay = self.mask & !m;
                    if stay == 0 {
                        self.pc = target;
                    } else {
                        let (go, other) = (Group { pc: target, mask: m, waits: false }, self.pc + 1);
                        if target < other {
                            self.rest.push(Group { pc: other, mask: stay, waits: false });
                            (self.pc, self.mask) = (target, m);
                        } else {
                            self.rest.push(go);
                            (self.pc, self.mask) = (other, stay);
                        }
                        self.refresh();
                    }
                    continue;
                }
                Op::Bar => {
                    if m == self.live {
                        return Ok(Stop::Barrier(self.pc));
                    }
                    if m != self.mask {
                        let detail = "a barrier under a predicate that is not the same for all".into();
                        return Err(self.fault(shared, FaultKind::DivergentBarrier, self.mask & !m, detail));
                    }
                    self.switch(true);
                    continue;
                }
                Op::Trap => {
                    return Err(self.fault(shared, FaultKind::Trapped, m, "the kernel stops itself".into()));
                }
                Op::Exit => {
                    self.live &= !m;
                    self.mask &= !m;
                }
            }
            self.pc += 1;
        }
    }

    #[inline(always)]
    fn get(&self, r: u16, wide: bool, lane: usize) -> u64 {
        // SAFETY: the decoder allocated every register it names; lanes are below 32.
        unsafe {
            if wide {
                self.wide.get_unchecked(usize::from(r)).0[lane]
            } else {
                self.narrow.get_unchecked(usize::from(r)).0[lane].into()
            }
        }
    }

    #[inline(always)]
    fn put(&mut self, r: u16, wide: bool, lane: usize, value: u64) {
        // SAFETY: as in `get`.
        unsafe {
            if wide {
                self.wide.get_unchecked_mut(usize::from(r)).0[lane] = value;
            } else {
                self.narrow.get_unchecked_mut(usize::from(r)).0[lane] = value as u32;
            }
        }
    }

    #[inline(always)]
    fn set_pred(&mut self, r: u16, m: u32, bits: u32) {
        // SAFETY: as in `get`.
        let p = unsafe { self.preds.get_unchecked_mut(usize::from(r)) };
        *p = *p & !m | bits & m;
    }

    #[inline(always)]
    fn select(&mut self, ins: &Ins, m: u32) {
        let wide = matches!(ins.op, Op::Sel64);
        let p = self.truth(ins.c << 1);
        for lane in lanes(m) {
            let from = if p >> lane & 1 != 0 { ins.a } else { ins.b };
            let value = self.get(from, wide, lane);
            self.put(ins.d, wide, lane, value);
        }
    }
}

#[inline(always)]
fn lanes(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        if mask == 0 {
            return None;
        }
        let lane = mask.trailing_zeros();
        mask &= mask - 1;
        Some(lane as usize)
    })
}
