//! Memory and arguments for kernels that run without a driver.

#![allow(dead_code)] // each user of this file uses its part

use std::sync::atomic::AtomicBool;

use fakecuda::ptx::{Done, Fault, Launch, Memory, Module, Region};

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
    F(f32),
    Raw(Vec<u8>),
}

pub const FUEL: u64 = 20_000_000;

pub fn run(
    module: &Module,
    host: &mut Host,
    name: &str,
    grid: [u32; 3],
    block: [u32; 3],
    shared: usize,
    args: &[Arg],
) -> Result<Done, Fault> {
    run_on(2, module, host, name, grid, block, shared, args)
}

#[allow(clippy::too_many_arguments)] // a launch has that many
pub fn run_on(
    threads: usize,
    module: &Module,
    host: &mut Host,
    name: &str,
    grid: [u32; 3],
    block: [u32; 3],
    shared: usize,
    args: &[Arg],
) -> Result<Done, Fault> {
    let kernel = module.kernel(name).expect("a kernel of the text");
    let globals: Vec<u64> = module.globals.iter().map(|g| host.put(&g.init)).collect();
    let mut params = vec![0; kernel.param_bytes];
    for (param, arg) in kernel.params.iter().zip(args) {
        let bytes = match arg {
            Arg::P(x) => x.to_le_bytes().to_vec(),
            Arg::I(x) => x.to_le_bytes().to_vec(),
            Arg::L(x) => x.to_le_bytes().to_vec(),
            Arg::F(x) => x.to_le_bytes().to_vec(),
            Arg::Raw(x) => x.clone(),
        };
        assert_eq!(bytes.len(), param.size, "argument of {name}");
        params[param.offset..param.offset + param.size].copy_from_slice(&bytes);
    }
    let cancel = AtomicBool::new(false);
    Launch {
        kernel,
        grid,
        block,
        dynamic_shared: shared,
        params: &params,
        globals: &globals,
        memory: host,
        fuel: FUEL,
        threads,
        cancel: &cancel,
    }
    .run()
}

/// Numbers without pattern, between -1 and 1.
pub fn noise(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect()
}

/// One step as in stencil.cu, operation for operation.
pub fn step(p1: &[f32], v: &[f32], p0: &mut [f32], [nx, ny, nz]: [usize; 3]) {
    let c0 = 3.0f32 * -2.847_222_3_f32;
    let w = [1.6f32, -0.2, 0.025396825, -0.001785714];
    for iy in 4..ny - 4 {
        for ix in 4..nx - 4 {
            for iz in 4..nz - 4 {
                let (sx, sy) = (nz, nz * nx);
                let i = iy * sy + ix * sx + iz;
                let c = p1[i];
                let mut lap = c0 * c;
                for k in 1..=4 {
                    let mut s = p1[i + k] + p1[i - k];
                    s += p1[i + k * sx] + p1[i - k * sx];
                    s += p1[i + k * sy] + p1[i - k * sy];
                    lap = w[k - 1].mul_add(s, lap);
                }
                p0[i] = v[i].mul_add(lap, 2.0 * c - p0[i]);
            }
        }
    }
}
