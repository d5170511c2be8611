//! Branches, barriers, what a warp does together, calls.

use super::arithmetic::{pack_position, slct};
use super::*;

impl<'a> Body<'_, 'a, '_> {
    pub(super) fn control(&mut self, parts: &[&str], guard: u16, args: &[Arg<'a>]) -> Result<bool> {
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
            (["bar", "warp", "sync"], _) => {
                self.kernel.warps_meet = true;
                self.emit(Op::Nop, guard, [0; 4], 0);
            }
            (["membar" | "fence" | "prefetch" | "prefetchu", ..], _) => {
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

    pub(super) fn call(&mut self, guard: u16, args: &[Arg<'a>]) -> Result<bool> {
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
