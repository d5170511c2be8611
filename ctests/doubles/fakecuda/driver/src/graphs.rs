//! Graphs of kernels.

use std::ffi::{c_uint, c_ulonglong, c_void};
use std::sync::Arc;

use fakecuda::driver::{Current, Dims, Driver, Graph, Object, code};

use crate::launches::arguments;
use crate::{Handle, cuda, enter, out};

/// `CUDA_KERNEL_NODE_PARAMS` of CUDA 10; later versions have more fields at the end.
#[repr(C)]
pub struct KernelNode {
    function: Handle,
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared: c_uint,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
}

cuda! {
    fn cuGraphCreate(graph: *mut Handle, flags: c_uint) {
        if flags != 0 { return Err(code::INVALID_VALUE) }
        enter("graph")?;
        let handle = Driver::get().handle();
        Driver::get().insert(handle, Object::Graph(Arc::new(Graph::default())));
        out(graph, handle)?
    }
    fn cuGraphAddKernelNode(
        node: *mut Handle, graph: Handle, after: *const Handle, count: usize, kernel: *const KernelNode,
    ) {
        enter("graph")?;
        let graph = Driver::get().graph(graph)?;
        if kernel.is_null() || (after.is_null() && count > 0) { return Err(code::INVALID_VALUE) }
        let KernelNode { function, grid, block, shared, params, extra } = kernel.read();
        let function = Driver::get().function(function)?;
        let values = arguments(&function, params, extra)?;
        let after = if count == 0 { &[] } else { std::slice::from_raw_parts(after, count) };
        out(node, graph.add(function, Dims { grid, block, shared }, values, after)?)?
    }
    fn cuGraphInstantiateWithFlags(exec: *mut Handle, graph: Handle, flags: c_ulonglong) {
        if flags != 0 { return Err(code::INVALID_VALUE) }
        let context = enter("graph")?;
        out(exec, Driver::get().instantiate(&*Driver::get().graph(graph)?, &context)?)?
    }
    fn cuGraphDestroy(graph: Handle) {
        Driver::get().visible()?;
        Driver::get().graph(graph)?;
        Driver::get().remove(graph);
    }
    fn cuGraphExecDestroy(exec: Handle) {
        Driver::get().visible()?;
        Driver::get().graph_exec(exec)?;
        Driver::get().remove(exec);
    }
    fn cuGraphLaunch(exec: Handle, stream: Handle) {
        let (_, hang) = match Current::enter("graphlaunch") {
            // Like that of a kernel's launch, this failure is reported by a later call.
            Err(0) => return Ok(()),
            other => other?,
        };
        let exec = Driver::get().graph_exec(exec)?;
        exec.launch(&*Driver::get().stream(stream)?, hang)?
    }
}
