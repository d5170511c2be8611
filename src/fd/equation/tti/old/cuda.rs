//! The step on a GPU: its parameters and its part of [`march`](crate::fd::march).

use std::mem::offset_of;
use std::sync::Arc;

use super::OldTtiPropagator;
use super::coefficients::OldOperators;
use crate::fd::anisotropy::IsotropicBall;
use crate::fd::edge_field::EdgeField;
use crate::fd::equation::tti::propagator::TiltedCoefficients;
use crate::fd::grid::layout::Layout;
use crate::fd::grid::zones::Zones;
use crate::fd::march::activity::ActivityParams;
use crate::fd::march::equation::{CudaEquation, PlanAddresses, ShotAddresses};
use crate::fd::march::kernel_set::{KernelSet, kernel_set};
use crate::fd::march::source::CubeParams;
use crate::fd::march::tables::{COEFFICIENTS, Tables};
use crate::fd::one_pass::axis::Axis;
use crate::fd::one_pass::cuda::{AxisParams, Zone};
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::time_loop::launch::Address;

/// The kernels of `kernels/tti_old.cu`.
static KERNELS: KernelSet = kernel_set!("tti_old", Some("tti_old_fluxes_4x2"), None);

/// The first parameter of the kernels of a step, by value, as `struct Tilted`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TiltedParams {
    pub next: [Address; 2],
    pub flux: [Address; 3],
    pub damped: [Address; 2],
    pub d: Address,
    pub split: [Address; 3],
    pub coefficients: [Address; COEFFICIENTS],
    pub axis: [AxisParams; 3],
    pub zone: [Zone; 3],
    pub tiles: Address,
    pub steps: [[u32; 2]; COEFFICIENTS],
    pub pitch: u32,
    pub plane: u32,
    pub slots: u32,
    pub pml: i32,
    pub stencils: [[f32; HALF_WIDTH]; 3],
    pub squares: [f32; 2],
    pub cube: CubeParams,
    pub activity: ActivityParams,
}

// As the kernels assert them.
const _: () = {
    assert!(size_of::<TiltedParams>() == 544 && offset_of!(TiltedParams, axis) == 144);
    assert!(offset_of!(TiltedParams, steps) == 344 && offset_of!(TiltedParams, squares) == 464);
};

impl CudaEquation for OldTtiPropagator {
    type Params = TiltedParams;
    type Shared = TiltedCoefficients<4, OldOperators>;

    const PROFILES: usize = 4;
    const PRESSURE_FIELDS: usize = 1;
    const OWN_BYTES: u64 = IsotropicBall::BYTES;

    fn kernels() -> &'static KernelSet {
        &KERNELS
    }

    /// P, Q, the fluxes, the increments; the damped fluxes of x and y, and the split pressures.
    fn lens(layout: &Layout) -> Vec<usize> {
        let [nx, ny, _] = layout.padded;
        let [x, y] = [0, 1].map(|axis| Zones::new(layout, axis).velocities());
        let damped = [layout.rows(ny * x), layout.rows(y * nx)];
        [layout.field_len(); 6].into_iter().chain(damped).chain(layout.split_lens()).collect()
    }

    fn shared(&self) -> &Arc<Self::Shared> {
        &self.c
    }

    fn fields(&self) -> Vec<&EdgeField> {
        self.c.medium.fields()
    }

    /// Keep, velocity rate, loss and pressure rate of an axis.
    fn profiles(&self) -> Vec<f32> {
        Axis::profiles(&self.c.operators.axes)
    }

    fn increments(_from: usize) -> usize {
        5
    }

    fn params(&self, tables: &Tables, plan: &PlanAddresses, shot: &ShotAddresses) -> [TiltedParams; 2] {
        let (c, layout, arrays) = (&self.c.operators, &tables.layout, &shot.arrays);
        let first = |number: usize| tables.first(arrays[number]);
        let axis = AxisParams::of_axes(&c.axes, tables, plan.profiles);
        [0, 1].map(|from: usize| TiltedParams {
            next: [first(0), first(1)],
            flux: [first(2), first(3), first(4)],
            d: first(5),
            damped: [first(6), first(7)],
            split: [first(8), first(9), arrays[10]],
            coefficients: plan.coefficients.map(|array| tables.first_coefficient(array)),
            axis,
            zone: tables.zones.each_ref().map(Zone::new),
            tiles: plan.tiles,
            steps: tables.steps.map(|both| both.map(|step| step as u32)),
            pitch: layout.pitch as u32,
            plane: layout.stride(1) as u32,
            slots: tables.zones[0].velocities() as u32,
            pml: layout.pml as i32,
            stencils: c.stencils,
            squares: Axis::squares(&c.axes),
            cube: shot.cube,
            activity: ActivityParams::new(layout, shot.flags, shot.skipped, from),
        })
    }
}
