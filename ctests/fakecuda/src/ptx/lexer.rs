//! PTX text into tokens, each with its line.

/// One token; `line` counts from one.
#[derive(Clone, Copy, Debug)]
pub struct Token<'a> {
    pub kind: Kind<'a>,
    pub line: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind<'a> {
    /// A name, an opcode, a directive, a register: `ld.global.f32`, `.reg`, `%r1`, `%tid.x`.
    Word(&'a str),
    Number(&'a str),
    Text(&'a str),
    Mark(char),
}

/// The text as tokens, or the line of a character that PTX does not have.
pub fn tokens(text: &str) -> Result<Vec<Token<'_>>, (u32, String)> {
    let bytes = text.as_bytes();
    let (mut at, mut line, mut out) = (0, 1u32, Vec::new());
    while let Some(&byte) = bytes.get(at) {
        let start = at;
        match byte {
            b'\n' => {
                line += 1;
                at += 1;
            }
            b' ' | b'\t' | b'\r' => at += 1,
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                while at < bytes.len() && bytes[at] != b'\n' {
                    at += 1;
                }
            }
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                while at < bytes.len() && !text[at..].starts_with("*/") {
                    line += u32::from(bytes[at] == b'\n');
                    at += 1;
                    while !text.is_char_boundary(at) {
                        at += 1;
                    }
                }
                at = (at + 2).min(bytes.len());
            }
            b'"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += 1;
                }
                out.push(Token { kind: Kind::Text(&text[start + 1..at]), line });
                at += 1;
            }
            b'0'..=b'9' => {
                while bytes.get(at).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'.') {
                    at += 1;
                }
                out.push(Token { kind: Kind::Number(&text[start..at]), line });
            }
            b if b.is_ascii_alphabetic() || b"_$%.".contains(&b) => {
                at += 1;
                loop {
                    match bytes.get(at) {
                        Some(b) if b.is_ascii_alphanumeric() || b"_$.".contains(b) => at += 1,
                        Some(b':') if bytes.get(at + 1) == Some(&b':') => at += 2,
                        _ => break,
                    }
                }
                out.push(Token { kind: Kind::Word(&text[start..at]), line });
            }
            b if b"[]{}()<>,;:@!|+-=".contains(&b) => {
                at += 1;
                out.push(Token { kind: Kind::Mark(b as char), line });
            }
            _ => return Err((line, format!("a character that PTX does not have, byte 0x{byte:02x}"))),
        }
    }
    Ok(out)
}
