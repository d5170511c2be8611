//! Tokens into a [`Module`]: everything that can be refused is refused here, with its line,
//! as the assembler inside a driver does at load.

use std::collections::HashMap;

use super::body::Body;
use super::lane::Ty;
use super::lexer::{Kind, Token, tokens};
use super::program::{Global, Kernel, Module, Param, Refused};

pub(super) type Result<T> = std::result::Result<T, Refused>;

/// A function that is not a kernel: inlined where it is called.
#[derive(Clone, Debug, Default)]
pub(super) struct Function<'a> {
    pub returns: Vec<(&'a str, usize)>,
    pub params: Vec<(&'a str, usize)>,
    /// The tokens between its braces.
    pub body: std::ops::Range<usize>,
}

/// What the module's names stand for.
#[derive(Default)]
pub(super) struct Names<'a> {
    pub globals: HashMap<&'a str, usize>,
    /// Shared variables of the module: name to bytes and alignment; zero bytes if dynamic.
    pub shared: HashMap<&'a str, (usize, usize)>,
    pub functions: HashMap<&'a str, Function<'a>>,
}

/// Walks over tokens.
#[derive(Clone)]
pub(super) struct Cursor<'t, 'a> {
    pub tokens: &'t [Token<'a>],
    pub at: usize,
}

impl<'t, 'a> Cursor<'t, 'a> {
    pub fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |t| t.line)
    }

    pub fn fail<T>(&self, why: impl Into<String>) -> Result<T> {
        Err(Refused { line: self.line(), why: why.into() })
    }

    pub fn peek(&self) -> Option<Kind<'a>> {
        self.tokens.get(self.at).map(|t| t.kind)
    }

    pub fn is(&self, mark: char) -> bool {
        self.peek() == Some(Kind::Mark(mark))
    }

    pub fn take(&mut self, mark: char) -> bool {
        let there = self.is(mark);
        self.at += usize::from(there);
        there
    }

    pub fn expect(&mut self, mark: char) -> Result<()> {
        if self.take(mark) { Ok(()) } else { self.fail(format!("'{mark}' expected")) }
    }

    pub fn word(&mut self) -> Result<&'a str> {
        match self.peek() {
            Some(Kind::Word(word)) => {
                self.at += 1;
                Ok(word)
            }
            _ => self.fail("a name expected"),
        }
    }

    pub fn number(&mut self) -> Result<u64> {
        match self.peek() {
            Some(Kind::Number(text)) => match integer(text) {
                Some(value) => {
                    self.at += 1;
                    Ok(value)
                }
                None => self.fail(format!("'{text}' is no integer")),
            },
            _ => self.fail("a number expected"),
        }
    }

    /// Behind the next `;`.
    pub fn skip_statement(&mut self) {
        while self.at < self.tokens.len() && !self.take(';') {
            self.at += 1;
        }
    }
}

pub(super) fn integer(text: &str) -> Option<u64> {
    let text = text.trim_end_matches('U');
    if let Some(hex) = text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        u64::from_str_radix(hex, 16).ok()
    } else if let Some(binary) = text.strip_prefix("0b") {
        u64::from_str_radix(binary, 2).ok()
    } else if text.len() > 1 && text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit()) {
        u64::from_str_radix(text, 8).ok()
    } else {
        text.parse().ok()
    }
}

/// Decodes a whole text.
pub fn parse(text: &str) -> Result<Module> {
    let list = tokens(text).map_err(|(line, why)| Refused { line, why })?;
    let mut cursor = Cursor { tokens: &list, at: 0 };
    let mut module = Module::default();
    let mut names = Names::default();
    let mut entries = Vec::new();
    let (mut version, mut target) = (false, false);
    while cursor.peek().is_some() {
        if let Some(Kind::Mark(mark)) = cursor.peek() {
            if mark == ';' {
                cursor.at += 1;
                continue;
            }
            return cursor.fail(format!("'{mark}' where a directive was expected"));
        }
        let start = cursor.at;
        match cursor.word()? {
            ".version" => {
                let Some(Kind::Number(text)) = cursor.peek() else { return cursor.fail("no version") };
                let parsed = text.split_once('.').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
                let Some(found) = parsed else { return cursor.fail("no version") };
                cursor.at += 1;
                module.version = found;
                version = true;
            }
            ".target" => {
                let name = cursor.word()?;
                let digits = name.strip_prefix("sm_").map(|n| n.trim_end_matches(['a', 'f']));
                let Some(number) = digits.and_then(|n| n.parse().ok()) else {
                    return cursor.fail(format!("'{name}' is no target"));
                };
                module.target = number;
                target = true;
                while cursor.take(',') {
                    cursor.word()?;
                }
            }
            ".address_size" => {
                if cursor.number()? != 64 {
                    return cursor.fail("only 64-bit addresses");
                }
            }
            ".visible" | ".weak" | ".common" => {}
            ".extern" => {
                if cursor.peek() == Some(Kind::Word(".func")) {
                    cursor.skip_statement();
                }
            }
            ".entry" => entries.push(entry(&mut cursor)?),
            ".func" => function(&mut cursor, &mut names)?,
            space @ (".global" | ".const" | ".shared") => {
                let (name, align, ty, count) = variable(&mut cursor)?;
                let bytes = ty.bytes() * count.unwrap_or(0);
                if space == ".shared" {
                    names.shared.insert(name, (bytes, align));
                } else {
                    let mut init = Vec::new();
                    if cursor.take('=') {
                        initialiser(&mut cursor, ty, &mut init)?;
                    }
                    init.resize(bytes, 0);
                    names.globals.insert(name, module.globals.len());
                    let constant = space == ".const";
                    module.globals.push(Global { name: name.into(), constant, align, init });
                }
                cursor.expect(';')?;
            }
            ".file" | ".pragma" | ".alias" | ".section" => {
                let line = cursor.line();
                while cursor.peek().is_some() && cursor.line() == line {
                    cursor.at += 1;
                }
            }
            other => {
                cursor.at = start;
                return cursor.fail(format!("'{other}' where a directive was expected"));
            }
        }
        if !version {
            cursor.at = start;
            return cursor.fail("a PTX text begins with .version");
        }
    }
    if !version || !target {
        return cursor.fail("no .version and .target: this is no PTX text");
    }
    for (mut kernel, params, body) in entries {
        Body::new(&list, &names, &mut kernel, &params).decode(body)?;
        module.kernels.push(kernel);
    }
    Ok(module)
}

type Entry<'a> = (Kernel, Vec<(&'a str, usize)>, std::ops::Range<usize>);

fn entry<'a>(cursor: &mut Cursor<'_, 'a>) -> Result<Entry<'a>> {
    let mut kernel = Kernel { name: cursor.word()?.into(), ..Kernel::default() };
    let mut names = Vec::new();
    for (name, size, align) in formals(cursor)? {
        let offset = kernel.param_bytes.next_multiple_of(align);
        kernel.params.push(Param { offset, size });
        kernel.param_bytes = offset + size;
        names.push((name, offset));
    }
    if kernel.param_bytes > 4096 {
        return cursor.fail("more than 4096 bytes of parameters");
    }
    while let Some(Kind::Word(directive)) = cursor.peek() {
        cursor.at += 1;
        let mut sizes = [1u32; 3];
        for size in &mut sizes {
            if !matches!(cursor.peek(), Some(Kind::Number(_))) {
                break;
            }
            *size = cursor.number()? as u32;
            if !cursor.take(',') {
                break;
            }
        }
        match directive {
            ".maxntid" => kernel.max_threads = Some(sizes.iter().product()),
            ".reqntid" => {
                kernel.required = Some(sizes);
                kernel.max_threads = Some(sizes.iter().product());
            }
            ".minnctapersm" | ".maxnreg" | ".maxnctapersm" | ".pragma" => {}
            other => return cursor.fail(format!("'{other}' is no directive of a kernel")),
        }
    }
    Ok((kernel, names, braces(cursor)?))
}

fn function<'a>(cursor: &mut Cursor<'_, 'a>, names: &mut Names<'a>) -> Result<()> {
    let mut function = Function::default();
    if cursor.is('(') {
        function.returns = formals(cursor)?.into_iter().map(|(name, size, _)| (name, size)).collect();
    }
    let name = cursor.word()?;
    function.params = formals(cursor)?.into_iter().map(|(name, size, _)| (name, size)).collect();
    while let Some(Kind::Word(_)) = cursor.peek() {
        cursor.at += 1;
    }
    if !cursor.take(';') {
        function.body = braces(cursor)?;
        names.functions.insert(name, function);
    }
    Ok(())
}

/// `( .param ..., .param ... )`: name, bytes, alignment of each.
fn formals<'a>(cursor: &mut Cursor<'_, 'a>) -> Result<Vec<(&'a str, usize, usize)>> {
    let mut list = Vec::new();
    if !cursor.take('(') {
        return Ok(list);
    }
    while !cursor.take(')') {
        match cursor.word()? {
            ".param" | ".reg" => {}
            other => return cursor.fail(format!("'{other}' where .param was expected")),
        }
        let (name, align, ty, count) = variable(cursor)?;
        list.push((name, ty.bytes() * count.unwrap_or(0), align));
        if !cursor.is(')') {
            cursor.expect(',')?;
        }
    }
    Ok(list)
}

/// The tokens between `{` and its `}`.
fn braces(cursor: &mut Cursor<'_, '_>) -> Result<std::ops::Range<usize>> {
    cursor.expect('{')?;
    let (start, mut depth) = (cursor.at, 1);
    while depth > 0 {
        match cursor.peek() {
            Some(Kind::Mark('{')) => depth += 1,
            Some(Kind::Mark('}')) => depth -= 1,
            Some(_) => {}
            None => return cursor.fail("the text ends inside a function"),
        }
        cursor.at += 1;
    }
    Ok(start..cursor.at - 1)
}

/// `.align 4 .b8 name[16]`: name, alignment, element, count (none for `[]`).
pub(super) fn variable<'a>(cursor: &mut Cursor<'_, 'a>) -> Result<(&'a str, usize, Ty, Option<usize>)> {
    let (mut align, mut ty, mut vector) = (None, None, 1);
    loop {
        match cursor.word()? {
            ".align" => align = Some(cursor.number()? as usize),
            ".ptr" | ".global" | ".shared" | ".const" | ".managed" => {}
            ".v2" => vector = 2,
            ".v4" => vector = 4,
            word if word.starts_with('.') => match Ty::named(&word[1..]) {
                Some(found) => ty = Some(found),
                None => return cursor.fail(format!("'{word}' is no type")),
            },
            name => {
                let Some(ty) = ty else { return cursor.fail("a variable without a type") };
                let mut count = Some(vector);
                while cursor.take('[') {
                    count = if cursor.is(']') {
                        None
                    } else {
                        Some(count.unwrap_or(1) * cursor.number()? as usize)
                    };
                    cursor.expect(']')?;
                }
                return Ok((name, align.unwrap_or(ty.bytes() * vector), ty, count));
            }
        }
    }
}

fn initialiser(cursor: &mut Cursor<'_, '_>, ty: Ty, out: &mut Vec<u8>) -> Result<()> {
    if cursor.take('{') {
        while !cursor.take('}') {
            initialiser(cursor, ty, out)?;
            if !cursor.is('}') {
                cursor.expect(',')?;
            }
        }
        return Ok(());
    }
    let negative = cursor.take('-');
    let Some(Kind::Number(text)) = cursor.peek() else { return cursor.fail("an address as initial value") };
    let Some(bits) = literal(text, negative, ty) else {
        return cursor.fail(format!("'{text}' is no number"));
    };
    cursor.at += 1;
    out.extend_from_slice(&bits.to_le_bytes()[..ty.bytes()]);
    Ok(())
}

/// The bits of a literal where a value of type `ty` is wanted.
pub(super) fn literal(text: &str, negative: bool, ty: Ty) -> Option<u64> {
    if let Some(hex) = text.strip_prefix("0f").or(text.strip_prefix("0F")).filter(|h| h.len() == 8) {
        let x = f32::from_bits(u32::from_str_radix(hex, 16).ok()?);
        let x = if negative { -x } else { x };
        return Some(if ty == Ty::F64 { f64::from(x).to_bits() } else { x.to_bits().into() });
    }
    if let Some(hex) = text.strip_prefix("0d").or(text.strip_prefix("0D")).filter(|h| h.len() == 16) {
        let x = f64::from_bits(u64::from_str_radix(hex, 16).ok()?);
        let x = if negative { -x } else { x };
        return Some(if ty == Ty::F32 { (x as f32).to_bits().into() } else { x.to_bits() });
    }
    if ty.float() || text.contains('.') {
        let x: f64 = text.parse().ok()?;
        let x = if negative { -x } else { x };
        return Some(if ty == Ty::F32 { (x as f32).to_bits().into() } else { x.to_bits() });
    }
    let value = integer(text)?;
    let value = if negative { value.wrapping_neg() } else { value };
    Some(value & super::lane::mask(ty.bytes() as u32 * 8))
}
