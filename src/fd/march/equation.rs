//! The part of an equation in its step on a GPU.

use std::sync::Arc;

use super::kernel_set::KernelSet;
use super::tables::{COEFFICIENTS, Tables};
use crate::fd::edge_field::EdgeField;
use crate::fd::grid::layout::Layout;
use crate::fd::storage::Scale;
use crate::fd::tiled::equation::TiledEquation;
use crate::fd::time_loop::launch::Address;

/// An equation in a medium, for one shot on a GPU.
pub trait CudaEquation: TiledEquation {
    /// The first parameter of a step, by value.
    type Params: Copy + 'static;
    /// The coefficients that identify a plan, whose shots share memory on a GPU.
    type Shared: Send + Sync + 'static;

    /// Names of the coefficients in messages.
    const COEFFICIENTS: &'static [&'static str];
    /// Profiles of each axis, with a value for each index.
    const PROFILES: usize;
    /// Arrays of a shot that are fields, the first of them the pressure.
    const FIELDS: usize;
    /// Fields of the pressure: that of even and that of odd steps; or one, which a step replaces.
    const PRESSURE_FIELDS: usize = 2;
    /// Bytes of the shot's own coefficients, at most.
    const OWN_BYTES: u64 = 0;

    /// Returns the kernels of the equation.
    fn kernels() -> &'static KernelSet;

    /// Returns the lengths of the arrays of a shot, which are zero at first. `layout`: that of a GPU.
    fn lens(layout: &Layout) -> Vec<usize>;

    /// Returns the coefficients.
    fn shared(&self) -> &Arc<Self::Shared>;

    /// Returns the coefficients of a step.
    fn fields(&self) -> Vec<&EdgeField>;

    /// Returns the profiles of x, then of y, then of z.
    fn profiles(&self) -> Vec<f32>;

    /// Returns the shot's own coefficients around its source.
    fn own(&self) -> Option<Vec<f32>> {
        None
    }

    /// Returns the number of the array to which a step, of those that read the first or the second pressure, adds the
    /// poles of a source.
    fn increments(from: usize) -> usize;

    /// Returns the parameters of the steps that read the first pressure, and of those that read the second.
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
    /// As [`CudaEquation::lens`].
    pub arrays: Vec<Address>,
    /// [`CudaEquation::own`]; 0 if there are none.
    pub own: Address,
    /// The flags of the parts that the wave has reached, of even and of odd steps.
    pub flags: [Address; 2],
}

impl Tables {
    pub fn new<E: CudaEquation>(equation: &E) -> Tables {
        let layout = equation.layout().on_gpu();
        let fields = equation.fields();
        let mut steps = [[0; 2]; COEFFICIENTS];
        let mut scales = [Scale::default(); COEFFICIENTS];
        for (number, field) in fields.iter().enumerate() {
            steps[number] = field.steps(layout.pitch);
            scales[number] = field.scale().unwrap_or_default();
        }
        Tables {
            kernels: E::kernels(),
            layout,
            zones: E::zones(&layout),
            profiles: equation.profiles(),
            coefficients: fields.len(),
            steps,
            storage: equation.storage(),
            scales,
        }
    }
}
