//! Runs the blocks of a grid one after the other.

use super::program::Kernel;
use super::warp::{Fault, FaultKind, LANES, Memory, Shared, Stop, Warp};

pub struct Launch<'a> {
    pub kernel: &'a Kernel,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub params: &'a [u8],
    pub memory: &'a dyn Memory,
}

impl Launch<'_> {
    /// Runs all blocks; the first fault ends the launch. Returns the number of instructions of
    /// single threads.
    pub fn run(&self) -> Result<u64, Fault> {
        let threads: u32 = self.block.iter().product();
        let mut shared = Shared::new(self.kernel, self.params, self.memory);
        let mut warps: Vec<Warp> = (0..(threads as usize).div_ceil(LANES))
            .map(|index| Warp::new(self.kernel, index, self.block))
            .collect();
        let [x, y, z] = self.grid;
        for at in 0..u64::from(x) * u64::from(y) * u64::from(z) {
            let (x, y) = (u64::from(x), u64::from(y));
            let block = [(at % x) as u32, (at / x % y) as u32, (at / x / y) as u32];
            self.block(&mut shared, &mut warps, block)?;
        }
        Ok(shared.executed)
    }

    fn block(&self, shared: &mut Shared, warps: &mut [Warp], block: [u32; 3]) -> Result<(), Fault> {
        let kernel = self.kernel;
        shared.shared.fill(u128::MAX);
        shared.watch.block();
        for warp in &mut *warps {
            warp.start(kernel, block, self.grid);
        }
        let kind = FaultKind::DivergentBarrier;
        loop {
            let mut barrier = None;
            for warp in warps.iter_mut().filter(|warp| warp.live != 0) {
                let Stop::Barrier(pc) = warp.run(shared)? else { continue };
                let first = *barrier.get_or_insert(pc);
                if first != pc {
                    let lines = [first, pc].map(|pc| kernel.lines[pc]);
                    let detail = format!("warps of one block wait at lines {} and {}", lines[0], lines[1]);
                    return Err(Fault { kind, line: lines[1], block, thread: [0; 3], detail });
                }
            }
            let Some(pc) = barrier else { return Ok(()) };
            if let Some(warp) = warps.iter().find(|warp| warp.live != warp.all()) {
                let line = kernel.lines[pc];
                let detail = format!("threads of the block wait at line {line}, others have ended");
                let thread = warp.thread((warp.all() & !warp.live).trailing_zeros() as usize);
                return Err(Fault { kind, line, block, thread, detail });
            }
            shared.watch.barrier();
            warps.iter_mut().for_each(|warp| warp.pc += 1);
        }
    }
}
