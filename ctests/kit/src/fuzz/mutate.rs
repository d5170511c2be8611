//! Changes of an input: some keep to the syntax of texts, others do not.

use std::ops::Range;

use crate::Random;

#[rustfmt::skip]
const NUMBERS: &[&str] = &[
    "0", "1", "2", "3", "-1", "-0.0", "0.5", "7", "16", "24", "63", "64", "65", "100", "255", "256", "1000", "65535", "65536",
    "100000", "100001", "1000000", "10000000", "2147483647", "2147483648", "4294967295", "4294967296",
    "9007199254740993", "4611686018427387904", "9223372036854775807", "9223372036854775808", "18446744073709551615",
    "18446744073709551616", "99999999999999999999999", "1e-6", "1e6", "1e12", "1e-30", "1e30", "1e38", "3.4e38", "1e39", "1e-45",
    "5e-324", "1.7976931348623157e308", "1e309", "nan", "-nan", "inf", "-inf", "NaN", "Infinity", "0x10", "1_0", "00", "+1", "1.",
    ".5", "1e", "1e+", "--1",
];

/// Pieces that break lines, quotes, encodings and terminals.
#[rustfmt::skip]
const PIECES: &[&[u8]] = &[
    b"\0", b"\n", b"\r\n", b"\t", b"\x1b[31m", b"\xff", b"\xc3", "\u{e9}".as_bytes(),
    "\u{1f600}".as_bytes(), "\u{202e}".as_bytes(), b"\\u001b[2J", b"\\n", b"\"", b"'", b"\"\"\"", b"[",
    b"]", b"[[", b"{", b"}", b",", b":", b"=", b"#", b"..", b"/", b"../..", b"null", b"true", b"[]", b"{}",
    b"\"\"",
];

/// Returns one of the inputs with one to a few random changes.
pub fn mutate(random: &mut Random, pool: &[Vec<u8>], words: &[&str], most: usize) -> Vec<u8> {
    let mut bytes = random.of(pool).clone();
    let changes = 1 + random.below(4) * random.below(2);
    for _ in 0..changes {
        change(random, &mut bytes, pool, words);
    }
    bytes.truncate(most);
    bytes
}

fn change(random: &mut Random, bytes: &mut Vec<u8>, pool: &[Vec<u8>], words: &[&str]) {
    let at = random.below(bytes.len() + 1);
    match random.below(16) {
        0..4 => replace(random, bytes, is_of_number, NUMBERS),
        4..7 => replace(random, bytes, is_of_word, words),
        7 => {
            let word = random.of(words).as_bytes().to_vec();
            drop(bytes.splice(at..at, word));
        }
        8 => {
            let piece = random.of(PIECES).to_vec();
            drop(bytes.splice(at..at, piece));
        }
        9 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        10 => {
            let end = (at + 1 + random.below(16)).min(bytes.len());
            bytes.drain(at..end);
        }
        11 => bytes.truncate(at),
        12 => {
            let line = line(random, bytes);
            bytes.drain(line);
        }
        13 => {
            let line = line(random, bytes);
            let again = bytes[line.clone()].to_vec();
            let to = match random.below(2) {
                0 => line.end,
                _ => bytes[..at].iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1),
            };
            drop(bytes.splice(to..to, again));
        }
        14 => {
            // The head of this input, and the tail of another.
            let other = random.of(pool);
            let from = random.below(other.len() + 1);
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        }
        _ => {
            let end = (at + random.below(32)).min(bytes.len());
            let piece = bytes[at..end].to_vec();
            let times = 1 << random.below(9);
            drop(bytes.splice(at..at, piece.repeat(times)));
        }
    }
}

fn is_of_number(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+')
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn replace(random: &mut Random, bytes: &mut Vec<u8>, is: fn(u8) -> bool, list: &[&str]) {
    let begins = |at: usize| is(bytes[at]) && (at == 0 || !is(bytes[at - 1]));
    let runs: Vec<usize> = (0..bytes.len()).filter(|&at| begins(at)).collect();
    if runs.is_empty() {
        return;
    }
    let begin = *random.of(&runs);
    let end = (begin..bytes.len()).find(|&at| !is(bytes[at])).unwrap_or(bytes.len());
    drop(bytes.splice(begin..end, random.of(list).bytes()));
}

fn line(random: &mut Random, bytes: &[u8]) -> Range<usize> {
    let at = random.below(bytes.len());
    let begin = bytes[..at].iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    let end =
        bytes[at..].iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |length| at + length + 1);
    begin..end
}
