//! CUDA kernels of an equation (a file of `kernels`): their PTX and names.

use std::collections::HashMap;
use std::sync::OnceLock;

use miniz_oxide::inflate::decompress_to_vec_zlib;

use crate::backend::cuda::{Kernel, Ptx, Stream};
use crate::error::Result;
use crate::fd::storage::Storage;

/// Kernels of an equation, made by [`kernel_set!`].
pub struct KernelSet {
    /// Kernel that injects the source into the pressures.
    pub source: &'static str,
    /// Kernel of a step.
    pub step: &'static str,
    /// Kernel of a step with 16-bit coefficients, if the equation has one.
    pub step_16_bit: Option<&'static str>,
    /// Kernel that runs before that of a step; `None` if a step is one launch.
    pub before: Option<&'static str>,
    /// PTX of all kernels, compressed by `build.rs`.
    pub packed: &'static [u8],
    /// PTX of each kernel, by name.
    pub split: OnceLock<HashMap<String, String>>,
}

/// Makes the kernel set of a file of `kernels`. `$before`, `$step_16_bit`: the kernels before that of
/// a step, and of a step with 16-bit coefficients, if there are such.
macro_rules! kernel_set {
    ($file:literal, $before:expr, $step_16_bit:expr) => {
        $crate::fd::march::kernel_set::KernelSet {
            source: concat!($file, "_source"),
            step: concat!($file, "_4x2"),
            step_16_bit: $step_16_bit,
            before: $before,
            packed: include_bytes!(concat!(env!("OUT_DIR"), "/", $file, ".ptx.z")),
            split: std::sync::OnceLock::new(),
        }
    };
}
pub(crate) use kernel_set;

impl KernelSet {
    /// Returns the name of the kernel of a step.
    pub fn step(&self, storage: Storage) -> &'static str {
        self.step_16_bit.filter(|_| storage == Storage::Bits16).unwrap_or(self.step)
    }

    /// Returns the PTX of all kernels.
    pub fn all(&self) -> String {
        let text = decompress_to_vec_zlib(self.packed).ok();
        text.and_then(|text| String::from_utf8(text).ok()).unwrap_or_default()
    }

    /// Returns the PTX of one kernel, because a driver compiles all of the text that it loads.
    pub fn text(&self, kernel: &str) -> &str {
        let split = self.split.get_or_init(|| split(&self.all()));
        split.get(kernel).map_or("", String::as_str)
    }

    /// Loads a kernel on the stream's GPU.
    pub fn load(&'static self, stream: &Stream, kernel: &'static str) -> Result<Kernel> {
        stream.function(Ptx { name: kernel, text: self.text(kernel) }, kernel)
    }
}

/// Returns the PTX of each kernel by name: the part before the first kernel, and the kernel.
fn split(ptx: &str) -> HashMap<String, String> {
    const ENTRY: &str = "\n.visible .entry ";
    let mut parts = ptx.split(ENTRY);
    let head = parts.next().unwrap_or_default();
    let named = |part: &str| Some((part.split_once('(')?.0.to_owned(), [head, ENTRY, part].concat()));
    parts.filter_map(named).collect()
}
