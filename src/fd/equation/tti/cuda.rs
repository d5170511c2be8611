//! The step on a GPU: its parameters and its part of [`march`](crate::fd::march).

use std::mem::offset_of;
use std::sync::Arc;

use super::TtiPropagator;
use super::coefficients::SelfAdjoint;
use super::propagator::TiltedCoefficients;
use crate::fd::anisotropy::IsotropicBall;
use crate::fd::edge_field::EdgeField;
use crate::fd::grid::layout::Layout;
use crate::fd::march::activity::ActivityParams;
use crate::fd::march::equation::{CudaEquation, PlanAddresses, ShotAddresses};
use crate::fd::march::kernel_set::{KernelSet, kernel_set};
use crate::fd::march::source::CubeParams;
use crate::fd::march::tables::Tables;
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::time_loop::launch::Address;
use crate::fd::vector::lanes::WIDEST;

/// The kernels of `kernels/tti.cu`.
static KERNELS: KernelSet = kernel_set!("tti", Some("tti_fluxes_4x2"), None);

/// The vector along the axis, vp², E, S.
const MEDIUM: usize = 6;

/// The properties of an axis, as `struct CentredAxis` of the kernels.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CentredAxis {
    pub damping: Address,
    pub weights: [f32; HALF_WIDTH],
    pub first: [f32; HALF_WIDTH],
    /// All cells.
    pub n: i32,
    /// The user's cells.
    pub inner: i32,
}

/// The first parameter of the kernels of a step, by value, as `struct SelfAdjoint`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SelfAdjointParams {
    pub next: [Address; 2],
    pub flux: [Address; 2],
    pub increments: [Address; 2],
    pub coefficients: [Address; MEDIUM],
    pub axis: [CentredAxis; 3],
    pub tiles: Address,
    pub steps: [[u32; 2]; MEDIUM],
    pub pitch: u32,
    pub plane: u32,
    pub pml: i32,
    pub centre: f32,
    pub cube: CubeParams,
    pub activity: ActivityParams,
}

// As the kernels assert them.
const _: () = {
    assert!(size_of::<CentredAxis>() == 48 && size_of::<SelfAdjointParams>() == 384);
    assert!(offset_of!(SelfAdjointParams, axis) == 96 && offset_of!(SelfAdjointParams, steps) == 248);
};

impl CudaEquation for TtiPropagator {
    type Params = SelfAdjointParams;
    type Shared = TiltedCoefficients<3, SelfAdjoint>;

    const PROFILES: usize = 1;
    const PRESSURE_FIELDS: usize = 1;
    const OWN_BYTES: u64 = IsotropicBall::BYTES;

    fn kernels() -> &'static KernelSet {
        &KERNELS
    }

    /// P, Q, both fluxes, both increments.
    fn lens(layout: &Layout) -> Vec<usize> {
        vec![layout.field_len(); 6]
    }

    fn shared(&self) -> &Arc<Self::Shared> {
        &self.c
    }

    fn fields(&self) -> Vec<&EdgeField> {
        self.c.medium.fields()
    }

    fn profiles(&self) -> Vec<f32> {
        self.c.operators.damping.iter().flat_map(|values| &values[..values.len() - WIDEST]).copied().collect()
    }

    fn params(&self, tables: &Tables, plan: &PlanAddresses, shot: &ShotAddresses) -> [SelfAdjointParams; 2] {
        let (c, layout) = (&self.c.operators, &tables.layout);
        let first = |number: usize| tables.first(shot.arrays[number]);
        let damping = tables.profiles(Self::PROFILES, plan.profiles);
        let axis = |axis: usize| CentredAxis {
            damping: damping[axis],
            weights: c.weights.axes[axis],
            first: c.first[axis],
            n: layout.padded[axis] as i32,
            inner: layout.inner[axis] as i32,
        };
        [0, 1].map(|from: usize| SelfAdjointParams {
            next: [first(0), first(1)],
            flux: [first(2), first(3)],
            increments: [first(4), first(5)],
            coefficients: std::array::from_fn(|number| tables.first_coefficient(plan.coefficients[number])),
            axis: [axis(0), axis(1), axis(2)],
            tiles: plan.tiles,
            steps: std::array::from_fn(|number| tables.steps[number].map(|step| step as u32)),
            pitch: layout.pitch as u32,
            plane: layout.stride(1) as u32,
            pml: layout.pml as i32,
            centre: c.weights.centre,
            cube: shot.cube,
            activity: ActivityParams::new(layout, shot.flags, shot.skipped, from),
        })
    }
}
