//! Loads, stores, copies and atomics.

use super::*;

impl<'a> Body<'_, 'a, '_> {
    pub(super) fn memory(&mut self, parts: &[&str], guard: u16, args: &[Arg<'a>]) -> Result<bool> {
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
        let (a, imm) = self.place(*base, *offset, guard, &mut space)?;
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

    /// The register that an address begins with, and what is added. The space may become that of a variable.
    fn place(&mut self, base: Base<'a>, offset: i64, guard: u16, space: &mut Space) -> Result<(u16, i64)> {
        let Base::Word(name) = base else { return Ok((self.constant(true, Source::Constant(0))?, offset)) };
        match self.lookup(name) {
            Some(Symbol::Reg(Reg::Wide(r))) => Ok((r, offset)),
            Some(Symbol::Reg(Reg::Narrow(r, _))) => {
                let Reg::Wide(full) = self.allocate(Ty::U64, 1)? else {
                    return self.fail("an address has 64 bits");
                };
                self.emit(Op::ZeroExtend, guard, [full, r, 0, 0], 0);
                Ok((full, offset))
            }
            _ => {
                let (slot, found) = self.address_of(name, offset, true)?;
                if *space == Space::Param || *space == Space::Generic {
                    *space = found;
                }
                if found != *space {
                    return self.fail(format!("'{name}' is not in that memory"));
                }
                Ok((slot, 0))
            }
        }
    }

    /// Copies that go on while their thread does.
    pub(super) fn copy(&mut self, parts: &[&str], guard: u16, args: &[Arg<'a>]) -> Result<bool> {
        match (parts, args) {
            (["cp", "async", "commit_group"], []) => self.emit(Op::EndGroup, guard, [0; 4], 0),
            (["cp", "async", "wait_all"], []) => self.emit(Op::WaitCopies, guard, [0; 4], -1),
            (["cp", "async", "wait_group"], [Arg::Number(last, false)]) => {
                let Ok(last) = last.parse() else { return Ok(false) };
                self.emit(Op::WaitCopies, guard, [0; 4], last);
            }
            (
                ["cp", "async", cache @ ("ca" | "cg"), "shared", "global"],
                [Arg::Address(to, more), Arg::Address(from, further), Arg::Number(bytes, false)],
            ) => {
                let bytes = match (*bytes, *cache) {
                    ("4", "ca") => 4,
                    ("8", "ca") => 8,
                    ("16", _) => 16,
                    _ => return self.fail(format!("a copy of {bytes} bytes by .{cache}")),
                };
                let (mut shared, mut global) = (Space::Shared, Space::Global);
                let (a, imm) = self.place(*to, *more, guard, &mut shared)?;
                let (b, other) = self.place(*from, *further, guard, &mut global)?;
                if imm != 0 || other != 0 {
                    return self
                        .fail("a copy's addresses with something added are not known to this interpreter");
                }
                self.emit(Op::Copy(bytes), guard, [0, a, b, 0], 0);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn atomic(&mut self, parts: &[&str], guard: u16, args: &[Arg<'a>]) -> Result<bool> {
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
}
