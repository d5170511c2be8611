//! The CUDA kernels of an equation (a file of `kernels`): their texts and names.

use std::collections::HashMap;
use std::sync::OnceLock;

use miniz_oxide::inflate::decompress_to_vec_zlib;

use crate::backend::cuda::{Kernel, Ptx, Stream};
use crate::error::Result;
use crate::fd::time_loop::block_shape::{BlockShape, OF_16_BITS};

/// The kernels of an equation. [`kernel_set!`] makes those of an equation with one launch a step.
pub struct KernelSet {
    /// The name of the equation.
    pub equation: &'static str,
    /// The kernel that puts the source into the pressures.
    pub source: &'static str,
    /// The shapes of blocks, the first of [`SHAPES`](crate::fd::time_loop::block_shape::SHAPES).
    pub shapes: &'static [BlockShape],
    /// The kernels of the shapes, and that of 16-bit coefficients.
    pub kernels: &'static [&'static str],
    /// The kernels that run before these in each step, which compute the fluxes; empty if a step is one launch.
    pub fluxes: &'static [&'static str],
    /// PTX for all GPUs, and for those of compute capability 8.0 and higher, as `build.rs` has packed it.
    pub packed: &'static [&'static [u8]],
    /// The text of each kernel, by name.
    pub split: OnceLock<HashMap<String, String>>,
    pub number: OnceLock<u64>,
}

/// Makes the kernel set of an equation from its name.
macro_rules! kernel_set {
    ($equation:literal) => {
        $crate::fd::march::kernel_set::KernelSet {
            equation: $equation,
            source: concat!($equation, "_one_pass_source"),
            shapes: &$crate::fd::time_loop::block_shape::SHAPES,
            kernels: &[
                concat!($equation, "_one_pass_4x2"),
                concat!($equation, "_one_pass_4x4"),
                concat!($equation, "_one_pass_4x2_async"),
                concat!($equation, "_one_pass_4x2_16_bit"),
            ],
            fluxes: &[],
            packed: &[
                include_bytes!(concat!(env!("OUT_DIR"), "/", $equation, "_one_pass.ptx.z")),
                include_bytes!(concat!(env!("OUT_DIR"), "/", $equation, "_one_pass_80.ptx.z")),
            ],
            split: std::sync::OnceLock::new(),
            number: std::sync::OnceLock::new(),
        }
    };
}
pub(crate) use kernel_set;

impl KernelSet {
    /// Returns the name of the kernel of a shape.
    pub fn kernel(&self, shape: BlockShape) -> &'static str {
        self.kernels[self.place(shape)]
    }

    /// Returns the name of the kernel that computes the fluxes of a shape, if a step has one.
    pub fn fluxes(&self, shape: BlockShape) -> Option<&'static str> {
        self.fluxes.get(self.place(shape)).copied()
    }

    fn place(&self, shape: BlockShape) -> usize {
        self.shapes.iter().chain([&OF_16_BITS]).position(|other| *other == shape).unwrap_or(0)
    }

    /// Returns all kernels: those for all GPUs, and those for GPUs of compute capability 8.0 and higher.
    pub fn texts(&self) -> Vec<String> {
        let unpacked = |packed: &&[u8]| {
            let text = decompress_to_vec_zlib(packed).ok();
            text.and_then(|text| String::from_utf8(text).ok()).unwrap_or_default()
        };
        self.packed.iter().map(unpacked).collect()
    }

    /// Returns the text of one kernel: a driver compiles all of the text that it loads.
    pub fn text(&self, kernel: &str) -> &str {
        let split = self.split.get_or_init(|| self.texts().iter().flat_map(|text| split(text)).collect());
        split.get(kernel).map_or("", String::as_str)
    }

    /// Returns a kernel, loaded on the stream's GPU.
    pub fn load(&'static self, stream: &Stream, kernel: &'static str) -> Result<Kernel> {
        stream.function(Ptx { name: kernel, text: self.text(kernel) }, kernel)
    }

    /// Returns a number that other versions of the kernels are very unlikely to have, by FNV-1a.
    pub fn number(&self) -> u64 {
        *self.number.get_or_init(|| {
            let texts = self.shapes.iter().flat_map(|shape| self.text(self.kernel(*shape)).bytes());
            texts.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
            })
        })
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
