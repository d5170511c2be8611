//! Interface of an equation to the step on a GPU.

use std::array::from_fn;
use std::sync::Arc;

use super::kernel_set::KernelSet;
use super::source::CubeParams;
use super::tables::{COEFFICIENTS, Tables};
use crate::fd::edge_field::EdgeField;
use crate::fd::grid::layout::Layout;
use crate::fd::tiled::equation::TiledEquation;
use crate::fd::time_loop::launch::Address;

/// An equation in a medium, with a time step, on a GPU.
pub trait CudaEquation: TiledEquation {
    /// The first parameter of a step, by value.
    type Params: Copy + 'static;
    /// Coefficients that identify a plan, whose shots share memory on a GPU.
    type Shared: Send + Sync + 'static;

    /// Number of profiles of each axis; a profile has a value for each index.
    const PROFILES: usize;
    /// Number of fields of the first pressure: 2, of even and of odd steps, or 1, which a step replaces.
    const PRESSURE_FIELDS: usize = 2;
    /// Most bytes of the medium around a source.
    const OWN_BYTES: u64 = 0;

    /// Returns the kernels of the equation.
    fn kernels() -> &'static KernelSet;

    /// Returns the lengths of the arrays of a shot, which start as zeros. `layout`: that of a GPU.
    fn lens(layout: &Layout) -> Vec<usize>;

    /// Returns the coefficients that identify the plan.
    fn shared(&self) -> &Arc<Self::Shared>;

    /// Returns the coefficients of a step.
    fn fields(&self) -> Vec<&EdgeField>;

    /// Returns the profiles of x, then of y, then of z.
    fn profiles(&self) -> Vec<f32>;

    /// Returns the number of the array to which a step adds the poles of a source. `from`: 0 for
    /// steps that read the first pressure, 1 for those that read the second.
    fn increments(from: usize) -> usize {
        Self::increment_field(from)
    }

    /// Returns the parameters of the steps that read the first pressure, and of those that read the
    /// second.
    fn params(&self, tables: &Tables, plan: &PlanAddresses, shot: &ShotAddresses) -> [Self::Params; 2];
}

/// Addresses of the arrays of a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlanAddresses {
    pub coefficients: [Address; COEFFICIENTS],
    pub profiles: Address,
    pub tiles: Address,
}

/// Addresses of the arrays of a shot.
#[derive(Debug, Clone, PartialEq)]
pub struct ShotAddresses {
    /// Arrays in the order of [`CudaEquation::lens`].
    pub arrays: Vec<Address>,
    /// Medium around the source.
    pub cube: CubeParams,
    /// Flags of the parts that the wave has reached, for even and for odd steps.
    pub flags: [Address; 2],
    /// Counter of the cells that the steps have skipped.
    pub skipped: Address,
}

impl Tables {
    pub fn new<E: CudaEquation>(equation: &E) -> Tables {
        let layout = equation.layout().on_gpu();
        let fields = equation.fields();
        let steps = |number: usize| fields.get(number).map_or([0; 2], |field| field.steps(layout.pitch));
        let scale = |number: usize| fields.get(number).and_then(|field| field.scale()).unwrap_or_default();
        Tables {
            kernels: E::kernels(),
            layout,
            zones: E::zones(&layout),
            profiles: equation.profiles(),
            steps: from_fn(steps),
            storage: equation.storage(),
            scales: from_fn(scale),
        }
    }
}
