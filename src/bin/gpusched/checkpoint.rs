//! `shot_0001.paused`: the saved state of a stopped shot.
//!
//! The file consists of a header (one line of JSON), the values as float32, and the CRC-32 of both,
//! as in zlib. All numbers are little-endian.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::path::Path;

use gpusched::device::BackendKind;
use gpusched::fd::control::State;
use gpusched::io::{atomic, raw};
use gpusched::{Error, Result, descriptor};
use serde::{Deserialize, Serialize};

/// Maximum bytes of a header.
const LINE: u64 = 64 << 20;
const SUM: u64 = 4;
/// Number of values that are converted at a time.
const PIECE: usize = 1 << 14;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Key of the shot, see `key.rs`.
    pub key: String,
    /// `gpusched::fd::control::STATE_LAYOUT` of the version that saved it.
    #[serde(default)]
    pub layout: u32,
    /// Kind of the state.
    pub kind: String,
    /// Number of computed steps.
    pub done: usize,
    pub values: u64,
    /// CRC-32 of the snapshots up to that step, by step.
    pub snapshots: BTreeMap<usize, u32>,
}

impl Header {
    /// Returns the kind of the devices that can continue from the state.
    pub fn backend(&self) -> BackendKind {
        if self.kind == "cuda" { BackendKind::Cuda } else { BackendKind::Cpu }
    }
}

/// Writes a complete file, or none.
pub fn write(path: &Path, header: &Header, state: &mut dyn State) -> Result<()> {
    // Distinguishes an error of the state from one of the file.
    let mut refused = None;
    let written = atomic::write_with(path, |out| {
        let mut out = Summed::new(out);
        serde_json::to_writer(&mut out, header)?;
        out.write_all(b"\n")?;
        let left = state.leave(&mut |values| {
            raw::write_to(&mut out, values).map_err(|error| Error::io("write", path, error))
        });
        if let Err(error) = left {
            refused = Some(error);
            return Err(io::Error::other("the state could not be read"));
        }
        let sum = out.sum.finalize();
        out.out.write_all(&sum.to_le_bytes())
    });
    written.map_err(|error| refused.unwrap_or(error))
}

/// A stream that computes the CRC-32 of the bytes that it passes on, as zlib does.
pub struct Summed<W> {
    out: W,
    pub sum: crc32fast::Hasher,
}

impl<W> Summed<W> {
    pub fn new(out: W) -> Summed<W> {
        Summed { out, sum: crc32fast::Hasher::new() }
    }
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.sum.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Returns the header of a plain file. The rest of the file may be damaged.
pub fn header(path: &Path) -> Option<Header> {
    // Checked before opening, because opening a pipe may block forever.
    fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?;
    let line = first_line(&mut BufReader::new(descriptor::open_read(path).ok()?)).ok()?;
    serde_json::from_slice(&line).ok()
}

fn first_line(file: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    file.take(LINE).read_until(b'\n', &mut line).map(|_| line)
}

/// A complete saved state, open at its first value.
pub struct Checkpoint {
    pub header: Header,
    file: BufReader<File>,
}

impl Checkpoint {
    /// Opens a saved state and checks it. Returns `None` if the file does not exist. The error is
    /// the reason why the state is not usable.
    pub fn open(path: &Path) -> std::result::Result<Option<Checkpoint>, String> {
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
            Ok(found) if !found.is_file() => return Err("it is not a plain file".into()),
            Ok(_) => {}
        }
        let failed = |error: io::Error| format!("it cannot be read: {error}");
        let file = descriptor::open_read(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        let mut file = BufReader::with_capacity(1 << 18, file);
        let line = first_line(&mut file).map_err(failed)?;
        let header: Header = serde_json::from_slice(&line)
            .map_err(|_| "it is damaged, or another program wrote it".to_string())?;
        let bytes = header.values.checked_mul(4).and_then(|bytes| bytes.checked_add(line.len() as u64 + SUM));
        if bytes != Some(size) {
            return Err(format!("it is damaged: it has {size} bytes, and its header states another size"));
        }
        let mut summed = Summed::new(io::sink());
        summed.sum.update(&line);
        io::copy(&mut file.by_ref().take(4 * header.values), &mut summed).map_err(failed)?;
        let mut stored_sum = [0; SUM as usize];
        file.read_exact(&mut stored_sum).map_err(failed)?;
        if summed.sum.finalize() != u32::from_le_bytes(stored_sum) {
            return Err("it is damaged: its checksum differs".into());
        }
        io::Seek::seek(&mut file, io::SeekFrom::Start(line.len() as u64)).map_err(failed)?;
        Ok(Some(Checkpoint { header, file }))
    }

    /// Copies all values to a state of the same kind and size.
    pub fn copy_to(mut self, path: &Path, state: &mut dyn State) -> Result<usize> {
        state.take(self.header.done, &mut |values| {
            let mut bytes = vec![0; 4 * PIECE];
            for values in values.chunks_mut(PIECE) {
                let bytes = &mut bytes[..4 * values.len()];
                self.file.read_exact(bytes).map_err(|error| Error::io("read", path, error))?;
                for (value, bytes) in values.iter_mut().zip(bytes.as_chunks().0) {
                    *value = f32::from_le_bytes(*bytes);
                }
            }
            Ok(())
        })?;
        Ok(self.header.done)
    }
}

#[cfg(test)]
pub use tests::Values;

#[cfg(test)]
mod tests {
    use super::*;

    pub struct Values(pub Vec<f32>);

    impl State for Values {
        fn kind(&self) -> String {
            "of a test".into()
        }

        fn values(&self) -> u64 {
            self.0.len() as u64
        }

        fn leave(&mut self, to: &mut dyn FnMut(&[f32]) -> Result<()>) -> Result<()> {
            self.0.chunks(7).try_for_each(to)
        }

        fn take(&mut self, _done: usize, from: &mut dyn FnMut(&mut [f32]) -> Result<()>) -> Result<()> {
            self.0.chunks_mut(11).try_for_each(from)
        }
    }

    #[test]
    fn saved_state_is_restored_exactly_or_refused() {
        let folder = testkit::Folder::new();
        let path = folder.at("shot_0001.paused");
        assert!(Checkpoint::open(&path).unwrap().is_none());
        let mut values: Vec<f32> = (0..40_000).map(|i| (i as f32).sin()).collect();
        values[3] = f32::NAN;
        let header = Header {
            key: "k".into(),
            layout: gpusched::fd::control::STATE_LAYOUT,
            kind: "of a test".into(),
            done: 17,
            values: 40_000,
            snapshots: BTreeMap::from([(3, 9)]),
        };
        write(&path, &header, &mut Values(values.clone())).unwrap();
        let checkpoint = Checkpoint::open(&path).unwrap().unwrap();
        assert_eq!(checkpoint.header, header);
        let mut back = Values(vec![0.0; 40_000]);
        assert_eq!(checkpoint.copy_to(&path, &mut back).unwrap(), 17);
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&back.0), bits(&values));

        let whole = fs::read(&path).unwrap();
        for (what, bytes) in [
            ("cut", whole[..whole.len() - 1].to_vec()),
            ("longer", [&whole[..], b"x"].concat()),
            ("empty", Vec::new()),
            ("no header", whole[40..].to_vec()),
        ] {
            fs::write(&path, bytes).unwrap();
            assert!(Checkpoint::open(&path).is_err(), "{what}");
        }
        for at in [1, 60, 200, 5000, whole.len() - 2] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(&path, bytes).unwrap();
            assert!(Checkpoint::open(&path).is_err(), "byte {at} is another");
        }
    }
}
