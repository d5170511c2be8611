//! The body of a kernel into instructions. Calls are inlined: a card's own stack would be of
//! no use to us, and compilers emit calls for few functions and never recursively.

use std::collections::HashMap;
use std::ops::Range;

use super::decode::{Cursor, Names, Result, literal, variable};
use super::lane::{self, Ty};
use super::lexer::{Kind, Token};
use super::program::*;

/// Functions within functions, at most.
const DEPTH: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Reg {
    Pred(u16),
    /// Number in the narrow file, and whether it has 16 bits only.
    Narrow(u16, bool),
    Wide(u16),
}

#[derive(Clone, Copy, Debug)]
enum Symbol {
    Reg(Reg),
    Local(usize),
    Shared(usize),
    /// The kernel's own parameters.
    Param(usize),
    /// A parameter of an inlined call: lies in local memory.
    CallParam(usize),
}

#[derive(Clone, Debug)]
enum Arg<'a> {
    Word(&'a str),
    Not(&'a str),
    Pair(&'a str, &'a str),
    Number(&'a str, bool),
    Address(Base<'a>, i64),
    List(Vec<Arg<'a>>),
}

#[derive(Clone, Copy, Debug)]
enum Base<'a> {
    Word(&'a str),
    Absolute,
}

#[derive(Default)]
struct Scope<'a> {
    names: HashMap<&'a str, Symbol>,
    /// `%r<59>`: prefix, first register of the range, how many.
    ranges: Vec<(&'a str, Reg, u16)>,
}

pub(super) struct Body<'t, 'a, 'k> {
    tokens: &'t [Token<'a>],
    names: &'t Names<'a>,
    kernel: &'k mut Kernel,
    scopes: Vec<Scope<'a>>,
    constants: HashMap<(bool, Source), u16>,
    dynamic_shared: Vec<&'a str>,
    /// Branches: instruction, (call, label), line.
    branches: Vec<(usize, (usize, &'a str), u32)>,
    labels: HashMap<(usize, &'a str), usize>,
    /// The calls we are inside of, innermost last: number, and branches of its `ret`.
    calls: Vec<(usize, Vec<usize>)>,
    call_count: usize,
    line: u32,
    /// Constants whose value is the end of static shared memory.
    dynamic_slots: Vec<usize>,
}

impl<'t, 'a, 'k> Body<'t, 'a, 'k> {
    pub fn new(
        tokens: &'t [Token<'a>],
        names: &'t Names<'a>,
        kernel: &'k mut Kernel,
        params: &[(&'a str, usize)],
    ) -> Self {
        let mut scope = Scope::default();
        for (name, offset) in params {
            scope.names.insert(name, Symbol::Param(*offset));
        }
        let mut dynamic_shared = Vec::new();
        let mut shared: Vec<_> = names.shared.iter().collect();
        shared.sort();
        for (name, (bytes, align)) in shared {
            if *bytes == 0 {
                dynamic_shared.push(*name);
            } else {
                let at = kernel.shared_bytes.next_multiple_of((*align).max(1));
                kernel.shared_bytes = at + bytes;
                scope.names.insert(name, Symbol::Shared(at));
            }
        }
        Body {
            tokens,
            names,
            kernel,
            scopes: vec![scope],
            constants: HashMap::new(),
            dynamic_shared,
            branches: Vec::new(),
            labels: HashMap::new(),
            calls: Vec::new(),
            call_count: 0,
            line: 0,
            dynamic_slots: Vec::new(),
        }
    }

    pub fn decode(mut self, range: Range<usize>) -> Result<()> {
        self.block(range)?;
        self.emit(Op::Exit, NONE, [0; 4], 0);
        for (at, label, line) in std::mem::take(&mut self.branches) {
            let Some(target) = self.labels.get(&label) else {
                return Err(Refused { line, why: format!("no label '{}'", label.1) });
            };
            self.kernel.code[at].imm = *target as i64;
        }
        self.kernel.shared_bytes = self.kernel.shared_bytes.next_multiple_of(16);
        for slot in self.dynamic_slots {
            if let Source::Constant(value) = &mut self.kernel.init[slot].1 {
                *value = value.wrapping_add(self.kernel.shared_bytes as u64);
            }
        }
        Ok(())
    }

    fn fail<T>(&self, why: impl Into<String>) -> Result<T> {
        Err(Refused { line: self.line, why: why.into() })
    }

    fn emit(&mut self, op: Op, guard: u16, [d, a, b, c]: [u16; 4], imm: i64) {
        self.kernel.code.push(Ins { op, guard, d, a, b, c, imm });
        self.kernel.lines.push(self.line);
    }

    fn block(&mut self, range: Range<usize>) -> Result<()> {
        let mut cursor = Cursor { tokens: &self.tokens[..range.end], at: range.start };
        while let Some(kind) = cursor.peek() {
            self.line = cursor.line();
            match kind {
                Kind::Mark('{') => {
                    cursor.at += 1;
                    self.scopes.push(Scope::default());
                }
                Kind::Mark('}') => {
                    cursor.at += 1;
                    self.scopes.pop();
                }
                Kind::Mark(';') => cursor.at += 1,
                Kind::Mark('@') => {
                    cursor.at += 1;
                    let inverted = cursor.take('!');
                    let name = cursor.word()?;
                    let guard = self.predicate(name)? << 1 | u16::from(inverted);
                    self.instruction(&mut cursor, guard)?;
                }
                Kind::Word(word)
                    if cursor.tokens.get(cursor.at + 1).map(|t| t.kind) == Some(Kind::Mark(':')) =>
                {
                    cursor.at += 2;
                    let call = self.calls.last().map_or(0, |c| c.0);
                    self.labels.insert((call, word), self.kernel.code.len());
                }
                Kind::Word(word) if word.starts_with('.') => {
                    cursor.at += 1;
                    self.directive(&mut cursor, word)?;
                }
                Kind::Word(_) => self.instruction(&mut cursor, NONE)?,
                _ => return cursor.fail("an instruction expected"),
            }
        }
        Ok(())
    }

    fn directive(&mut self, cursor: &mut Cursor<'_, 'a>, word: &str) -> Result<()> {
        match word {
            ".reg" => {
                let name = cursor.word()?;
                let Some(ty) = name.strip_prefix('.').and_then(Ty::named) else {
                    return self.fail(format!("'{name}' is no type"));
                };
                loop {
                    let name = cursor.word()?;
                    if cursor.take('<') {
                        let count = cursor.number()? as u16;
                        cursor.expect('>')?;
                        let first = self.allocate(ty, count)?;
                        self.scope().ranges.push((name, first, count));
                    } else {
                        let reg = self.allocate(ty, 1)?;
                        self.scope().names.insert(name, Symbol::Reg(reg));
                    }
                    if !cursor.take(',') {
                        break;
                    }
                }
                cursor.expect(';')
            }
            ".local" | ".shared" | ".param" => {
                let (name, align, ty, count) = variable(cursor)?;
                let bytes = ty.bytes() * count.unwrap_or(0);
                let symbol = if word == ".shared" {
                    let at = self.kernel.shared_bytes.next_multiple_of(align.max(1));
                    self.kernel.shared_bytes = at + bytes;
                    Symbol::Shared(at)
                } else {
                    let at = self.local(bytes, align);
                    if word == ".local" { Symbol::Local(at) } else { Symbol::CallParam(at) }
                };
                self.scope().names.insert(name, symbol);
                cursor.expect(';')
            }
            ".loc" => {
                let line = cursor.line();
                while cursor.peek().is_some() && cursor.line() == line {
                    cursor.at += 1;
                }
                Ok(())
            }
            ".pragma" => {
                cursor.skip_statement();
                Ok(())
            }
            other => self.fail(format!("'{other}' is no directive of a body")),
        }
    }

    fn local(&mut self, bytes: usize, align: usize) -> usize {
        let at = self.kernel.local_bytes.next_multiple_of(align.max(8));
        self.kernel.local_bytes = at + bytes;
        at
    }

    fn scope(&mut self) -> &mut Scope<'a> {
        if self.scopes.is_empty() {
            self.scopes.push(Scope::default());
        }
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    fn allocate(&mut self, ty: Ty, count: u16) -> Result<Reg> {
        let file = match ty {
            Ty::Pred => 2,
            ty if ty.wide() => 1,
            _ => 0,
        };
        let first = self.kernel.files[file];
        self.kernel.files[file] += usize::from(count);
        if self.kernel.files[file] >= usize::from(NONE >> 1) {
            return self.fail("too many registers");
        }
        let first = first as u16;
        Ok(match file {
            0 => Reg::Narrow(first, ty.bytes() < 4),
            1 => Reg::Wide(first),
            _ => Reg::Pred(first),
        })
    }

    fn lookup(&self, name: &str) -> Option<Symbol> {
        for scope in self.scopes.iter().rev() {
            if let Some(symbol) = scope.names.get(name) {
                return Some(*symbol);
            }
            for (prefix, first, count) in &scope.ranges {
                let number = name.strip_prefix(prefix).and_then(|n| n.parse::<u16>().ok());
                if let Some(number) = number.filter(|n| n < count) {
                    return Some(Symbol::Reg(match *first {
                        Reg::Pred(r) => Reg::Pred(r + number),
                        Reg::Narrow(r, half) => Reg::Narrow(r + number, half),
                        Reg::Wide(r) => Reg::Wide(r + number),
                    }));
                }
            }
        }
        None
    }

    fn predicate(&self, name: &str) -> Result<u16> {
        match self.lookup(name) {
            Some(Symbol::Reg(Reg::Pred(r))) => Ok(r),
            _ => self.fail(format!("'{name}' is no predicate")),
        }
    }

    /// A slot that holds `source` from the start.
    fn constant(&mut self, wide: bool, source: Source) -> Result<u16> {
        if let Some(slot) = self.constants.get(&(wide, source)) {
            return Ok(*slot);
        }
        let ty = if wide { Ty::U64 } else { Ty::U32 };
        let (slot, number) = match self.allocate(ty, 1)? {
            Reg::Wide(r) => (Slot::Wide(r), r),
            Reg::Narrow(r, _) | Reg::Pred(r) => (Slot::Narrow(r), r),
        };
        self.kernel.init.push((slot, source));
        self.constants.insert((wide, source), number);
        Ok(number)
    }

    fn special(name: &str) -> Option<Special> {
        let axis = |name: &str, prefix: &str| {
            let axis = name.strip_prefix(prefix)?;
            ["x", "y", "z"].iter().position(|a| *a == axis).map(|a| a as u8)
        };
        let named = match name {
            "%laneid" => Special::Lane,
            "%warpid" => Special::Warp,
            "%nwarpid" => Special::Warps,
            "%lanemask_eq" => Special::Mask(0),
            "%lanemask_lt" => Special::Mask(1),
            "%lanemask_le" => Special::Mask(2),
            "%lanemask_gt" => Special::Mask(3),
            "%lanemask_ge" => Special::Mask(4),
            _ => {
                return axis(name, "%tid.")
                    .map(Special::Tid)
                    .or_else(|| axis(name, "%ntid.").map(Special::Ntid))
                    .or_else(|| axis(name, "%ctaid.").map(Special::Ctaid))
                    .or_else(|| axis(name, "%nctaid.").map(Special::Nctaid));
            }
        };
        Some(named)
    }

    /// The slot of a value that is read as `ty`; `wide` says in which file it is wanted.
    fn read(&mut self, arg: &Arg<'a>, ty: Ty) -> Result<u16> {
        let (slot, wide) = self.read_any(arg, ty)?;
        if wide == ty.wide() {
            return Ok(slot);
        }
        self.fail(format!("{arg:?} has not the size of .{ty:?}"))
    }

    /// The slot of a value and its file.
    fn read_any(&mut self, arg: &Arg<'a>, ty: Ty) -> Result<(u16, bool)> {
        match arg {
            Arg::Number(text, negative) => {
                let Some(bits) = literal(text, *negative, ty) else {
                    return self.fail(format!("'{text}' is no number"));
                };
                Ok((self.constant(ty.wide(), Source::Constant(bits))?, ty.wide()))
            }
            Arg::Word(name) => {
                if *name == "WARP_SZ" {
                    return Ok((self.constant(ty.wide(), Source::Constant(32))?, ty.wide()));
                }
                match self.lookup(name) {
                    Some(Symbol::Reg(Reg::Narrow(r, _))) => return Ok((r, false)),
                    Some(Symbol::Reg(Reg::Wide(r))) => return Ok((r, true)),
                    Some(Symbol::Reg(Reg::Pred(_))) => return self.fail(format!("'{name}' is a predicate")),
                    Some(_) => {}
                    None => {
                        if let Some(special) = Self::special(name) {
                            return Ok((self.constant(false, Source::Special(special))?, false));
                        }
                    }
                }
                let (slot, _) = self.address_of(name, 0, ty.wide())?;
                Ok((slot, ty.wide()))
            }
            _ => self.fail(format!("{arg:?} is no value")),
        }
    }

    /// The slot with the address of a variable, and the space it lies in.
    fn address_of(&mut self, name: &str, offset: i64, wide: bool) -> Result<(u16, Space)> {
        let at = |base: usize| Source::Constant((base as u64).wrapping_add(offset as u64));
        let (source, space) = match self.lookup(name) {
            Some(Symbol::Local(base) | Symbol::CallParam(base)) => (at(base), Space::Local),
            Some(Symbol::Shared(base)) => (at(base), Space::Shared),
            Some(Symbol::Param(base)) => (at(base), Space::Param),
            Some(Symbol::Reg(_)) => return self.fail(format!("'{name}' is no variable")),
            None if self.dynamic_shared.contains(&name) => {
                // The end of static memory is known last: a slot of its own, set then.
                let ty = if wide { Ty::U64 } else { Ty::U32 };
                let reg = self.allocate(ty, 1)?;
                let (slot, number) = match reg {
                    Reg::Wide(r) => (Slot::Wide(r), r),
                    Reg::Narrow(r, _) | Reg::Pred(r) => (Slot::Narrow(r), r),
                };
                self.dynamic_slots.push(self.kernel.init.len());
                self.kernel.init.push((slot, at(0)));
                return Ok((number, Space::Shared));
            }
            None => match self.names.globals.get(name) {
                Some(index) => (Source::Global(*index, offset), Space::Global),
                None => return self.fail(format!("'{name}' is not declared")),
            },
        };
        Ok((self.constant(wide, source)?, space))
    }

    fn args(&mut self, cursor: &mut Cursor<'_, 'a>) -> Result<Vec<Arg<'a>>> {
        let mut list = Vec::new();
        while !cursor.take(';') {
            if !list.is_empty() {
                cursor.expect(',')?;
            }
            list.push(self.arg(cursor)?);
        }
        Ok(list)
    }

    fn arg(&mut self, cursor: &mut Cursor<'_, 'a>) -> Result<Arg<'a>> {
        for (open, close) in [('{', '}'), ('(', ')')] {
            if cursor.take(open) {
                let mut list = Vec::new();
                while !cursor.take(close) {
                    list.push(self.arg(cursor)?);
                    if !cursor.is(close) {
                        cursor.expect(',')?;
                    }
                }
                return Ok(Arg::List(list));
            }
        }
        if cursor.take('[') {
            let mut base = Base::Absolute;
            let mut offset = 0i64;
            if let Some(Kind::Word(name)) = cursor.peek() {
                cursor.at += 1;
                base = Base::Word(name);
            }
            while !cursor.take(']') {
                cursor.take('+');
                let negative = cursor.take('-');
                let number = cursor.number()? as i64;
                offset += if negative { -number } else { number };
            }
            return Ok(Arg::Address(base, offset));
        }
        if cursor.take('!') {
            return Ok(Arg::Not(cursor.word()?));
        }
        let negative = cursor.take('-');
        match cursor.peek() {
            Some(Kind::Number(text)) => {
                cursor.at += 1;
                Ok(Arg::Number(text, negative))
            }
            Some(Kind::Word(name)) => {
                cursor.at += 1;
                if cursor.take('|') { Ok(Arg::Pair(name, cursor.word()?)) } else { Ok(Arg::Word(name)) }
            }
            _ => cursor.fail("an operand expected"),
        }
    }

    fn instruction(&mut self, cursor: &mut Cursor<'_, 'a>, guard: u16) -> Result<()> {
        let opcode = cursor.word()?;
        let args = self.args(cursor)?;
        let parts: Vec<&str> = opcode.split('.').collect();
        let done = match parts[0] {
            "ld" | "ldu" | "st" => self.memory(&parts, guard, &args)?,
            "atom" | "red" => self.atomic(&parts, guard, &args)?,
            "setp" => self.compare(&parts, guard, &args)?,
            "cvt" => self.convert(&parts, guard, &args)?,
            "cvta" => self.window(&parts, guard, &args)?,
            "mov" => self.mov(&parts, guard, &args)?,
            "selp" => self.select(&parts, guard, &args)?,
            "bra" | "ret" | "exit" | "call" | "trap" | "bar" | "barrier" | "membar" | "fence" | "shfl"
            | "vote" | "activemask" | "bfi" | "bfe" | "slct" | "prefetch" | "prefetchu" => {
                self.control(&parts, guard, &args)?
            }
            _ => self.arithmetic(&parts, guard, &args)?,
        };
        if done { Ok(()) } else { self.fail(format!("'{opcode}' is not known to this interpreter")) }
    }

    /// The last part of an opcode as a type.
    fn ty(parts: &[&str]) -> Option<Ty> {
        parts.last().and_then(|name| Ty::named(name))
    }

    /// The register that an instruction writes: number, in the wide file, 16 bits only.
    fn written(&self, arg: Option<&Arg<'a>>) -> Result<(u16, bool, bool)> {
        match arg {
            Some(Arg::Word("_")) => self.fail("a sink"),
            Some(Arg::Word(name)) => match self.lookup(name) {
                Some(Symbol::Reg(Reg::Narrow(r, half))) => Ok((r, false, half)),
                Some(Symbol::Reg(Reg::Wide(r))) => Ok((r, true, false)),
                _ => self.fail(format!("'{name}' is no register")),
            },
            _ => self.fail("no register to write to"),
        }
    }

    fn arithmetic(&mut self, parts: &[&str], guard: u16, args: &[Arg<'a>]) -> Result<bool> {
        let Some(ty) = Self::ty(parts) else { return Ok(false) };
        if ty == Ty::Pred {
            return self.logic(parts, guard, args);
        }
        let mut name = String::from(parts[0]);
        for part in &parts[1..parts.len() - 1] {
            match *part {
                "lo" | "rn" => {}
                // The approximate ones are as good as the exact ones here.
                "approx" | "full" => {}
                "hi" | "wide" | "shiftamt" => name = format!("{name}.{part}"),
                "l" | "r" | "wrap" | "clamp" => name = format!("{name}.{part}"),
                _ => return Ok(false),
            }
        }
        let Some(f) = lane::arithmetic(&name, ty) else { return Ok(false) };
        let (d, d_wide, _) = self.written(args.first())?;
        let widening = name.ends_with(".wide");
        let counts = matches!(parts[0], "popc" | "clz" | "bfind");
        let expected_wide = if widening {
            ty.bytes() == 4
        } else if counts {
            false
        } else {
            ty.wide()
        };
        if d_wide != expected_wide {
            return self.fail("the destination has not the size of the type");
        }
        let mut slots = [0u16; 3];
        let mut files = u8::from(d_wide);
        for (k, arg) in args.iter().skip(1).enumerate() {
            if k == 3 {
                return self.fail("too many operands");
            }
            let shift = k == 1 && matches!(parts[0], "shl" | "shr");
            let wanted = match () {
                () if shift => Ty::U32,
                () if widening && k == 2 && ty.bytes() == 4 => Ty::U64,
                () if widening && k == 2 => Ty::U32,
                () => ty,
            };
            slots[k] = self.read(arg, wanted)?;
            files |= u8::from(wanted.wide()) << (k + 1);
        }
        let [a, b, c] = slots;
        let needed = match parts[0] {
            "neg" | "abs" | "not" | "cnot" | "popc" | "clz" | "brev" | "bfind" | "sqrt" | "rcp" | "rsqrt"
            | "sin" | "cos" | "ex2" | "lg2" => 1,
            "mad" | "fma" | "sad" | "prmt" | "shf" => 3,
            _ => 2,
        };
        if args.len() != needed + 1 {
            return self.fail(format!("{} operands where {} are needed", args.len(), needed + 1));
        }
        let op = match (name.as_str(), ty) {
            ("add", Ty::F32) => Op::AddF32,
            ("sub", Ty::F32) => Op::SubF32,
            ("mul", Ty::F32) => Op::MulF32,
            ("fma" | "mad", Ty::F32) => Op::FmaF32,
            ("add", Ty::F64) => Op::AddF64,
            ("sub", Ty::F64) => Op::SubF64,
            ("mul", Ty::F64) => Op::MulF64,
            ("fma" | "mad", Ty::F64) => Op::FmaF64,
            ("add", Ty::U32 | Ty::S32) => Op::Add32,
            ("sub", Ty::U32 | Ty::S32) => Op::Sub32,
            ("mul", Ty::U32 | Ty::S32) => Op::Mul32,
            ("mad", Ty::U32 | Ty::S32) => Op::Mad32,
            ("add", Ty::U64 | Ty::S64) => Op::Add64,
            ("sub", Ty::U64 | Ty::S64) => Op::Sub64,
            ("mul", Ty::U64 | Ty::S64) => Op::Mul64,
            ("mul.wide", Ty::S32) => Op::MulWideS,
            ("mul.wide", Ty::U32) => Op::MulWideU,
            ("and", Ty::U32) => Op::And32,
            ("or", Ty::U32) => Op::Or32,
            ("xor", Ty::U32) => Op::Xor32,
            ("and", Ty::U64) => Op::And64,
            ("or", Ty::U64) => Op::Or64,
            ("xor", Ty::U64) => Op::Xor64,
            ("shl", Ty::U32) => Op::Shl32,
            ("shl", Ty::U64) => Op::Shl64,
            ("shr", Ty::U32) => Op::ShrU32,
            ("shr", Ty::S32) => Op::ShrS32,
            _ => Op::Lane(f, files),
        };
        self.emit(op, guard, [d, a, b, c], 0);
        Ok(true)
    }

    fn logic(&mut self, parts: &[&str], guard: u16, args: &[Arg<'a>]) -> Result<bool> {
        let table = match parts[0] {
            "and" => 0b1000,
            "or" => 0b1110,
            "xor" => 0b0110,
            "not" => 0b0101,
            _ => return Ok(false),
        };
        let mut slots = [0u16; 3];
        for (slot, arg) in slots.iter_mut().zip(args) {
            let Arg::Word(name) = arg else { return self.fail("a predicate expected") };
            *slot = self.predicate(name)?;
        }
        self.emit(Op::Pred(table), guard, [slots[0], slots[1], slots[2], 0], 0);
        Ok(true)
    }

    fn mov(&mut self, parts: &[&str], guard: u16, args: &[Arg<'a>]) -> Result<bool> {
        let (Some(ty), [to, from]) = (Self::ty(parts), args) else { return Ok(false) };
        if ty == Ty::Pred {
            let Arg::Word(to) = to else { return Ok(false) };
            let d = self.predicate(to)?;
            match from {
                Arg::Word(name) => {
                    let a = self.predicate(name)?;
                    self.emit(Op::Pred(0b1010), guard, [d, a, a, 0], 0);
                }
                Arg::Number(text, _) => {
                    self.emit(Op::PredConst, guard, [d, 0, 0, 0], i64::from(*text != "0"))
                }
                _ => return Ok(false),
            }
            return Ok(true);
        }
        // Packing and unpacking: halves of a wide register.
        match (to, from) {
            (Arg::List(parts), from) if parts.len() == 2 => {
                let whole = self.read(from, ty)?;
                let part = ty.bytes() as u64 * 4;
                for (k, arg) in parts.iter().enumerate() {
                    if matches!(arg, Arg::Word("_")) {
                        continue;
                    }
                    let (d, wide, _) = self.written(Some(arg))?;
                    let c = self.constant(true, Source::Constant(part << 8 | (k as u64 * part)))?;
                    self.emit(
                        Op::Lane(unpack, u8::from(wide) | u8::from(ty.wide()) << 1 | 0b1000),
                        guard,
                        [d, whole, 0, c],
                        0,
                    );
                }
                return Ok(true);
            }
            (to, Arg::List(parts)) if parts.len() == 2 => {
                let (d, wide, _) = self.written(Some(to))?;
                let half = if ty.wide() { Ty::U32 } else { Ty::U16 };
                let low = self.read(&parts[0], half)?;
                let high = self.read(&parts[1], half)?;
                let c = self.constant(true, Source::Constant(ty.bytes() as u64 * 4))?;
                self.emit(Op::Lane(pack, u8::from(wide) | 0b1000), guard, [d, low, high, c], 0);
                return Ok(true);
            }
            _ => {}
        }
        let (d, wide, _) = self.written(Some(to))?;
        let (a, from_wide) = self.read_any(from, ty)?;
        match (wide, from_wide) {
            (false, false) => self.emit(Op::Mov32, guard, [d, a, 0, 0], 0),
            (true, true) => self.emit(Op::Mov64, guard, [d, a, 0, 0], 0),
            (true, false) => self.emit(Op::ZeroExtend, guard, [d, a, 0, 0], 0),
            (false, true) => return self.fail("a wide value into a narrow register"),
        }
        Ok(true)
    }

    fn select(&mut self, parts: &[&str], guard: u16, args: &[Arg<'a>]) -> Result<bool> {
        let (Some(ty), [to, a, b, Arg::Word(p)]) = (Self::ty(parts), args) else { return Ok(false) };
        let (d, _, _) = self.written(Some(to))?;
        let (a, b) = (self.read(a, ty)?, self.read(b, ty)?);
        let p = self.predicate(p)?;
        self.emit(if ty.wide() { Op::Sel64 } else { Op::Sel32 }, guard, [d, a, b, p], 0);
        Ok(true)
    }

    fn compare(&mut self, parts: &[&str], guard: u16, args: &[Arg<'a>]) -> Result<bool> {
        let Some(ty) = Self::ty(parts) else { return Ok(false) };
        let (name, join) = match parts {
            [_, name, _] => (*name, None),
            [_, name, join @ ("and" | "or" | "xor"), _] => (*name, Some(*join)),
            _ => return Ok(false),
        };
        let Some(f) = lane::comparison(name, ty) else { return Ok(false) };
        let (p, q) = match args.first() {
            Some(Arg::Word(p)) => (self.predicate(p)?, None),
            Some(Arg::Pair(p, q)) => (self.predicate(p)?, Some(self.predicate(q)?)),
            _ => return Ok(false),
        };
        let (Some(a), Some(b)) = (args.get(1), args.get(2)) else { return Ok(false) };
        let (a, b) = (self.read(a, ty)?, self.read(b, ty)?);
        let cmp = match name {
            "eq" => Some(Cmp::Eq),
            "ne" => Some(Cmp::Ne),
            "lt" | "lo" => Some(Cmp::Lt),
            "le" | "ls" => Some(Cmp::Le),
            "gt" | "hi" => Some(Cmp::Gt),
            "ge" | "hs" => Some(Cmp::Ge),
            _ => None,
        };
        let op = match (cmp, ty) {
            (Some(cmp), Ty::S32) => Op::CmpS32(cmp),
            (Some(cmp), Ty::U32) => Op::CmpU32(cmp),
            (Some(cmp), Ty::S64) => Op::CmpS64(cmp),
            (Some(cmp), Ty::U64) => Op::CmpU64(cmp),
            (Some(cmp), Ty::F32) if cmp != Cmp::Ne => Op::CmpF32(cmp),
            _ => Op::CmpLane(f, u8::from(ty.wide()) * 0b110),
        };
        if join.is_none() && q.is_none() {
            self.emit(op, guard, [p, a, b, 0], 0);
            return Ok(true);
        }
        // Into a predicate of our own first: `p` may be an operand of the joint.
        let Reg::Pred(raw) = self.allocate(Ty::Pred, 1)? else { return Ok(false) };
        self.emit(op, guard, [raw, a, b, 0], 0);
        let (c, not) = match args.get(3) {
            Some(Arg::Word(c)) => (self.predicate(c)?, false),
            Some(Arg::Not(c)) => (self.predicate(c)?, true),
            None => (raw, false),
            _ => return Ok(false),
        };
        // Bit (a + 2 b) of the table, b the joined predicate.
        let table = |first: bool| {
            (0..4u8).fold(0, |table, k| {
                let (x, y) = ((k & 1 == 1) == first, (k & 2 == 2) != not);
                let value = match join {
                    Some("and") => x && y,
                    Some("or") => x || y,
                    Some("xor") => x != y,
                    _ => x,
                };
                table | u8::from(value) << k
            })
        };
        if let Some(q) = q {
            let Reg::Pred(spare) = self.allocate(Ty::Pred, 1)? else { return Ok(false) };
            self.emit(Op::Pred(table(false)), guard, [spare, raw, c, 0], 0);
            self.emit(Op::Pred(table(true)), guard, [p, raw, c, 0], 0);
            self.emit(Op::Pred(0b1010), guard, [q, spare, spare, 0], 0);
        } else {
            self.emit(Op::Pred(table(true)), guard, [p, raw, c, 0], 0);
        }
        Ok(true)
    }

    fn convert(&mut self, parts: &[&str], guard: u16, args: &[Arg<'a>]) -> Result<bool> {
        let [_, rounding @ .., to, from] = parts else { return Ok(false) };
        let (Some(to), Some(from), [target, value]) = (Ty::named(to), Ty::named(from), args) else {
            return Ok(false);
        };
        let rounding = match rounding {
            [] => "",
            [one] => one,
            _ => return Ok(false),
        };
        let Some((f, mode)) = lane::conversion(to, from, rounding) else { return Ok(false) };
        let (d, wide, half) = self.written(Some(target))?;
        // A register may be wider than the type it is read as.
        let (a, a_wide) = self.read_any(value, from)?;
        let op = match (to, from, wide, a_wide) {
            (Ty::S64 | Ty::U64, Ty::S32, true, false) => Some(Op::Extend),
            (Ty::S64 | Ty::U64, Ty::U32, true, false) => Some(Op::ZeroExtend),
            (Ty::S32 | Ty::U32, Ty::S64 | Ty::U64, false, true) => Some(Op::Truncate),
            _ => None,
        };
        if let Some(op) = op {
            self.emit(op, guard, [d, a, 0, 0], 0);
            return Ok(true);
        }
        let c = self.constant(false, Source::Constant(mode))?;
        let files = u8::from(wide) | u8::from(a_wide) << 1;
        self.emit(Op::Lane(f, files), guard, [d, a, 0, c], 0);
        // A signed result is extended to the whole register.
        let register = if wide {
            8
        } else if half {
            2
        } else {
            4
        };
        if to.signed() && to.bytes() < register {
            let full = match register {
                8 => Ty::U64,
                4 => Ty::U32,
                _ => Ty::U16,
            };
            let Some((f, _)) = lane::conversion(full, to, "") else { return Ok(false) };
            self.emit(Op::Lane(f, u8::from(wide) * 0b11), guard, [d, d, 0, c], 0);
        }
        Ok(true)
    }

    /// `cvta`: global addresses are generic already, the others have a window.
    fn window(&mut self, parts: &[&str], guard: u16, args: &[Arg<'a>]) -> Result<bool> {
        let [to, from] = args else { return Ok(false) };
        let (away, space) = match parts {
            [_, "to", space, "u64"] => (true, *space),
            [_, space, "u64"] => (false, *space),
            _ => return Ok(false),
        };
        let base = match space {
            "global" | "const" => 0,
            "shared" => super::warp::SHARED_WINDOW,
            "local" => super::warp::LOCAL_WINDOW,
            _ => return Ok(false),
        };
        let (d, wide, _) = self.written(Some(to))?;
        let a = self.read(from, Ty::U64)?;
        if !wide {
            return Ok(false);
        }
        if base == 0 {
            self.emit(Op::Mov64, guard, [d, a, 0, 0], 0);
        } else {
            let b = self.constant(true, Source::Constant(base))?;
            self.emit(if away { Op::Sub64 } else { Op::Add64 }, guard, [d, a, b, 0], 0);
        }
        Ok(true)
    }

    fn memory(&mut self, parts: &[&str], guard: u16, args: &[Arg<'a>]) -> Result<bool> {
        let (Some(ty), [first, second]) = (Self::ty(parts), args) else { return Ok(false) };
        let store = parts[0] == "st";
        let (value, address) = if store { (second, first) } else { (first, second) };
        let (mut space, mut count) = (Space::Generic, 1u8);
        for part in &parts[1..parts.len() - 1] {
            match *part {
                "global" => space = Space::Global,
                "const" if !store => space = Space::Global,
                "shared" | "shared::cta" => space = Space::Shared,
                "local" => space = Space::Local,
                "param" => space = Space::Param,
                "v2" => count = 2,
                "v4" => count = 4,
                "nc" | "volatile" | "ca" | "cg" | "cs" | "lu" | "cv" | "wb" | "wt" | "relaxed"
                | "acquire" | "release" | "weak" | "gpu" | "cta" | "sys" => {}
                _ => return Ok(false),
            }
        }
        let Arg::Address(base, offset) = address else { return self.fail("an address expected") };
        let (a, imm) = match base {
            Base::Absolute => (self.constant(true, Source::Constant(0))?, *offset),
            Base::Word(name) => match self.lookup(name) {
                Some(Symbol::Reg(Reg::Wide(r))) => (r, *offset),
                Some(Symbol::Reg(Reg::Narrow(r, _))) => {
                    let Reg::Wide(full) = self.allocate(Ty::U64, 1)? else { return Ok(false) };
                    self.emit(Op::ZeroExtend, guard, [full, r, 0, 0], 0);
                    (full, *offset)
                }
                _ => {
                    let (slot, found) = self.address_of(name, *offset, true)?;
                    if space == Space::Param || space == Space::Generic {
                        space = found;
                    }
                    if found != space {
                        return self.fail(format!("'{name}' is not in that memory"));
                    }
                    (slot, 0)
                }
            },
        };
        let values: Vec<Arg<'a>> = match value {
            Arg::List(list) => list.clone(),
            one => vec![one.clone()],
        };
        if values.len() != usize::from(count) || usize::from(count) * ty.bytes() > 16 {
            return self.fail("a vector of the wrong length");
        }
        let mut registers = [NONE; 4];
        let (mut wide, mut half) = (false, false);
        for (k, value) in values.iter().enumerate() {
            if store {
                (registers[k], wide) = self.read_any(value, ty)?;
            } else if !matches!(value, Arg::Word("_")) {
                (registers[k], wide, half) = self.written(Some(value))?;
            }
        }
        let access = Access { space, width: ty.bytes() as u8, count, wide, signed: ty.signed(), half };
        let d = if count == 1 {
            registers[0]
        } else {
            self.kernel.vectors.push(registers);
            (self.kernel.vectors.len() - 1) as u16
        };
        let op = match (store, space) {
            (true, Space::Param) => return self.fail("a kernel's parameters can't be written"),
            (true, _) => Op::St(access),
            (false, Space::Param)
                if count == 1
                    && matches!(base, Base::Word(n) if !matches!(self.lookup(n), Some(Symbol::Reg(_)))) =>
            {
                Op::LdParam(access)
            }
            (false, _) => Op::Ld(access),
        };
        self.emit(op, guard, [d, a, 0, 0], imm);
        Ok(true)
    }

    fn atomic(&mut self, parts: &[&str], guard: u16, args: &[Arg<'a>]) -> Result<bool> {
        let Some(ty) = Self::ty(parts) else { return Ok(false) };
        let (mut space, mut f) = (Space::Generic, None);
        for part in &parts[1..parts.len() - 1] {
            match *part {
                "global" => space = Space::Global,
                "shared" | "shared::cta" => space = Space::Shared,
                "relaxed" | "acquire" | "release" | "acq_rel" | "gpu" | "cta" | "sys" => {}
                name => f = lane::atomic(name, ty),
            }
        }
        let Some(f) = f else { return Ok(false) };
        let (d, args) = if parts[0] == "atom" {
            let d = if matches!(args.first(), Some(Arg::Word("_"))) {
                NONE
            } else {
                self.written(args.first())?.0
            };
            (d, &args[1..])
        } else {
            (NONE, args)
        };
        let Some(Arg::Address(base, offset)) = args.first() else { return Ok(false) };
        let (a, imm) = match base {
            Base::Absolute => (self.constant(true, Source::Constant(0))?, *offset),
            Base::Word(name) => match self.lookup(name) {
                Some(Symbol::Reg(Reg::Wide(r))) => (r, *offset),
                Some(Symbol::Reg(_)) => return self.fail(format!("'{name}' is no address")),
                _ => {
                    let (slot, found) = self.address_of(name, *offset, true)?;
                    space = found;
                    (slot, 0)
                }
            },
        };
        let b = match args.get(1) {
            Some(arg) => self.read(arg, ty)?,
            None => return Ok(false),
        };
        let c = match args.get(2) {
            Some(arg) => self.read(arg, ty)?,
            None => 0,
        };
        let width = ty.bytes() as u8;
        if width < 4 {
            return Ok(false);
        }
        let access = Access { space, width, count: 1, wide: ty.wide(), signed: false, half: false };
        self.emit(Op::Atom(f, access), guard, [d, a, b, c], imm);
        Ok(true)
    }

    fn control(&mut self, parts: &[&str], guard: u16, args: &[Arg<'a>]) -> Result<bool> {
        match (parts, args) {
            (["bra", ..], [Arg::Word(label)]) => {
                let call = self.calls.last().map_or(0, |c| c.0);
                self.branches.push((self.kernel.code.len(), (call, label), self.line));
                self.emit(Op::Bra, guard, [0; 4], 0);
            }
            (["ret", ..], _) => {
                let at = self.kernel.code.len();
                if let Some((_, returns)) = self.calls.last_mut() {
                    returns.push(at);
                    self.emit(Op::Bra, guard, [0; 4], 0);
                } else {
                    self.emit(Op::Exit, guard, [0; 4], 0);
                }
            }
            (["exit"], _) => self.emit(Op::Exit, guard, [0; 4], 0),
            (["trap"], _) => self.emit(Op::Trap, guard, [0; 4], 0),
            (["call", ..], _) => return self.call(guard, args),
            (
                ["bar", "sync"] | ["bar", "sync", "aligned"] | ["barrier", "sync", ..],
                [Arg::Number(id, false)],
            ) => {
                if *id != "0" {
                    return self.fail("only barrier 0 is known to this interpreter");
                }
                self.emit(Op::Bar, guard, [0; 4], 0);
            }
            (["bar", "warp", "sync"], _) | (["membar" | "fence" | "prefetch" | "prefetchu", ..], _) => {
                self.emit(Op::Nop, guard, [0; 4], 0);
            }
            (["bar", "red", kind, _], [to, Arg::Number("0", false), p]) => {
                let (name, not) = match p {
                    Arg::Word(p) => (p, 0),
                    Arg::Not(p) => (p, 1),
                    _ => return Ok(false),
                };
                let p = self.predicate(name)? << 1 | not;
                let (kind, d) = match (*kind, to) {
                    ("popc", to) => (0, self.written(Some(to))?.0),
                    ("and", Arg::Word(d)) => (1, self.predicate(d)?),
                    ("or", Arg::Word(d)) => (2, self.predicate(d)?),
                    _ => return Ok(false),
                };
                self.emit(Op::BarRed(kind), guard, [d, p, 0, 0], 0);
            }
            (["shfl", "sync", kind, "b32"], [to, value, lane, clamp, _members]) => {
                let kind = match *kind {
                    "up" => 0,
                    "down" => 1,
                    "bfly" => 2,
                    "idx" => 3,
                    _ => return Ok(false),
                };
                let (d, p) = match to {
                    Arg::Pair(d, p) => (self.written(Some(&Arg::Word(d)))?.0, self.predicate(p)?),
                    to => (self.written(Some(to))?.0, NONE),
                };
                let (a, b, c) =
                    (self.read(value, Ty::U32)?, self.read(lane, Ty::U32)?, self.read(clamp, Ty::U32)?);
                self.emit(Op::Shfl(kind), guard, [d, a, b, c], p.into());
            }
            (["vote", "sync", kind, _], [to, p, members]) => {
                let (name, not) = match p {
                    Arg::Word(p) => (p, 0),
                    Arg::Not(p) => (p, 1),
                    _ => return Ok(false),
                };
                let p = self.predicate(name)? << 1 | not;
                let b = self.read(members, Ty::U32)?;
                let (kind, d) = match (*kind, to) {
                    ("all", Arg::Word(d)) => (0, self.predicate(d)?),
                    ("any", Arg::Word(d)) => (1, self.predicate(d)?),
                    ("uni", Arg::Word(d)) => (2, self.predicate(d)?),
                    ("ballot", to) => (3, self.written(Some(to))?.0),
                    _ => return Ok(false),
                };
                self.emit(Op::Vote(kind), guard, [d, p, b, 0], 0);
            }
            (["activemask", "b32"], [to]) => {
                let d = self.written(Some(to))?.0;
                self.emit(Op::ActiveMask, guard, [d, 0, 0, 0], 0);
            }
            (["bfe", ty], [to, a, b, c]) => {
                let Some(ty) = Ty::named(ty) else { return Ok(false) };
                let (d, wide, _) = self.written(Some(to))?;
                let (a, b, c) = (self.read(a, ty)?, self.read(b, Ty::U32)?, self.read(c, Ty::U32)?);
                let Some(f) = lane::arithmetic("bfe", ty) else { return Ok(false) };
                self.emit(Op::Lane(f, u8::from(wide) * 0b11), guard, [d, a, b, c], 0);
            }
            (["bfi", ty], [to, a, b, pos, len]) => {
                let Some(ty) = Ty::named(ty) else { return Ok(false) };
                let (d, wide, _) = self.written(Some(to))?;
                let (a, b) = (self.read(a, ty)?, self.read(b, ty)?);
                let (pos, len) = (self.read(pos, Ty::U32)?, self.read(len, Ty::U32)?);
                let Reg::Narrow(c, _) = self.allocate(Ty::U32, 1)? else { return Ok(false) };
                self.emit(Op::Lane(pack_position, 0), guard, [c, pos, len, 0], 0);
                let Some(f) = lane::arithmetic("bfi", ty) else { return Ok(false) };
                self.emit(Op::Lane(f, u8::from(wide) * 0b111), guard, [d, a, b, c], 0);
            }
            (["slct", ty, "s32"], [to, a, b, c]) => {
                let Some(ty) = Ty::named(ty) else { return Ok(false) };
                let (d, wide, _) = self.written(Some(to))?;
                let (a, b, c) = (self.read(a, ty)?, self.read(b, ty)?, self.read(c, Ty::S32)?);
                self.emit(Op::Lane(slct, u8::from(wide) * 0b111), guard, [d, a, b, c], 0);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn call(&mut self, guard: u16, args: &[Arg<'a>]) -> Result<bool> {
        let (returns, name, given): (&[Arg], _, &[Arg]) = match args {
            [Arg::List(returns), Arg::Word(name), Arg::List(given)] => (returns, name, given),
            [Arg::Word(name), Arg::List(given)] => (&[], name, given),
            [Arg::Word(name)] => (&[], name, &[]),
            _ => return Ok(false),
        };
        let Some(function) = self.names.functions.get(name) else {
            return self.fail(format!("no function '{name}' in this text"));
        };
        if self.calls.len() == DEPTH {
            return self.fail("functions are called recursively");
        }
        if guard != NONE {
            return Ok(false);
        }
        if returns.len() != function.returns.len() || given.len() != function.params.len() {
            return self.fail(format!("'{name}' has another number of parameters"));
        }
        let mut scope = Scope::default();
        let formal = function.returns.iter().chain(&function.params);
        for (arg, (formal, size)) in returns.iter().chain(given).zip(formal) {
            let at = match arg {
                Arg::Word(name) => match self.lookup(name) {
                    Some(Symbol::CallParam(at)) => at,
                    _ => return self.fail(format!("'{name}' is no parameter")),
                },
                _ => return Ok(false),
            };
            let _ = size;
            scope.names.insert(formal, Symbol::CallParam(at));
        }
        self.call_count += 1;
        self.calls.push((self.call_count, Vec::new()));
        let depth = self.scopes.len();
        let line = self.line;
        self.scopes.push(scope);
        self.block(function.body.clone())?;
        self.scopes.truncate(depth);
        self.line = line;
        let end = self.kernel.code.len();
        if let Some((_, returns)) = self.calls.pop() {
            for at in returns {
                self.kernel.code[at].imm = end as i64;
            }
        }
        Ok(true)
    }
}

fn unpack(a: u64, _: u64, c: u64) -> u64 {
    a >> (c & 0xff) & lane::mask((c >> 8) as u32)
}

fn pack(a: u64, b: u64, c: u64) -> u64 {
    a & lane::mask(c as u32) | (b & lane::mask(c as u32)) << c
}

fn pack_position(a: u64, b: u64, _: u64) -> u64 {
    a & 0xff | (b & 0xff) << 8
}

fn slct(a: u64, b: u64, c: u64) -> u64 {
    if c as i32 >= 0 { a } else { b }
}
