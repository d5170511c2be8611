//! Decodes the body of a kernel into instructions.

use std::collections::HashMap;

use super::decode::{Cursor, Result, width};
use super::lexer::Kind;
use super::program::*;
use super::simple::{Op, simple};

#[derive(Clone, Copy, Debug)]
enum Symbol {
    Reg(Reg),
    Shared(usize),
    Param(usize),
}

#[derive(Debug)]
enum Arg<'a> {
    Word(&'a str),
    Number(&'a str, bool),
    /// Base of the address, and offset.
    Address(&'a str, i64),
    Pair(Box<[Arg<'a>; 2]>),
}

pub(super) struct Body<'a> {
    kernel: Kernel,
    names: HashMap<&'a str, Symbol>,
    /// The parts of `%r<59>`: prefix, first register of the range, count.
    ranges: Vec<(&'a str, Reg, u16)>,
    constants: HashMap<(bool, Source), u16>,
    branches: Vec<(usize, &'a str, u32)>,
    labels: HashMap<&'a str, usize>,
    line: u32,
}

impl<'a> Body<'a> {
    pub fn new(kernel: Kernel, params: Vec<(&'a str, usize)>) -> Self {
        let names = params.into_iter().map(|(name, offset)| (name, Symbol::Param(offset)));
        Body {
            kernel,
            names: names.collect(),
            ranges: Vec::new(),
            constants: HashMap::new(),
            branches: Vec::new(),
            labels: HashMap::new(),
            line: 0,
        }
    }

    pub fn decode(mut self, cursor: &mut Cursor<'_, 'a>) -> Result<Kernel> {
        while !cursor.take('}') {
            self.line = cursor.line();
            if cursor.take('@') {
                let inverted = cursor.take('!');
                let guard = self.register(cursor.word()?, 'p')? << 1 | u16::from(inverted);
                let opcode = cursor.word()?;
                self.instruction(cursor, opcode, guard)?;
                continue;
            }
            let word = cursor.word()?;
            if cursor.take(':') {
                self.labels.insert(word, self.kernel.code.len());
            } else if word.starts_with('.') {
                self.directive(cursor, word)?;
            } else {
                self.instruction(cursor, word, NONE)?;
            }
        }
        self.emit(Op::Exit, NONE, [0; 4], 0);
        for (at, label, line) in self.branches {
            let Some(target) = self.labels.get(label) else {
                return Err(Refused { line, why: format!("no label '{label}'") });
            };
            self.kernel.code[at].imm = *target as i64;
        }
        Ok(self.kernel)
    }

    fn fail<T>(&self, why: impl Into<String>) -> Result<T> {
        Err(Refused { line: self.line, why: why.into() })
    }

    fn unknown<T>(&self, word: &str) -> Result<T> {
        self.fail(format!("'{word}' is not known to this interpreter"))
    }

    fn emit(&mut self, op: Op, guard: u16, [d, a, b, c]: [u16; 4], imm: i64) {
        self.kernel.code.push(Ins { op, guard, d, a, b, c, imm });
        self.kernel.lines.push(self.line);
    }

    fn directive(&mut self, cursor: &mut Cursor<'_, 'a>, word: &str) -> Result<()> {
        match word {
            ".reg" => {
                let ty = cursor.word()?;
                let file = match (ty, ty.strip_prefix('.').and_then(width)) {
                    (".pred", _) => 'p',
                    (_, Some(8)) => 'w',
                    (_, Some(2 | 4)) => 'n',
                    _ => return self.fail(format!("'{ty}' is no type of registers")),
                };
                loop {
                    let name = cursor.word()?;
                    if cursor.take('<') {
                        let count = cursor.number()? as u16;
                        cursor.expect('>')?;
                        let first = self.allocate(file, count)?;
                        self.ranges.push((name, first, count));
                    } else {
                        let reg = self.allocate(file, 1)?;
                        self.names.insert(name, Symbol::Reg(reg));
                    }
                    if !cursor.take(',') {
                        break;
                    }
                }
                cursor.expect(';')
            }
            ".shared" => {
                let (name, align, bytes) = cursor.variable()?;
                let at = self.kernel.shared_bytes.next_multiple_of(align.max(1));
                self.kernel.shared_bytes = at + bytes;
                self.names.insert(name, Symbol::Shared(at));
                cursor.expect(';')
            }
            ".pragma" => {
                cursor.skip_statement();
                Ok(())
            }
            other => self.unknown(other),
        }
    }

    fn allocate(&mut self, file: char, count: u16) -> Result<Reg> {
        let (number, reg): (_, fn(u16) -> Reg) = match file {
            'n' => (0, Reg::Narrow),
            'w' => (1, Reg::Wide),
            _ => (2, Reg::Pred),
        };
        let first = self.kernel.files[number];
        self.kernel.files[number] += usize::from(count);
        if self.kernel.files[number] >= usize::from(NONE >> 1) {
            return self.fail("too many registers");
        }
        Ok(reg(first as u16))
    }

    fn lookup(&self, name: &str) -> Option<Symbol> {
        self.names.get(name).copied().or_else(|| {
            self.ranges.iter().find_map(|(prefix, first, count)| {
                let number: u16 = name.strip_prefix(prefix)?.parse().ok().filter(|n| n < count)?;
                Some(Symbol::Reg(match *first {
                    Reg::Narrow(r) => Reg::Narrow(r + number),
                    Reg::Wide(r) => Reg::Wide(r + number),
                    Reg::Pred(r) => Reg::Pred(r + number),
                }))
            })
        })
    }

    fn register(&self, name: &str, file: char) -> Result<u16> {
        match (self.lookup(name), file) {
            (Some(Symbol::Reg(Reg::Narrow(r))), 'n')
            | (Some(Symbol::Reg(Reg::Wide(r))), 'w')
            | (Some(Symbol::Reg(Reg::Pred(r))), 'p') => Ok(r),
            (Some(Symbol::Reg(reg)), _) => self.fail(format!("'{name}' is {reg:?}: another size is needed")),
            _ => self.fail(format!("'{name}' is no register")),
        }
    }

    fn written(&self, arg: &Arg<'a>, file: char) -> Result<u16> {
        match arg {
            Arg::Word(name) => self.register(name, file),
            _ => self.fail("no register to write to"),
        }
    }

    fn constant(&mut self, file: char, source: Source) -> Result<u16> {
        let key = (file == 'w', source);
        if let Some(number) = self.constants.get(&key) {
            return Ok(*number);
        }
        let reg = self.allocate(file, 1)?;
        let (Reg::Narrow(number) | Reg::Wide(number) | Reg::Pred(number)) = reg;
        self.kernel.init.push((reg, source));
        self.constants.insert(key, number);
        Ok(number)
    }

    fn read(&mut self, arg: &Arg<'a>, file: char) -> Result<u16> {
        match arg {
            Arg::Number(text, negative) if file != 'p' => {
                let value = match text.strip_prefix("0f").map(|bits| u32::from_str_radix(bits, 16)) {
                    Some(Ok(bits)) => Some(u64::from(bits)),
                    Some(Err(_)) => None,
                    None => text.parse::<u64>().ok().map(|x| if *negative { x.wrapping_neg() } else { x }),
                };
                let Some(value) = value else { return self.fail(format!("'{text}' is no number")) };
                self.constant(file, Source::Constant(value))
            }
            Arg::Word(name) => match (self.lookup(name), special(name)) {
                (Some(Symbol::Shared(at) | Symbol::Param(at)), _) if file != 'p' => {
                    self.constant(file, Source::Constant(at as u64))
                }
                (None, Some((special, axis))) if file == 'n' => {
                    self.constant('n', Source::Special(special, axis))
                }
                _ => self.register(name, file),
            },
            _ => self.fail(format!("{arg:?} is no value")),
        }
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
        if cursor.take('{') {
            let first = self.arg(cursor)?;
            cursor.expect(',')?;
            let second = self.arg(cursor)?;
            cursor.expect('}')?;
            return Ok(Arg::Pair(Box::new([first, second])));
        }
        if cursor.take('[') {
            let (base, mut offset) = (cursor.word()?, 0);
            if cursor.take('+') {
                let negative = cursor.take('-');
                let number = cursor.number()? as i64;
                offset = if negative { -number } else { number };
            }
            cursor.expect(']')?;
            return Ok(Arg::Address(base, offset));
        }
        let negative = cursor.take('-');
        match cursor.peek() {
            Some(Kind::Number(_)) => Ok(Arg::Number(cursor.digits()?, negative)),
            _ => Ok(Arg::Word(cursor.word()?)),
        }
    }

    fn instruction(&mut self, cursor: &mut Cursor<'_, 'a>, opcode: &str, guard: u16) -> Result<()> {
        let args = self.args(cursor)?;
        if let Some((op, files)) = simple(opcode) {
            if args.len() != files.len() {
                return self.fail(format!("{} operands where {} are needed", args.len(), files.len()));
            }
            let mut operands = [0; 4];
            for (k, (arg, file)) in args.iter().zip(files.chars()).enumerate() {
                operands[k] = if k == 0 { self.written(arg, file)? } else { self.read(arg, file)? };
            }
            self.emit(op, guard, operands, 0);
            return Ok(());
        }
        match (opcode, args.as_slice()) {
            ("bra" | "bra.uni", [Arg::Word(label)]) => {
                self.branches.push((self.kernel.code.len(), label, self.line));
                self.emit(Op::Bra, guard, [0; 4], 0);
            }
            ("ret", []) => self.emit(Op::Exit, guard, [0; 4], 0),
            ("trap", []) => self.emit(Op::Trap, guard, [0; 4], 0),
            ("bar.sync", [Arg::Number("0", false)]) => self.emit(Op::Bar, guard, [0; 4], 0),
            ("atom.global.max.u32", [to, Arg::Address(base, offset), value]) => {
                let (a, imm) = self.place(base, *offset, guard, Space::Global)?;
                let (d, b) = (self.written(to, 'n')?, self.read(value, 'n')?);
                self.emit(Op::AtomicMax, guard, [d, a, b, 0], imm);
            }
            ("atom.global.add.u64", [to, Arg::Address(base, offset), value]) => {
                let (a, imm) = self.place(base, *offset, guard, Space::Global)?;
                let (d, b) = (self.written(to, 'w')?, self.read(value, 'w')?);
                self.emit(Op::AtomicAdd, guard, [d, a, b, 0], imm);
            }
            (_, [first, second]) => match access(opcode) {
                Some((false, access)) => self.memory(false, access, guard, first, second)?,
                Some((true, access)) => self.memory(true, access, guard, second, first)?,
                None => return self.unknown(opcode),
            },
            _ => return self.unknown(opcode),
        }
        Ok(())
    }

    fn memory(
        &mut self,
        store: bool,
        access: Access,
        guard: u16,
        value: &Arg<'a>,
        address: &Arg<'a>,
    ) -> Result<()> {
        let Arg::Address(base, offset) = address else { return self.fail("an address expected") };
        let (a, imm) = self.place(base, *offset, guard, access.space)?;
        let values = match value {
            Arg::Pair(both) => both.as_slice(),
            one => std::slice::from_ref(one),
        };
        if (values.len() == 2) != access.pair {
            return self.fail("a vector of the wrong length");
        }
        let (mut registers, file) = ([0; 2], if access.wide() { 'w' } else { 'n' });
        for (register, value) in registers.iter_mut().zip(values) {
            *register = if store { self.read(value, file)? } else { self.written(value, file)? };
        }
        let op = if store { Op::St(access) } else { Op::Ld(access) };
        self.emit(op, guard, [registers[0], a, 0, registers[1]], imm);
        Ok(())
    }

    fn place(&mut self, name: &str, offset: i64, guard: u16, space: Space) -> Result<(u16, i64)> {
        match (self.lookup(name), space) {
            (Some(Symbol::Reg(Reg::Wide(r))), _) => Ok((r, offset)),
            (Some(Symbol::Reg(Reg::Narrow(r))), _) => {
                let Reg::Wide(full) = self.allocate('w', 1)? else { return self.fail("an address is wide") };
                self.emit(Op::ZeroExtend, guard, [full, r, 0, 0], 0);
                Ok((full, offset))
            }
            (Some(Symbol::Shared(at)), Space::Shared) | (Some(Symbol::Param(at)), Space::Param) => {
                Ok((self.constant('w', Source::Constant(at as u64))?, offset))
            }
            _ => self.fail(format!("'{name}' is no address of {space:?} memory")),
        }
    }
}

fn access(opcode: &str) -> Option<(bool, Access)> {
    let (verb, rest) = opcode.split_once('.')?;
    let (rest, ty) = rest.rsplit_once('.')?;
    let store = match verb {
        "ld" => false,
        "st" => true,
        _ => return None,
    };
    let (kind, pair) = rest.strip_suffix(".v2").map_or((rest, false), |kind| (kind, true));
    let space = match (kind, store) {
        ("global" | "global.cs", _) | ("global.nc" | "volatile.global", false) => Space::Global,
        ("shared", _) => Space::Shared,
        ("param", false) => Space::Param,
        _ => return None,
    };
    let width = match (ty, space) {
        ("u16", Space::Global) => 2,
        ("u32" | "f32", _) => 4,
        ("u64", _) => 8,
        _ => return None,
    };
    Some((store, Access { space, width, pair }))
}

fn special(name: &str) -> Option<(Special, usize)> {
    let (name, axis) = name.split_once('.')?;
    let special = match name {
        "%tid" => Special::Tid,
        "%ntid" => Special::Ntid,
        "%ctaid" => Special::Ctaid,
        "%nctaid" => Special::Nctaid,
        _ => return None,
    };
    Some((special, ["x", "y", "z"].iter().position(|a| *a == axis)?))
}
