//! The CUDA kernels of an equation (a file of `kernels`): their texts and names.

use std::collections::HashMap;
use std::sync::OnceLock;

use miniz_oxide::inflate::decompress_to_vec_zlib;

use crate::backend::cuda::{Kernel, Ptx, Stream};
use crate::error::Result;
use crate::fd::storage::Storage;

/// The kernels of an equation. [`kernel_set!`] makes those of an equation with one launch a step.
pub struct KernelSet {
    /// The kernel that puts the source into the pressures.
    pub source: &'static str,
    /// The kernel of a step.
    pub step: &'static str,
    /// The same for coefficients of 16 bits, if there is one.
    pub step_16_bit: Option<&'static str>,
    /// The kernel that runs before that of a step, unless a step is one launch.
    pub before: Option<&'static str>,
    /// The PTX, as `build.rs` has packed it.
    pub packed: &'static [u8],
    /// The text of each kernel, by name.
    pub split: OnceLock<HashMap<String, String>>,
}

/// Makes the kernel set of an equation from its name, and the kernel before that of a step if there is one.
macro_rules! kernel_set {
    ($equation:literal) => {
        kernel_set!($equation, None)
    };
    ($equation:literal, $before:expr) => {
        $crate::fd::march::kernel_set::KernelSet {
            source: concat!($equation, "_one_pass_source"),
            step: concat!($equation, "_one_pass_4x2"),
            step_16_bit: Some(concat!($equation, "_one_pass_4x2_16_bit")),
            before: $before,
            packed: include_bytes!(concat!(env!("OUT_DIR"), "/", $equation, "_one_pass.ptx.z")),
            split: std::sync::OnceLock::new(),
        }
    };
}
pub(crate) use kernel_set;

impl KernelSet {
    /// Returns the name of the kernel of a step.
    pub fn step(&self, storage: Storage) -> &'static str {
        match storage {
            Storage::Float32 => self.step,
            Storage::Bits16 => self.step_16_bit.unwrap_or(self.step),
        }
    }

    /// Returns the text of all kernels.
    pub fn all(&self) -> String {
        let text = decompress_to_vec_zlib(self.packed).ok();
        text.and_then(|text| String::from_utf8(text).ok()).unwrap_or_default()
    }

    /// Returns the text of one kernel: a driver compiles all of the text that it loads.
    pub fn text(&self, kernel: &str) -> &str {
        let split = self.split.get_or_init(|| split(&self.all()));
        split.get(kernel).map_or("", String::as_str)
    }

    /// Returns a kernel, loaded on the stream's GPU.
    pub fn load(&'static self, stream: &Stream, kernel: &'static str) -> Result<Kernel> {
        stream.function(Ptx { name: kernel, text: self.text(kernel) }, kernel)
    }
}

/// Returns the text of each kernel by name: the part in front of the first, and the kernel.
fn split(ptx: &str) -> HashMap<String, String> {
    const ENTRY: &str = "\n.visible .entry ";
    let mut parts = ptx.split(ENTRY);
    let head = parts.next().unwrap_or_default();
    let named = |part: &str| Some((part.split_once('(')?.0.to_owned(), [head, ENTRY, part].concat()));
    parts.filter_map(named).collect()
}
