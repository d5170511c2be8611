//! The body of a kernel into instructions. Calls are inlined: a card's own stack would be of
//! no use to us, and compilers emit calls for few functions and never recursively.

mod arithmetic;
mod control;
mod memory;

use std::collections::HashMap;
use std::ops::Range;

use crate::ptx::decode::{Cursor, Names, Result, literal, variable};
use crate::ptx::lane::{self, Ty};
use crate::ptx::lexer::{Kind, Token};
use crate::ptx::program::*;

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

pub(in crate::ptx) struct Body<'t, 'a, 'k> {
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
            "cp" => self.copy(&parts, guard, &args)?,
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
}
