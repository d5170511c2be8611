//! A grid of blocks over host threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::program::Kernel;
use super::warp::{Fault, FaultKind, LANES, Memory, Shared, Stop, Warp};

/// A kernel with everything it is given.
pub struct Launch<'a> {
    pub kernel: &'a Kernel,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// As long as the kernel's `param_bytes`.
    pub params: &'a [u8],
    pub memory: &'a dyn Memory,
    /// Instructions of warps that one block may spend in loops, over all its warps.
    pub fuel: u64,
    /// Host threads to use, at most.
    pub threads: usize,
    /// Set from elsewhere to end the launch early.
    pub cancel: &'a AtomicBool,
}

/// What a launch did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Done {
    /// Instructions of single threads.
    pub instructions: u64,
}

impl Launch<'_> {
    /// Runs all blocks; the first fault ends the launch.
    pub fn run(&self) -> Result<Done, Fault> {
        let blocks: u64 = self.grid.iter().map(|n| u64::from(*n)).product();
        let work = blocks * self.block.iter().map(|n| u64::from(*n)).product::<u64>();
        // A host thread costs more to start than a small grid to run.
        let threads = self.threads.clamp(1, (work / 16384 + 1) as usize).min(blocks.max(1) as usize);
        let next = AtomicU64::new(0);
        let instructions = AtomicU64::new(0);
        let fault = Mutex::new(None);
        let worker = || {
            let mut state = Worker::new(self);
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= blocks {
                    break;
                }
                let (x, y) = (u64::from(self.grid[0]), u64::from(self.grid[1]));
                let block = [(at % x) as u32, (at / x % y) as u32, (at / x / y) as u32];
                let outcome = if self.cancel.load(Ordering::Relaxed) {
                    Err(Fault {
                        kind: FaultKind::Cancelled,
                        line: 0,
                        block,
                        thread: [0; 3],
                        detail: "cancelled".into(),
                    })
                } else {
                    state.block(self, block)
                };
                if let Err(found) = outcome {
                    next.store(blocks, Ordering::Relaxed);
                    fault.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(found);
                    break;
                }
            }
            instructions.fetch_add(state.shared.executed, Ordering::Relaxed);
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(worker);
            }
            worker();
        });
        match fault.into_inner().unwrap_or_else(|e| e.into_inner()) {
            Some(fault) => Err(fault),
            None => Ok(Done { instructions: instructions.into_inner() }),
        }
    }
}

/// What one host thread keeps from block to block.
struct Worker<'a> {
    shared: Shared<'a>,
    warps: Vec<Warp>,
}

impl<'a> Worker<'a> {
    fn new(launch: &Launch<'a>) -> Self {
        let threads: u32 = launch.block.iter().product();
        let shared = Shared::new(launch.kernel, launch.params, launch.memory, launch.cancel);
        let warps = (0..(threads as usize).div_ceil(LANES))
            .map(|index| Warp::new(launch.kernel, index, launch.block))
            .collect();
        Worker { shared, warps }
    }

    fn block(&mut self, launch: &Launch, block: [u32; 3]) -> Result<(), Fault> {
        let kernel = launch.kernel;
        self.shared.fuel = launch.fuel;
        self.shared.shared.fill(u128::MAX);
        self.shared.watch.block();
        for warp in &mut self.warps {
            warp.start(kernel, block, launch.grid);
        }
        loop {
            let mut barrier = None;
            for warp in &mut self.warps {
                if warp.live == 0 {
                    continue;
                }
                match warp.run(&mut self.shared)? {
                    Stop::Done => {}
                    Stop::Barrier(pc) => match barrier {
                        None => barrier = Some(pc),
                        Some(other) if other == pc => {}
                        Some(other) => {
                            let lines = [other, pc].map(|pc| kernel.lines[pc]);
                            let detail =
                                format!("warps of one block wait at lines {} and {}", lines[0], lines[1]);
                            let kind = FaultKind::DivergentBarrier;
                            return Err(Fault { kind, line: lines[1], block, thread: [0; 3], detail });
                        }
                    },
                }
            }
            let Some(pc) = barrier else { return Ok(()) };
            if let Some(warp) = self.warps.iter().find(|warp| warp.live != warp.all()) {
                let line = kernel.lines[pc];
                let detail = format!("threads of the block wait at line {line}, others have ended");
                let kind = FaultKind::DivergentBarrier;
                let thread = warp.thread((warp.all() & !warp.live).trailing_zeros() as usize);
                return Err(Fault { kind, line, block, thread, detail });
            }
            self.shared.watch.barrier();
            self.warps.iter_mut().filter(|warp| warp.live != 0).for_each(|warp| warp.pc += 1);
        }
    }
}
