//! The committed PTX of the CUDA kernels, executed by the interpreter of `ctests/doubles/fakecuda`: the bytes that a card gets.
//! An access beside an array is a fault that names the line.

use std::sync::atomic::AtomicBool;

use fakecuda::ptx::{self, Fault, Launch as Run, Module, Region};
use gpusched::fd::equation::acoustic1::kernel::{Launch, PTX};

use crate::kernel_shots::{Engine, Memory};

pub struct Interpreted {
    modules: Vec<Module>,
}

/// Instructions that a block may spend in loops.
const FUEL: u64 = 1 << 32;

impl Interpreted {
    #[allow(clippy::new_without_default)] // it parses the shipped kernels
    pub fn new() -> Self {
        Interpreted::of(PTX)
    }

    pub fn of(text: &str) -> Self {
        Interpreted::of_all(&[text])
    }

    pub fn of_all(texts: &[&str]) -> Self {
        let parsed = |text: &&str| ptx::parse(text).unwrap_or_else(|why| panic!("{why}"));
        Interpreted { modules: texts.iter().map(parsed).collect() }
    }
}

impl ptx::Memory for Memory {
    fn find(&self, address: u64) -> Option<Region> {
        let array = self.arrays.iter().find(|array| (array.begin..array.end).contains(&address))?;
        let host = std::ptr::with_exposed_provenance_mut(array.begin as usize);
        Some(Region { lo: array.begin, hi: array.end, host, writable: array.writable })
    }
}

impl Interpreted {
    /// Or what the threads did wrong.
    pub fn try_launch(
        &self,
        memory: &impl ptx::Memory,
        launch: Launch,
        arguments: &[&[u8]],
    ) -> Result<(), Fault> {
        let kernel = self.modules.iter().find_map(|module| module.kernel(launch.kernel));
        let kernel = kernel.expect("a kernel of the texts");
        assert_eq!(kernel.params.len(), arguments.len(), "{}", launch.kernel);
        let mut params = vec![0; kernel.param_bytes];
        for (param, argument) in kernel.params.iter().zip(arguments) {
            params[param.offset..][..param.size].copy_from_slice(argument);
        }
        let run = Run {
            kernel,
            grid: launch.grid,
            block: launch.block,
            params: &params,
            memory,
            fuel: FUEL,
            threads: 2,
            cancel: &AtomicBool::new(false),
        };
        run.run().map(|_| ())
    }
}

impl Engine for Interpreted {
    fn launch(&self, memory: &Memory, launch: Launch, arguments: &[&[u8]]) {
        self.try_launch(memory, launch, arguments)
            .unwrap_or_else(|fault| panic!("{}: {fault}", launch.kernel));
    }
}
