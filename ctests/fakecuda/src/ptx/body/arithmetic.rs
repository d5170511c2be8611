//! Instructions from registers to registers.

use super::*;

impl<'a> Body<'_, 'a, '_> {
    /// The last part of an opcode as a type.
    pub(super) fn ty(parts: &[&str]) -> Option<Ty> {
        parts.last().and_then(|name| Ty::named(name))
    }

    /// The register that an instruction writes: number, in the wide file, 16 bits only.
    pub(super) fn written(&self, arg: Option<&Arg<'a>>) -> Result<(u16, bool, bool)> {
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

    pub(super) fn arithmetic(&mut self, parts: &[&str], guard: u16, args: &[Arg<'a>]) -> Result<bool> {
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

    pub(super) fn logic(&mut self, parts: &[&str], guard: u16, args: &[Arg<'a>]) -> Result<bool> {
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

    pub(super) fn mov(&mut self, parts: &[&str], guard: u16, args: &[Arg<'a>]) -> Result<bool> {
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

    pub(super) fn select(&mut self, parts: &[&str], guard: u16, args: &[Arg<'a>]) -> Result<bool> {
        let (Some(ty), [to, a, b, Arg::Word(p)]) = (Self::ty(parts), args) else { return Ok(false) };
        let (d, _, _) = self.written(Some(to))?;
        let (a, b) = (self.read(a, ty)?, self.read(b, ty)?);
        let p = self.predicate(p)?;
        self.emit(if ty.wide() { Op::Sel64 } else { Op::Sel32 }, guard, [d, a, b, p], 0);
        Ok(true)
    }

    pub(super) fn compare(&mut self, parts: &[&str], guard: u16, args: &[Arg<'a>]) -> Result<bool> {
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

    pub(super) fn convert(&mut self, parts: &[&str], guard: u16, args: &[Arg<'a>]) -> Result<bool> {
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
    pub(super) fn window(&mut self, parts: &[&str], guard: u16, args: &[Arg<'a>]) -> Result<bool> {
        let [to, from] = args else { return Ok(false) };
        let (away, space) = match parts {
            [_, "to", space, "u64"] => (true, *space),
            [_, space, "u64"] => (false, *space),
            _ => return Ok(false),
        };
        let base = match space {
            "global" | "const" => 0,
            "shared" => crate::ptx::warp::SHARED_WINDOW,
            "local" => crate::ptx::warp::LOCAL_WINDOW,
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
}

fn unpack(a: u64, _: u64, c: u64) -> u64 {
    a >> (c & 0xff) & lane::mask((c >> 8) as u32)
}

fn pack(a: u64, b: u64, c: u64) -> u64 {
    a & lane::mask(c as u32) | (b & lane::mask(c as u32)) << c
}

pub(super) fn pack_position(a: u64, b: u64, _: u64) -> u64 {
    a & 0xff | (b & 0xff) << 8
}

pub(super) fn slct(a: u64, b: u64, c: u64) -> u64 {
    if c as i32 >= 0 { a } else { b }
}
