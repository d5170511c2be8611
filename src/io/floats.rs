//! Copies float32 values between memory and a stream in blocks.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use crate::backend::cpu;
use crate::descriptor;
use crate::error::{Error, Result};

/// Bytes of a block; a multiple of every element size.
const BLOCK: usize = 1 << 16;

/// Opens a plain file for reading and returns its size in bytes. Other files are refused, because a
/// pipe could block the reader.
pub(super) fn open(path: &Path) -> Result<(File, u64)> {
    let fail = |error: io::Error| Error::io("read", path, error);
    let found = fs::metadata(path).map_err(fail)?;
    if !found.is_file() {
        return Err(Error::io("read", path, "not a plain file"));
    }
    let file = descriptor::open_read(path).map_err(fail)?;
    let size = file.metadata().map_err(fail)?.len();
    Ok((file, size))
}

/// Reads `count` elements of `N` bytes and appends them. The caller has reserved the memory.
pub(super) fn read<const N: usize>(
    from: &mut impl Read,
    into: &mut Vec<f32>,
    mut count: usize,
    decode: impl Fn([u8; N]) -> f32,
) -> io::Result<()> {
    let mut block = vec![0; BLOCK];
    while count > 0 {
        let here = count.min(BLOCK / N);
        let bytes = &mut block[..here * N];
        from.read_exact(bytes)?;
        into.extend(bytes.as_chunks().0.iter().map(|&element| decode(element)));
        count -= here;
    }
    Ok(())
}

pub fn write(into: &mut impl Write, data: &[f32]) -> io::Result<()> {
    let mut block = Vec::with_capacity(BLOCK.min(data.len() * 4));
    for values in data.chunks(BLOCK / 4) {
        block.clear();
        block.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        into.write_all(&block)?;
    }
    Ok(())
}

/// Returns an empty list with room for the `count` values of a file. Returns an error if the host
/// has too little memory.
pub(super) fn reserve(path: &Path, count: usize) -> Result<Vec<f32>> {
    cpu::reserve(count).ok_or_else(|| Error::NoHostMemory {
        what: format!("the content of {}", path.display()),
        bytes: (count as u64).saturating_mul(4),
    })
}
