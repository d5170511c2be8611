//! NumPy's NPY files, versions 1 to 3, of real numbers.
//!
//! Format: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>

use std::io::Read;
use std::path::Path;

use super::floats;
use crate::error::{Error, Result};

const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// Maximum length of a header in bytes. Headers of plain arrays are much shorter.
const LONGEST_HEADER: usize = 1 << 16;

/// An array in C order: the last index is the fastest.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    pub shape: Vec<usize>,
    pub data: Vec<f32>,
}

/// Reads an array of `<f4`, `>f4`, `<f8` or `>f8` in C or Fortran order. float64 values are rounded
/// to float32. Element `[i, j, k]` of the saved array is element `[i, j, k]` of the result, in both
/// orders. Returns an error if the size of the file differs from that in its header.
pub fn read(path: &Path) -> Result<Array> {
    let fail = |why: &dyn std::fmt::Display| Error::io("read", path, why);
    let (mut file, size) = floats::open(path)?;

    let mut start = [0; 8];
    file.read_exact(&mut start).map_err(|_| fail(&"too short to be an NPY file"))?;
    if !start.starts_with(MAGIC) {
        return Err(fail(&"not an NPY file: it does not begin with \\x93NUMPY"));
    }
    let length_bytes = match start[6] {
        1 => 2,
        2 | 3 => 4,
        version => return Err(fail(&format_args!("NPY version {version}; known: 1, 2 and 3"))),
    };
    let mut length = [0; 4];
    file.read_exact(&mut length[..length_bytes]).map_err(|_| fail(&"ends in its header"))?;
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST_HEADER {
        return Err(fail(&format_args!("its header of {length} bytes is not that of a plain array")));
    }
    let mut header = vec![0; length];
    file.read_exact(&mut header).map_err(|_| fail(&"ends in its header"))?;
    let header = Header::parse(&header).map_err(|why| fail(&why))?;

    let count = header.shape.iter().try_fold(1usize, |count, &n| count.checked_mul(n));
    let expected = count.and_then(|count| count.checked_mul(header.kind.bytes()));
    let found = size.saturating_sub((8 + length_bytes + length) as u64);
    let count = match (count, expected) {
        (Some(count), Some(expected)) if expected as u64 == found => count,
        (_, expected) => {
            let expected = expected.map_or("more than 2^64".into(), |bytes| bytes.to_string());
            return Err(fail(&format_args!(
                "expected {expected} bytes after the header for the shape {:?} of {}, found {found} bytes",
                header.shape, header.descr
            )));
        }
    };

    let mut data = floats::reserve(path, count)?;
    match header.kind {
        Kind::F4Little => floats::read(&mut file, &mut data, count, f32::from_le_bytes),
        Kind::F4Big => floats::read(&mut file, &mut data, count, f32::from_be_bytes),
        Kind::F8Little => floats::read(&mut file, &mut data, count, |b| f64::from_le_bytes(b) as f32),
        Kind::F8Big => floats::read(&mut file, &mut data, count, |b| f64::from_be_bytes(b) as f32),
    }
    .map_err(|error| fail(&error))?;
    if header.fortran_order && header.shape.len() > 1 {
        let mut ordered = floats::reserve(path, count)?;
        fill_from_fortran(&header.shape, &data, &mut ordered);
        data = ordered;
    }
    Ok(Array { shape: header.shape, data })
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    F4Little,
    F4Big,
    F8Little,
    F8Big,
}

impl Kind {
    fn bytes(self) -> usize {
        match self {
            Kind::F4Little | Kind::F4Big => 4,
            Kind::F8Little | Kind::F8Big => 8,
        }
    }
}

struct Header {
    descr: String,
    kind: Kind,
    fortran_order: bool,
    shape: Vec<usize>,
}

impl Header {
    /// Parses the header: the text of a Python dict with three keys in any order.
    fn parse(text: &[u8]) -> std::result::Result<Header, String> {
        let odd = || "its header is not that of a plain array".to_owned();
        let text = str::from_utf8(text).map_err(|_| odd())?;
        let mut rest =
            text.trim().strip_prefix('{').and_then(|t| t.strip_suffix('}')).ok_or_else(odd)?.trim();
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        while !rest.is_empty() {
            let (key, value) = quoted(rest).ok_or_else(odd)?;
            let value = value.trim_start().strip_prefix(':').ok_or_else(odd)?.trim_start();
            let after = match key {
                "descr" => {
                    let (name, after) = quoted(value).ok_or(
                        "its elements are records; accepted: float32 or float64 (<f4, >f4, <f8, >f8)",
                    )?;
                    descr = Some(name);
                    after
                }
                "fortran_order" => {
                    let (flag, after) = match value.strip_prefix("True") {
                        Some(after) => (true, after),
                        None => (false, value.strip_prefix("False").ok_or_else(odd)?),
                    };
                    fortran_order = Some(flag);
                    after
                }
                "shape" => {
                    let (inside, after) =
                        value.strip_prefix('(').and_then(|v| v.split_once(')')).ok_or_else(odd)?;
                    shape = Some(numbers(inside).ok_or_else(odd)?);
                    after
                }
                _ => return Err(odd()),
            };
            let after = after.trim_start();
            rest = match after.strip_prefix(',') {
                Some(next) => next.trim_start(),
                None if after.is_empty() => after,
                None => return Err(odd()),
            };
        }
        let (Some(descr), Some(fortran_order), Some(shape)) = (descr, fortran_order, shape) else {
            return Err(odd());
        };
        let kind = match descr {
            "<f4" => Kind::F4Little,
            ">f4" => Kind::F4Big,
            "<f8" => Kind::F8Little,
            ">f8" => Kind::F8Big,
            _ => {
                return Err(format!(
                    "its elements are {descr}; accepted: float32 or float64 (<f4, >f4, <f8, >f8)"
                ));
            }
        };
        Ok(Header { descr: descr.to_owned(), kind, fortran_order, shape })
    }
}

/// Parses a Python string without escapes at the start of `text`. Returns the string and the rest.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    text[1..].split_once(quote)
}

/// Parses a list of integers such as `3, 4`, `3,` or nothing. Python 2 appends `L` to large
/// numbers.
fn numbers(text: &str) -> Option<Vec<usize>> {
    let text = text.trim();
    let text = text.strip_suffix(',').unwrap_or(text);
    if text.is_empty() {
        return Some(Vec::new());
    }
    text.split(',').map(|n| n.trim().trim_end_matches('L').parse().ok()).collect()
}

/// Converts an array whose first index is the fastest to C order.
fn fill_from_fortran(shape: &[usize], from: &[f32], into: &mut Vec<f32>) {
    let mut strides = Vec::with_capacity(shape.len());
    let mut stride = 1;
    for &n in shape {
        strides.push(stride);
        stride *= n;
    }
    let mut index = vec![0; shape.len()];
    let mut at = 0;
    for _ in 0..from.len() {
        into.push(from[at]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            at += strides[axis];
            if index[axis] < shape[axis] {
                break;
            }
            at -= strides[axis] * shape[axis];
            index[axis] = 0;
        }
    }
}
