//! Launches that come again and again, as the steps of a time loop do: what has been put on the queue for the second time
//! is a graph from then on, and one call puts all of it there.
//!
//! A graph is worth a few calls for each of its launches once, and its launches cost the host and the card less
//! afterwards. Where the driver has no graphs, or does not make or take one, the launches are put there one by one:
//! nothing but speed depends on it.

use std::ptr::null_mut;
use std::sync::Arc;

use cudarc::driver::sys::{CUDA_KERNEL_NODE_PARAMS, CUgraph, CUgraphExec, CUgraphNode, CUstream};

use super::context::Context;
use super::driver::{self, Answer, Failure};
use super::function::{Function, Params};
use super::status::{self, Class};
use super::stream::Stream;
use crate::error::{Error, Result};

/// Different lists that are remembered, at most.
const KNOWN: usize = 32;
/// What the driver would say of parameters that are not the kernel's.
const INVALID_VALUE: u32 = 1;

/// Launches in their order, each after the one before.
#[derive(Default)]
pub struct Launches(Vec<Launch>);

struct Launch {
    function: Function,
    grid: [u32; 3],
    block: [u32; 3],
    params: Params,
}

impl Launches {
    /// As [`Stream::launch`] has it.
    pub fn push(&mut self, function: &Function, grid: [u32; 3], block: [u32; 3], params: Params) {
        self.0.push(Launch { function: function.clone(), grid, block, params });
    }
}

/// Lists of launches by a key that says all that they depend on. For one queue; what the launches use has to live as
/// long as this.
pub struct Graphs<K>(Vec<(K, Known)>);

enum Known {
    /// It has come once.
    Once,
    /// No graph can be made of it, or none is wanted.
    Plain,
    Graph(Graph),
}

impl<K> Default for Graphs<K> {
    fn default() -> Self {
        Graphs(Vec::new())
    }
}

impl<K: PartialEq> Graphs<K> {
    /// Puts the launches of a key on the queue; `make` names them where they are needed.
    pub fn put(&mut self, stream: &Stream, key: K, make: impl FnOnce(&mut Launches)) -> Result<()> {
        let room = self.0.len() < KNOWN;
        let known = self.0.iter_mut().find(|(known, _)| *known == key).map(|(_, known)| known);
        if let Some(Known::Graph(graph)) = &known
            && graph.launch(stream)?
        {
            return Ok(());
        }
        let mut list = Launches::default();
        make(&mut list);
        match known {
            Some(known) => {
                let graph = match known {
                    Known::Once => Graph::of(stream, &mut list)?,
                    Known::Plain | Known::Graph(_) => None,
                };
                *known = Known::Plain;
                if let Some(graph) = graph
                    && graph.launch(stream)?
                {
                    *known = Known::Graph(graph);
                    return Ok(());
                }
            }
            None if room => self.0.push((key, Known::Once)),
            None => {}
        }
        list.0
            .into_iter()
            .try_for_each(|launch| stream.launch(&launch.function, launch.grid, launch.block, launch.params))
    }
}

/// A graph as the driver launches it.
struct Graph {
    context: Arc<Context>,
    handle: CUgraphExec,
    /// Where it has been launched.
    stream: CUstream,
    launches: usize,
}

// SAFETY: a graph's handle may be used by any thread, one at a time.
unsafe impl Send for Graph {}

/// A graph while it is put together.
struct Parts<'a> {
    driver: &'a driver::Graphs,
    graph: CUgraph,
}

impl Drop for Parts<'_> {
    fn drop(&mut self) {
        // SAFETY: made once, destroyed once; it is no context's.
        let _ = unsafe { self.driver.destroy(self.graph) };
    }
}

impl Graph {
    /// `None` where no graph is to be had.
    fn of(stream: &Stream, list: &mut Launches) -> Result<Option<Graph>> {
        let context = &stream.context;
        let Some(driver) = context.driver().graphs() else { return Ok(None) };
        if list.0.len() < 2 || list.0.iter().any(|launch| !launch.function.is_of(context)) {
            return Ok(None);
        }
        context.enter()?;
        let launches = list.0.len();
        let made = Graph::made(driver, list);
        let made = told(context, made, || format!("to make a graph of {launches} launches"))?;
        Ok(made.map(|handle| Graph { context: context.clone(), handle, stream: stream.handle, launches }))
    }

    /// The context is current.
    fn made(driver: &driver::Graphs, list: &mut Launches) -> Answer<CUgraphExec> {
        let (mut graph, mut handle, mut last) = (null_mut(), null_mut(), null_mut());
        // SAFETY: the place is ours; destroyed with `parts`.
        unsafe { driver.create(&mut graph, 0)? };
        let parts = Parts { driver, graph };
        for (number, launch) in list.0.iter_mut().enumerate() {
            let mut size = 0;
            // Too many: the launch by itself tells of it.
            let refused = Failure { call: "cuGraphAddKernelNode", code: INVALID_VALUE };
            let mut told = launch.params.told(&mut size).ok_or(refused)?;
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
                extra: told.as_mut_ptr(),
                kern: null_mut(),
                ctx: null_mut(),
            };
            let before: CUgraphNode = last;
            // SAFETY: the function is of a loaded module; the parameters are read before this returns, and so is the one
            // node that comes before.
            unsafe { driver.add_kernel(&mut last, parts.graph, &before, usize::from(number > 0), &kernel)? };
        }
        // SAFETY: the graph is there, and what is made of it needs it no more.
        unsafe { driver.instantiate(&mut handle, parts.graph, 0)? };
        Ok(handle)
    }

    /// False if the driver does not take it: nothing of it is on the queue then.
    fn launch(&self, stream: &Stream) -> Result<bool> {
        if stream.handle != self.stream || !Arc::ptr_eq(&self.context, &stream.context) {
            return Err(Error::Internal("a graph is launched on another queue".into()));
        }
        self.context.enter()?;
        let Some(driver) = self.context.driver().graphs() else { return Ok(false) };
        // SAFETY: the graph and the queue are there.
        let done = unsafe { driver.launch(self.handle, self.stream) };
        let what = || format!("to launch a graph of {} kernels", self.launches);
        told(&self.context, done, what).map(|done| done.is_some())
    }
}

/// What poisons the context is an error, as of any call; anything else only means that there is no graph.
fn told<T>(context: &Context, answer: Answer<T>, what: impl FnOnce() -> String) -> Result<Option<T>> {
    match answer {
        Err(failure) if status::class(failure.code) != Class::Poisoned => {
            log::debug!("{}: {}: {}", context.card().label(), what(), failure.words());
            Ok(None)
        }
        answer => context.judge(answer, what).map(Some),
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let (handle, stream) = (self.handle, self.stream);
        self.context.destroy(|driver| match driver.graphs() {
            // SAFETY: made once and destroyed once, when the queue, which outlives it, has done what it was given.
            Some(graphs) => unsafe {
                driver.stream_synchronize(stream).and_then(|()| graphs.destroy_exec(handle))
            },
            None => Ok(()),
        });
    }
}
