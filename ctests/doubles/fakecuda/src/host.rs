//! Memory and arguments for kernels that run without a driver.

use std::sync::atomic::AtomicBool;

use crate::ptx::{Done, Fault, Launch, Memory, Module, Region};

/// Buffers at addresses of their own, far from each other.
#[derive(Default)]
pub struct Host {
    buffers: Vec<(u64, usize, Vec<u128>)>,
}

// SAFETY: the raw pointers that `find` gives out are used as a card's memory is: kernels may
// race on it, the tests look at it only when no kernel runs.
unsafe impl Sync for Host {}

impl Host {
    pub fn put<T: Copy>(&mut self, data: &[T]) -> u64 {
        let bytes = size_of_val(data);
        let address = (1 << 60) + ((self.buffers.len() as u64) << 32);
        let mut store = vec![u128::MAX; bytes.div_ceil(16)];
        // SAFETY: `store` has room for the bytes, and plain numbers may be copied so.
        unsafe {
            std::ptr::copy_nonoverlapping(data.as_ptr().cast::<u8>(), store.as_mut_ptr().cast(), bytes)
        };
        self.buffers.push((address, bytes, store));
        address
    }

    pub fn get<T: Copy>(&self, address: u64) -> Vec<T> {
        let (_, bytes, store) = self.buffers.iter().find(|b| b.0 == address).expect("an address of put");
        // SAFETY: the buffer was made of numbers and is long enough.
        unsafe { std::slice::from_raw_parts(store.as_ptr().cast::<T>(), bytes / size_of::<T>()).to_vec() }
    }
}

impl Memory for Host {
    fn find(&self, address: u64) -> Option<Region> {
        let (lo, bytes, store) =
            self.buffers.iter().find(|(lo, bytes, _)| (*lo..lo + *bytes as u64).contains(&address))?;
        let host = store.as_ptr().cast_mut().cast();
        Some(Region { lo: *lo, hi: lo + *bytes as u64, host, writable: true })
    }
}

/// Arguments of a kernel, as raw bytes.
pub enum Arg {
    P(u64),
    I(i32),
    L(i64),
}

/// Runs a kernel of `module`, block by block on one host thread.
pub fn run(
    module: &Module,
    host: &Host,
    name: &str,
    grid: [u32; 3],
    block: [u32; 3],
    args: &[Arg],
) -> Result<Done, Fault> {
    let kernel = module.kernel(name).expect("a kernel of the text");
    let mut params = vec![0; kernel.param_bytes];
    for (param, arg) in kernel.params.iter().zip(args) {
        let bytes = match arg {
            Arg::P(x) => x.to_le_bytes().to_vec(),
            Arg::I(x) => x.to_le_bytes().to_vec(),
            Arg::L(x) => x.to_le_bytes().to_vec(),
        };
        assert_eq!(bytes.len(), param.size, "argument of {name}");
        params[param.offset..param.offset + param.size].copy_from_slice(&bytes);
    }
    let cancel = AtomicBool::new(false);
    Launch {
        kernel,
        grid,
        block,
        params: &params,
        memory: host,
        fuel: 20_000_000,
        threads: 1,
        cancel: &cancel,
    }
    .run()
}
