//! Splits PTX text into tokens, each with its line.

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
    Text,
    Mark(char),
}

/// Returns the text as tokens, or the line of a character that PTX does not have.
pub fn tokens(text: &str) -> Result<Vec<Token<'_>>, (u32, String)> {
    let bytes = text.as_bytes();
    let (mut at, mut line, mut out) = (0, 1u32, Vec::new());
    while let Some(&byte) = bytes.get(at) {
        let start = at;
        let while_true = |at: usize, keep: &dyn Fn(u8) -> bool| {
            bytes[at..].iter().position(|&b| !keep(b)).map_or(bytes.len(), |count| at + count)
        };
        let kind = match byte {
            b'\n' | b' ' | b'\t' | b'\r' => {
                line += u32::from(byte == b'\n');
                at += 1;
                continue;
            }
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                at = while_true(at, &|b| b != b'\n');
                continue;
            }
            b'"' => {
                at = (while_true(at + 1, &|b| b != b'"') + 1).min(bytes.len());
                Kind::Text
            }
            b'0'..=b'9' => {
                at = while_true(at, &|b| b.is_ascii_alphanumeric() || b == b'.');
                Kind::Number(&text[start..at])
            }
            b if b.is_ascii_alphabetic() || b"_$%.".contains(&b) => {
                at = while_true(at + 1, &|b| b.is_ascii_alphanumeric() || b"_$.".contains(&b));
                Kind::Word(&text[start..at])
            }
            b if b"[]{}()<>,;:@!+-".contains(&b) => {
                at += 1;
                Kind::Mark(b as char)
            }
            _ => return Err((line, format!("a character that PTX does not have, byte 0x{byte:02x}"))),
        };
        out.push(Token { kind, line });
    }
    Ok(out)
}
