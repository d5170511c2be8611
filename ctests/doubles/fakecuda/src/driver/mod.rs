//! GPUs, contexts, streams, modules. Handles are numbers of this module, so a stale one is an error
//! and not a crash.

pub mod capture;
mod context;
mod gpu;
mod graph;
pub mod module;
mod report;
mod stream;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

pub use context::{Context, Current};
pub use gpu::{Gpu, TAG};
pub use graph::{Graph, GraphExec};
pub use module::{Dims, Function, Module};
pub use stream::{Event, Stream, wait_all};

use crate::config::Config;
use crate::faults::{Effect, Faults};

pub type Code = i32;
pub type Answer<T = ()> = Result<T, Code>;

pub mod code {
    pub const INVALID_VALUE: i32 = 1;
    pub const OUT_OF_MEMORY: i32 = 2;
    pub const NOT_INITIALIZED: i32 = 3;
    pub const STUB_LIBRARY: i32 = 34;
    pub const NO_DEVICE: i32 = 100;
    pub const INVALID_DEVICE: i32 = 101;
    pub const INVALID_CONTEXT: i32 = 201;
    pub const NO_BINARY: i32 = 209;
    pub const INVALID_PTX: i32 = 218;
    pub const UNSUPPORTED_PTX: i32 = 222;
    pub const INVALID_HANDLE: i32 = 400;
    pub const ILLEGAL_STATE: i32 = 401;
    pub const NOT_FOUND: i32 = 500;
    pub const NOT_READY: i32 = 600;
    pub const ILLEGAL_ADDRESS: i32 = 700;
    pub const OUT_OF_RESOURCES: i32 = 701;
    pub const TIMEOUT: i32 = 702;
    pub const CONTEXT_DESTROYED: i32 = 709;
    pub const ALREADY_REGISTERED: i32 = 712;
    pub const NOT_REGISTERED: i32 = 713;
    pub const MISALIGNED: i32 = 716;
    pub const LAUNCH_FAILED: i32 = 719;
    pub const STREAM_CAPTURE_UNSUPPORTED: i32 = 900;
    pub const STREAM_CAPTURE_INVALIDATED: i32 = 901;
    pub const UNKNOWN: i32 = 999;
}

/// Locks a mutex, also after its holder panicked: the data remain valid.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Clone)]
pub enum Object {
    Context(Arc<Context>),
    Stream(Arc<Stream>),
    Event(Arc<Event>),
    Module(Arc<Module>),
    Function(Arc<Function>),
    Graph(Arc<Graph>),
    GraphExec(Arc<GraphExec>),
}

#[derive(Clone, Copy)]
pub struct Pinned {
    pub bytes: usize,
    /// Handle of the context with which it ends.
    pub context: usize,
}

pub struct Driver {
    pub config: Config,
    pub gpus: Vec<Gpu>,
    pub faults: Faults,
    /// GPUs that the program sees; `cuInit` sets it.
    visible: OnceLock<Vec<usize>>,
    objects: Mutex<HashMap<usize, Object>>,
    next: AtomicUsize,
    pub calls: AtomicU64,
    /// Calls of `cuInit`.
    inits: AtomicU64,
    pub pinned: Mutex<BTreeMap<usize, Pinned>>,
}

/// Opens a file that stays open, as a driver does with the files of its devices.
pub fn open_for_good() {
    std::mem::forget(std::fs::File::open("/dev/null"));
}

/// True in a forked child, in which a driver does not work.
static FORKED: AtomicBool = AtomicBool::new(false);

extern "C" fn in_child() {
    FORKED.store(true, Ordering::Relaxed);
}

/// Methods that return the object of a handle, or the code for a handle of another or no kind.
macro_rules! lookups {
    ($( $name:ident: $kind:ident, $code:ident; )*) => { $(
        pub fn $name(&self, handle: usize) -> Answer<Arc<$kind>> {
            match self.find(handle) {
                Some(Object::$kind(object)) => Ok(object),
                _ => Err(code::$code),
            }
        }
    )* };
}

impl Driver {
    pub fn get() -> &'static Driver {
        static DRIVER: OnceLock<Driver> = OnceLock::new();
        DRIVER.get_or_init(|| {
            let config = Config::from_environment();
            let gpus = config.gpus.iter().enumerate().map(|(i, spec)| Gpu::new(i, spec.clone())).collect();
            Driver {
                gpus,
                config,
                faults: Faults::from_environment(),
                visible: OnceLock::new(),
                objects: Mutex::default(),
                next: AtomicUsize::new(1),
                calls: AtomicU64::new(0),
                inits: AtomicU64::new(0),
                pinned: Mutex::default(),
            }
        })
    }

    pub fn init(&self) -> Answer {
        if FORKED.load(Ordering::Relaxed) {
            return Err(code::NOT_INITIALIZED);
        }
        let call = self.inits.fetch_add(1, Ordering::Relaxed);
        if self.config.init != 0 && call < self.config.init_calls {
            return Err(self.config.init);
        }
        let visible = self.visible.get_or_init(|| {
            open_for_good();
            // SAFETY: the handler is a plain function that touches a flag.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
            let order = std::env::var("CUDA_DEVICE_ORDER").ok();
            let mask = std::env::var("CUDA_VISIBLE_DEVICES").ok();
            self.config.visible(order.as_deref(), mask.as_deref())
        });
        if visible.is_empty() { Err(code::NO_DEVICE) } else { Ok(()) }
    }

    pub fn visible(&self) -> Answer<&[usize]> {
        if FORKED.load(Ordering::Relaxed) {
            return Err(code::NOT_INITIALIZED);
        }
        self.visible.get().map(Vec::as_slice).ok_or(code::NOT_INITIALIZED)
    }

    pub fn gpu(&self, ordinal: i32) -> Answer<&Gpu> {
        let index =
            usize::try_from(ordinal).ok().and_then(|o| self.visible().map(|v| v.get(o).copied()).transpose());
        match index {
            Some(Ok(index)) => Ok(&self.gpus[index]),
            Some(Err(code)) => Err(code),
            None => Err(code::INVALID_DEVICE),
        }
    }

    /// Counts a call on a GPU and applies the faults of the script. Returns true if the launch is
    /// to hang.
    pub fn suffer(&self, gpu: &Gpu, operation: &'static str) -> Answer<bool> {
        let mut hang = false;
        for effect in self.faults.count(gpu.index, operation) {
            match effect {
                Effect::Code(code) => return Err(code),
                Effect::Hang => hang = true,
                Effect::Lost => {
                    gpu.lose();
                    return Err(code::UNKNOWN);
                }
                Effect::Closed => {
                    gpu.close();
                    return Err(code::UNKNOWN);
                }
                Effect::Take(bytes) => lock(&gpu.state).other += bytes,
                Effect::Wait(ms) => std::thread::sleep(std::time::Duration::from_millis(ms)),
                Effect::Corrupt(how) => lock(&gpu.state).corruptions.push(how),
            }
        }
        Ok(hang)
    }

    pub fn handle(&self) -> usize {
        // Looks like an address, but is not a valid one.
        0x7fc0_0000_0000 + 64 * self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub fn insert(&self, handle: usize, object: Object) {
        lock(&self.objects).insert(handle, object);
    }

    pub fn remove(&self, handle: usize) {
        lock(&self.objects).remove(&handle);
    }

    fn find(&self, handle: usize) -> Option<Object> {
        lock(&self.objects).get(&handle).cloned()
    }

    lookups! {
        context: Context, INVALID_CONTEXT;
        stream: Stream, INVALID_HANDLE;
        event: Event, INVALID_HANDLE;
        module: Module, INVALID_HANDLE;
        function: Function, INVALID_HANDLE;
        graph: Graph, INVALID_VALUE;
        graph_exec: GraphExec, INVALID_VALUE;
    }

    /// Returns the number of graphs, which belong to no GPU.
    fn graphs(&self) -> usize {
        lock(&self.objects).values().filter(|object| matches!(object, Object::Graph(_))).count()
    }

    /// Returns the numbers of a GPU's objects: contexts, streams, events, modules, executable
    /// graphs.
    fn census(&self, gpu: usize) -> [usize; 5] {
        let mut count = [0; 5];
        for object in lock(&self.objects).values() {
            match object {
                Object::Context(c) if c.gpu == gpu => count[0] += 1,
                Object::Stream(s) if s.context.gpu == gpu => count[1] += 1,
                Object::Event(e) if e.context.gpu == gpu => count[2] += 1,
                Object::Module(m) if m.context.gpu == gpu => count[3] += 1,
                Object::GraphExec(g) if g.context.gpu == gpu => count[4] += 1,
                _ => {}
            }
        }
        count
    }

    fn bury(&self, context: &Context) {
        lock(&self.objects).retain(|_, object| {
            let handle = match object {
                Object::Context(c) => c.handle,
                Object::Stream(s) => s.context.handle,
                Object::Event(e) => e.context.handle,
                Object::Module(m) => m.context.handle,
                Object::Function(f) => f.module.context.handle,
                Object::GraphExec(g) => g.context.handle,
                Object::Graph(_) => return true,
            };
            handle != context.handle
        });
        lock(&self.pinned).retain(|_, pinned| pinned.context != context.handle);
    }

    pub fn is_pinned(&self, host: usize, bytes: usize) -> bool {
        lock(&self.pinned)
            .range(..=host)
            .next_back()
            .is_some_and(|(begin, pinned)| host + bytes <= begin + pinned.bytes)
    }

    pub fn gpu_of(&self, address: u64) -> Option<&Gpu> {
        if address & gpu::TAG == 0 {
            return None;
        }
        self.gpus.get((address >> 48 & 0xff) as usize)
    }

    pub fn report(&self) -> String {
        report::text(self)
    }
}
