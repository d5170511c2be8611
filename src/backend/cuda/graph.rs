//! Repeated launches, such as the steps of a time loop. A list of launches that is submitted for
//! the second time becomes a graph, which one call launches.
//!
//! Creating a graph costs a few calls per launch, once. Later launches of the graph cost the host
//! and the GPU less. If the driver has no graphs, or refuses this one, the launches are submitted
//! one by one. Only the speed depends on it.

use std::ptr::null_mut;
use std::sync::Arc;

use cudarc::driver::sys::{CUDA_KERNEL_NODE_PARAMS, CUgraph, CUgraphExec, CUgraphNode, CUstream};

use super::context::Context;
use super::driver::{self, DriverFailure, DriverResult};
use super::kernel::{Kernel, Params};
use super::status::{self, StatusClass};
use super::stream::Stream;
use crate::error::{Error, Result};

/// Maximum number of cached lists of launches.
const MAX_CACHED: usize = 32;
/// Number of submissions after which a new list may replace a cached one that was not used. Lists
/// in rotation stay, also if they are more than the cache holds.
const STALE_AFTER: u64 = 8 * MAX_CACHED as u64;
/// Status code of the driver for wrong kernel parameters.
const INVALID_VALUE: u32 = 1;

/// Launches in order, each after the previous one.
#[derive(Default)]
pub struct Launches(Vec<KernelLaunch>);

struct KernelLaunch {
    function: Kernel,
    grid: [u32; 3],
    block: [u32; 3],
    params: Params,
}

impl Launches {
    /// Appends a launch; the arguments are those of [`Stream::launch`].
    pub fn push(&mut self, function: &Kernel, grid: [u32; 3], block: [u32; 3], params: Params) {
        self.0.push(KernelLaunch { function: function.clone(), grid, block, params });
    }
}

/// Cached lists of launches, for one queue. The key of a list must contain everything that the
/// launches depend on. The memory that they use must outlive the cache.
pub struct Graphs<K> {
    cached: Vec<Entry<K>>,
    /// Number of submissions so far.
    submitted: u64,
}

struct Entry<K> {
    key: K,
    /// Number of the last submission with this key.
    last: u64,
    launches: CachedLaunches,
}

enum CachedLaunches {
    /// The list has been submitted once.
    Once,
    /// No graph can be built of the list.
    Plain,
    Graph(ExecGraph),
}

impl<K> Default for Graphs<K> {
    fn default() -> Self {
        Graphs { cached: Vec::new(), submitted: 0 }
    }
}

impl<K: PartialEq> Graphs<K> {
    /// Submits the launches of a key. `make` fills the list if no graph of it is cached.
    pub fn put(&mut self, stream: &Stream, key: K, make: impl FnOnce(&mut Launches)) -> Result<()> {
        self.submitted += 1;
        let cached = self.cached.iter_mut().find(|entry| entry.key == key).map(|entry| {
            entry.last = self.submitted;
            &mut entry.launches
        });
        if let Some(CachedLaunches::Graph(graph)) = &cached
            && graph.launch(stream)?
        {
            return Ok(());
        }
        let mut list = Launches::default();
        make(&mut list);
        match cached {
            Some(cached) => {
                let graph = match cached {
                    CachedLaunches::Once => ExecGraph::build(stream, &mut list)?,
                    CachedLaunches::Plain | CachedLaunches::Graph(_) => None,
                };
                *cached = CachedLaunches::Plain;
                if let Some(graph) = graph
                    && graph.launch(stream)?
                {
                    *cached = CachedLaunches::Graph(graph);
                    return Ok(());
                }
            }
            None => self.remember(key),
        }
        list.0
            .into_iter()
            .try_for_each(|launch| stream.launch(&launch.function, launch.grid, launch.block, launch.params))
    }

    /// Caches a new key if the cache has room or a stale key.
    fn remember(&mut self, key: K) {
        if self.cached.len() == MAX_CACHED {
            let oldest = (0..MAX_CACHED).min_by_key(|&number| self.cached[number].last);
            match oldest.filter(|&number| self.submitted - self.cached[number].last > STALE_AFTER) {
                Some(number) => drop(self.cached.swap_remove(number)),
                None => return,
            }
        }
        self.cached.push(Entry { key, last: self.submitted, launches: CachedLaunches::Once });
    }
}

/// A graph that the driver can launch.
struct ExecGraph {
    context: Arc<Context>,
    handle: CUgraphExec,
    /// The stream on which it is launched.
    stream: CUstream,
    launches: usize,
}

// SAFETY: any thread may use a graph's handle, one at a time.
unsafe impl Send for ExecGraph {}

/// A graph under construction.
struct GraphBuilder<'a> {
    driver: &'a driver::GraphApi,
    graph: CUgraph,
}

impl Drop for GraphBuilder<'_> {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; it belongs to no context.
        let _ = unsafe { self.driver.destroy(self.graph) };
    }
}

impl ExecGraph {
    /// Builds a graph of the launches; `None` if the driver can't.
    fn build(stream: &Stream, list: &mut Launches) -> Result<Option<ExecGraph>> {
        let context = &stream.context;
        let Some(driver) = context.driver().graphs() else { return Ok(None) };
        if list.0.len() < 2 || list.0.iter().any(|launch| !launch.function.is_of(context)) {
            return Ok(None);
        }
        context.enter()?;
        let launches = list.0.len();
        let made = ExecGraph::instantiate(driver, list);
        let made = poisoning_only(context, made, || format!("creating a graph of {launches} launches"))?;
        Ok(made.map(|handle| ExecGraph { context: context.clone(), handle, stream: stream.handle, launches }))
    }

    /// Creates the graph. The context is current.
    fn instantiate(driver: &driver::GraphApi, list: &mut Launches) -> DriverResult<CUgraphExec> {
        let (mut graph, mut handle, mut last) = (null_mut(), null_mut(), null_mut());
        // SAFETY: a valid place; the graph is destroyed with `builder`.
        unsafe { driver.create(&mut graph, 0)? };
        let builder = GraphBuilder { driver, graph };
        for (number, launch) in list.0.iter_mut().enumerate() {
            let mut size = 0;
            // Too many parameters. The launch without a graph reports it.
            let refused = DriverFailure { call: "cuGraphAddKernelNode", code: INVALID_VALUE };
            let mut arguments = launch.params.driver_arguments(&mut size).ok_or(refused)?;
            let ([gx, gy, gz], [bx, by, bz]) = (launch.grid, launch.block);
            let kernel = CUDA_KERNEL_NODE_PARAMS {
                func: launch.function.handle,
                gridDimX: gx,
                gridDimY: gy,
                gridDimZ: gz,
                blockDimX: bx,
                blockDimY: by,
                blockDimZ: bz,
                sharedMemBytes: 0,
                kernelParams: null_mut(),
                extra: arguments.as_mut_ptr(),
                kern: null_mut(),
                ctx: null_mut(),
            };
            let before: CUgraphNode = last;
            // SAFETY: the function belongs to a loaded module. The call reads the parameters and
            // the one predecessor before it returns.
            unsafe {
                driver.add_kernel(&mut last, builder.graph, &before, usize::from(number > 0), &kernel)?
            };
        }
        // SAFETY: the graph exists, and the instance does not refer to it.
        unsafe { driver.instantiate(&mut handle, builder.graph, 0)? };
        Ok(handle)
    }

    /// Launches the graph. Returns false if the driver refuses it; nothing of it is on the queue
    /// then.
    fn launch(&self, stream: &Stream) -> Result<bool> {
        if stream.handle != self.stream || !Arc::ptr_eq(&self.context, &stream.context) {
            return Err(Error::Internal("a graph is launched on another queue".into()));
        }
        self.context.enter()?;
        let Some(driver) = self.context.driver().graphs() else { return Ok(false) };
        // SAFETY: the graph and the stream exist.
        let done = unsafe { driver.launch(self.handle, self.stream) };
        let what = || format!("launching a graph of {} kernels", self.launches);
        poisoning_only(&self.context, done, what).map(|done| done.is_some())
    }
}

/// Returns an error if the failure poisons the context, and `None` after any other failure: the
/// launches are then submitted without a graph.
fn poisoning_only<T>(
    context: &Context,
    answer: DriverResult<T>,
    what: impl FnOnce() -> String,
) -> Result<Option<T>> {
    match answer {
        Err(failure) if status::class_in_context(failure.code) != StatusClass::Poisoned => {
            log::debug!("{}: {} failed: {}", context.device().label(), what(), failure.message());
            Ok(None)
        }
        answer => context.check(answer, what).map(Some),
    }
}

impl Drop for ExecGraph {
    fn drop(&mut self) {
        let (handle, stream) = (self.handle, self.stream);
        self.context.destroy(|driver| match driver.graphs() {
            // SAFETY: created once and destroyed once, after the queue, which outlives it, has done
            // its work.
            Some(graphs) => unsafe {
                driver.stream_synchronize(stream).and_then(|()| graphs.destroy_exec(handle))
            },
            None => Ok(()),
        });
    }
}
