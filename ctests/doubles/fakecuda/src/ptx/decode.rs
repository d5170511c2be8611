//! Decodes tokens into a [`Module`]. Like a driver's assembler, it refuses everything that can be
//! refused here, with its line.

use super::body::Body;
use super::lexer::{Kind, Token, tokens};
use super::program::{Kernel, Module, Param, Refused};

pub(super) type Result<T> = std::result::Result<T, Refused>;

pub(super) struct Cursor<'t, 'a> {
    tokens: &'t [Token<'a>],
    at: usize,
}

impl<'a> Cursor<'_, 'a> {
    pub fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |t| t.line)
    }

    pub fn fail<T>(&self, why: impl Into<String>) -> Result<T> {
        Err(Refused { line: self.line(), why: why.into() })
    }

    pub fn expected<T>(&self, what: &str) -> Result<T> {
        match self.peek() {
            Some(_) => self.fail(format!("{what} expected")),
            None => self.fail(format!("the text ends where {what} was expected")),
        }
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
        if self.take(mark) { Ok(()) } else { self.expected(&format!("'{mark}'")) }
    }

    pub fn word(&mut self) -> Result<&'a str> {
        match self.peek() {
            Some(Kind::Word(word)) => {
                self.at += 1;
                Ok(word)
            }
            _ => self.expected("a name"),
        }
    }

    pub fn digits(&mut self) -> Result<&'a str> {
        match self.peek() {
            Some(Kind::Number(text)) => {
                self.at += 1;
                Ok(text)
            }
            _ => self.expected("a number"),
        }
    }

    pub fn number(&mut self) -> Result<usize> {
        let line = self.line();
        let text = self.digits()?;
        text.parse().map_err(|_| Refused { line, why: format!("'{text}' is no integer") })
    }

    pub fn skip_statement(&mut self) {
        while self.at < self.tokens.len() && !self.take(';') {
            self.at += 1;
        }
    }

    /// Reads `.align 4 .b8 name[16]`: name, alignment and bytes.
    pub fn variable(&mut self) -> Result<(&'a str, usize, usize)> {
        let (mut align, mut bytes) = (None, None);
        loop {
            let line = self.line();
            match self.word()? {
                ".align" => align = Some(self.number()?),
                word if word.starts_with('.') => match width(&word[1..]) {
                    Some(found) => bytes = Some(found),
                    None => return Err(Refused { line, why: format!("'{word}' is no type") }),
                },
                name => {
                    let Some(element) = bytes else { return self.fail("a variable without a type") };
                    let mut count = 1;
                    if self.take('[') {
                        count = self.number()?;
                        self.expect(']')?;
                    }
                    return Ok((name, align.unwrap_or(element), element * count));
                }
            }
        }
    }
}

pub(super) fn width(name: &str) -> Option<usize> {
    Some(match name {
        "b8" => 1,
        "b16" | "u16" => 2,
        "b32" | "u32" | "f32" => 4,
        "b64" | "u64" => 8,
        _ => return None,
    })
}

pub fn parse(text: &str) -> Result<Module> {
    let list = tokens(text).map_err(|(line, why)| Refused { line, why })?;
    let mut cursor = Cursor { tokens: &list, at: 0 };
    let mut module = Module::default();
    while cursor.peek().is_some() {
        let line = cursor.line();
        let refused = |why: String| Refused { line, why };
        match cursor.word()? {
            ".version" => {
                let text = cursor.digits()?;
                let parsed = text.split_once('.').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
                module.version = parsed.ok_or_else(|| refused(format!("'{text}' is no version")))?;
            }
            _ if module.version == (0, 0) => return Err(refused("a PTX text begins with .version".into())),
            ".target" => {
                let name = cursor.word()?;
                let number = name.strip_prefix("sm_").and_then(|n| n.parse().ok());
                module.target = number.ok_or_else(|| refused(format!("'{name}' is no target")))?;
            }
            ".address_size" => {
                if cursor.number()? != 64 {
                    return Err(refused("only 64-bit addresses".into()));
                }
            }
            ".visible" => {}
            ".entry" => module.kernels.push(entry(&mut cursor)?),
            other => return Err(refused(format!("'{other}' is not known to this interpreter"))),
        }
    }
    if module.version == (0, 0) || module.target == 0 {
        return cursor.fail("no .version and .target: this is no PTX text");
    }
    Ok(module)
}

fn entry(cursor: &mut Cursor<'_, '_>) -> Result<Kernel> {
    let mut kernel = Kernel { name: cursor.word()?.into(), ..Kernel::default() };
    let mut names = Vec::new();
    cursor.expect('(')?;
    while !cursor.take(')') {
        if cursor.word()? != ".param" {
            return cursor.fail("only .param stands between a kernel's parentheses");
        }
        let (name, align, size) = cursor.variable()?;
        let offset = kernel.param_bytes.next_multiple_of(align.max(1));
        kernel.params.push(Param { offset, size });
        kernel.param_bytes = offset + size;
        names.push((name, offset));
        if !cursor.is(')') {
            cursor.expect(',')?;
        }
    }
    if kernel.param_bytes > 4096 {
        return cursor.fail("more than 4096 bytes of parameters");
    }
    while !cursor.take('{') {
        match cursor.word()? {
            ".maxntid" => {
                let mut threads = cursor.number()?;
                while cursor.take(',') {
                    threads *= cursor.number()?;
                }
                kernel.max_threads = Some(threads as u32);
            }
            ".minnctapersm" => drop(cursor.number()?),
            other => return cursor.fail(format!("'{other}' is no directive of a kernel")),
        }
    }
    Body::new(kernel, names).decode(cursor)
}
