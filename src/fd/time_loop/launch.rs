//! Launch of a CUDA kernel. The code here is independent of a GPU: a pointer is a number, a launch
//! is a name with sizes.

/// Address of values on a GPU.
pub type Address = u64;

/// Kernel with the sizes of its launch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Launch {
    pub kernel: &'static str,
    /// Blocks along x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
}
