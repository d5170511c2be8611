//! Graphs of kernels: their construction, and their executable form.

use std::sync::{Arc, Mutex};

use super::{Answer, Code, Context, Dims, Driver, Function, Object, Stream, code, lock};

#[derive(Clone)]
struct Node {
    function: Arc<Function>,
    dims: Dims,
    params: Arc<Vec<u8>>,
    after: Vec<usize>,
}

/// A graph, which belongs to no context. Its nodes' handles follow its own.
#[derive(Default)]
pub struct Graph {
    nodes: Mutex<Vec<Node>>,
}

impl Graph {
    /// Adds a kernel after others. The handle of a node is its number, from 1.
    pub fn add(
        &self,
        function: Arc<Function>,
        dims: Dims,
        params: Vec<u8>,
        after: &[usize],
    ) -> Answer<usize> {
        function.check(&dims)?;
        let mut nodes = lock(&self.nodes);
        let after: Vec<usize> = after.iter().map(|handle| handle.wrapping_sub(1)).collect();
        if after.iter().any(|&node| node >= nodes.len()) {
            return Err(code::INVALID_VALUE);
        }
        nodes.push(Node { function, dims, params: Arc::new(params), after });
        Ok(nodes.len())
    }
}

pub struct GraphExec {
    pub context: Arc<Context>,
    /// In an order that respects the dependencies.
    nodes: Vec<Node>,
}

impl Driver {
    pub fn instantiate(&self, graph: &Graph, context: &Arc<Context>) -> Answer<usize> {
        let nodes = lock(&graph.nodes);
        if nodes.iter().any(|node| node.function.module.context.handle != context.handle) {
            return Err(code::INVALID_HANDLE);
        }
        // The last of all ready nodes comes first, so that a missing dependency changes the
        // results.
        let mut done = vec![false; nodes.len()];
        let mut order = Vec::new();
        while order.len() < nodes.len() {
            let ready = |at: &usize| !done[*at] && nodes[*at].after.iter().all(|&before| done[before]);
            let next = (0..nodes.len()).rev().find(ready).ok_or(code::INVALID_VALUE)?;
            done[next] = true;
            order.push(nodes[next].clone());
        }
        let handle = self.handle();
        let exec = GraphExec { context: context.clone(), nodes: order };
        self.insert(handle, Object::GraphExec(Arc::new(exec)));
        Ok(handle)
    }
}

impl GraphExec {
    pub fn launch(self: &Arc<Self>, stream: &Stream, hang: bool) -> Answer {
        if self.context.handle != stream.context.handle {
            return Err(code::INVALID_HANDLE);
        }
        let mut state = lock(&stream.context.gpu().state);
        state.graph_launches += 1;
        state.graph_nodes += self.nodes.len() as u64;
        drop(state);
        let (graph, context) = (self.clone(), stream.context.clone());
        stream.push(false, move || {
            let mut hang = hang;
            graph.nodes.iter().try_for_each(|node| {
                let done: Result<(), Code> =
                    context.check().and_then(|()| node.function.run(&context, node.dims, &node.params, hang));
                hang = false;
                done
            })
        });
        Ok(())
    }
}
