//! Modules and launches.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use super::{Answer, Context, Driver, Gpu, Object, Stream, code, lock};
use crate::node::Node;
use crate::ptx::{self, Fault, FaultKind, Kernel, Launch};

pub struct Module {
    pub handle: usize,
    pub context: Arc<Context>,
    pub program: Arc<ptx::Module>,
}

pub struct Function {
    pub module: Arc<Module>,
    pub index: usize,
}

impl Function {
    pub fn kernel(&self) -> &Kernel {
        &self.module.program.kernels[self.index]
    }

    pub fn most_threads(&self) -> u32 {
        self.kernel().max_threads.unwrap_or(1024).min(1024)
    }
}

pub fn newest_ptx(driver: i32) -> (u32, u32) {
    let (major, minor) = (driver as u32 / 1000, driver as u32 % 1000 / 10);
    match (major, minor) {
        (..=10, _) => (6, 5),
        (11, minor) => (7, minor),
        (12, 6) => (8, 5),
        (12, minor @ ..=5) => (8, minor),
        (12, minor) => (8, minor - 1),
        (major, minor) => (major - 4, minor),
    }
}

fn decoded(text: &str) -> Result<Arc<ptx::Module>, ptx::Refused> {
    static CACHE: OnceLock<Mutex<HashMap<u64, Arc<ptx::Module>>>> = OnceLock::new();
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let mut cache = lock(CACHE.get_or_init(Mutex::default));
    if let Some(found) = cache.get(&hasher.finish()) {
        return Ok(found.clone());
    }
    let program = Arc::new(ptx::parse(text)?);
    cache.insert(hasher.finish(), program.clone());
    Ok(program)
}

/// Waits while the file `FAKECUDA_JIT_GATE` exists, at most 30 s.
fn wait_at_gate() {
    let Some(gate) = std::env::var_os("FAKECUDA_JIT_GATE").map(std::path::PathBuf::from) else { return };
    let begun = std::time::Instant::now();
    while gate.exists() && begun.elapsed().as_secs() < 30 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

impl Driver {
    /// Loads a text into a context. On failure returns the code, and the text for the log.
    pub fn load(&self, context: &Arc<Context>, image: &[u8]) -> Result<usize, (i32, String)> {
        std::thread::sleep(std::time::Duration::from_millis(self.config.jit_ms));
        wait_at_gate();
        let gpu = context.gpu();
        let (major, minor) = gpu.spec.cc;
        if image.starts_with(b"\x7fELF") || image.starts_with(&[0x50, 0xed, 0x55, 0xba]) {
            return Err((code::NO_BINARY, "fakecuda: only PTX text can be loaded".into()));
        }
        let text = std::str::from_utf8(image).map_err(|e| {
            (code::INVALID_PTX, format!("ptxas fatal : not a text at byte {}", e.valid_up_to()))
        })?;
        let program = decoded(text).map_err(|e| {
            // A version that is too new is refused before the text is parsed.
            let version = text.split_once(".version").map_or("", |(_, rest)| rest).split_whitespace().next();
            let newer = version
                .and_then(|v| v.split_once('.'))
                .and_then(|(a, b)| Some((a.parse::<u32>().ok()?, b.parse::<u32>().ok()?)))
                .is_some_and(|version| version > newest_ptx(self.config.driver));
            let code = if newer { code::UNSUPPORTED_PTX } else { code::INVALID_PTX };
            let ends = "ptxas fatal : Ptx assembly aborted due to errors";
            (code, format!("ptxas application ptx input, line {}; fatal : {}\n{ends}\n", e.line, e.why))
        })?;
        let newest = newest_ptx(self.config.driver);
        if program.version > newest {
            let (a, b) = program.version;
            let words = format!(
                "ptxas application ptx input, line 1; fatal : Unsupported .version {a}.{b}; current version is '{}.{}'",
                newest.0, newest.1
            );
            return Err((code::UNSUPPORTED_PTX, words));
        }
        if program.target > (10 * major + minor) as u32 {
            let words =
                format!("ptxas fatal : .target sm_{} is newer than sm_{major}{minor}", program.target);
            return Err((code::NO_BINARY, words));
        }
        lock(&gpu.state).loads += 1;
        let handle = self.handle();
        let module = Module { handle, context: context.clone(), program };
        self.insert(handle, Object::Module(Arc::new(module)));
        Ok(handle)
    }
}

#[derive(Clone, Copy)]
pub struct Dims {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
}

impl Function {
    /// Refuses dimensions and dynamic shared memory that a driver refuses before the launch.
    pub fn check(&self, dims: &Dims) -> Answer {
        let Dims { grid, block, shared } = dims;
        let threads: u64 = block.iter().map(|n| u64::from(*n)).product();
        let limits =
            grid.iter().zip([i32::MAX as u32, 65535, 65535]).chain(block.iter().zip([1024, 1024, 64]));
        if limits.into_iter().any(|(n, most)| *n == 0 || *n > most) || threads > 1024 {
            return Err(code::INVALID_VALUE);
        }
        if threads > u64::from(self.most_threads()) {
            return Err(code::OUT_OF_RESOURCES);
        }
        if *shared != 0 {
            return Err(code::INVALID_VALUE);
        }
        Ok(())
    }

    /// Queues the launch; `params` are the kernel's parameters.
    pub fn launch(self: &Arc<Self>, stream: &Stream, dims: Dims, params: Vec<u8>, hang: bool) {
        let (function, context) = (self.clone(), stream.context.clone());
        lock(&context.gpu().state).launches += 1;
        stream.push(false, move || function.run(&context, dims, &params, hang));
    }

    /// Runs the kernel on the calling thread.
    pub(super) fn run(&self, context: &Arc<Context>, dims: Dims, params: &[u8], hang: bool) -> Answer {
        let gpu = context.gpu();
        if hang {
            while !context.dead() {
                std::thread::sleep(Duration::from_millis(1));
            }
            return Err(code::TIMEOUT);
        }
        let launch = Launch {
            kernel: self.kernel(),
            grid: dims.grid,
            block: dims.block,
            params,
            memory: context.gpu(),
        };
        let begin = Instant::now();
        {
            let mut state = lock(&gpu.state);
            *state.runs.entry(self.kernel().name.clone()).or_default() += 1;
            state.at_work += 1;
            state.together = state.together.max(state.at_work);
        }
        let node = Node::get();
        let tell = |event: &str| node.inspect(|node| node.event(gpu.index, event, &self.kernel().name));
        tell("begin");
        let ran = launch.run();
        gpu.corrupt();
        let done = self.after(gpu, ran, begin);
        tell("end");
        lock(&gpu.state).at_work -= 1;
        done
    }

    /// Returns the result of the kernel, after a pause if the GPU is slow.
    fn after(&self, gpu: &Gpu, ran: Result<u64, Fault>, begin: Instant) -> Answer {
        let config = &Driver::get().config;
        match ran {
            Ok(instructions) => {
                if config.pace > 0.0 {
                    let seconds = instructions as f64 / (config.pace * 1e6 * gpu.spec.speed);
                    let rest = Duration::from_secs_f64(seconds).saturating_sub(begin.elapsed());
                    std::thread::sleep(rest);
                }
                Ok(())
            }
            Err(fault) => {
                eprintln!("fakecuda: GPU {}: {}: {fault}", gpu.index, self.kernel().name);
                Err(match fault.kind {
                    FaultKind::OutOfBounds => code::ILLEGAL_ADDRESS,
                    FaultKind::Misaligned => code::MISALIGNED,
                    FaultKind::DivergentBarrier
                    | FaultKind::Unwritten
                    | FaultKind::Race
                    | FaultKind::Trapped => code::LAUNCH_FAILED,
                })
            }
        }
    }
}
