//! The step on a GPU: its parameters and its part of [`march`](crate::fd::march).

use std::mem::offset_of;
use std::sync::Arc;

use super::coefficients::Coefficients;
use crate::fd::edge_field::EdgeField;
use crate::fd::grid::layout::Layout;
use crate::fd::grid::zones::Zones;
use crate::fd::march::activity::ActivityParams;
use crate::fd::march::equation::{CudaEquation, PlanAddresses, ShotAddresses};
use crate::fd::march::kernel_set::{KernelSet, kernel_set};
use crate::fd::march::tables::Tables;
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::storage::{Scale, Storage};
use crate::fd::time_loop::launch::Address;

/// The kernels of `kernels/acoustic2_one_pass.cu`.
static KERNELS: KernelSet = kernel_set!("acoustic2");

/// The properties of an axis, as `struct SpongeAxis` of the kernels.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpongeAxis {
    pub factors: Address,
    pub weights: [f32; HALF_WIDTH],
    /// All cells.
    pub n: i32,
    /// The user's cells.
    pub inner: i32,
}

/// The first parameter of a step, by value, as `struct SecondOrder`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SecondOrderParams {
    pub p: Address,
    pub next: Address,
    pub v: Address,
    pub tiles: Address,
    pub axis: [SpongeAxis; 3],
    pub steps: [u32; 2],
    pub pitch: u32,
    pub plane: u32,
    pub pml: i32,
    pub centre: f32,
    pub scale: Scale,
    pub activity: ActivityParams,
}

// As the kernels assert them.
const _: () = {
    assert!(size_of::<SpongeAxis>() == 32 && size_of::<SecondOrderParams>() == 192);
    assert!(offset_of!(SecondOrderParams, steps) == 128 && offset_of!(SecondOrderParams, scale) == 152);
};

impl CudaEquation for Arc<Coefficients> {
    type Params = SecondOrderParams;
    type Shared = Coefficients;

    const COEFFICIENTS: &'static [&'static str] = &["vp² of the model"];
    const PROFILES: usize = 1;
    const FIELDS: usize = 2;

    fn kernels() -> &'static KernelSet {
        &KERNELS
    }

    /// All cells are updated alike.
    fn zones(layout: &Layout) -> [Zones; 3] {
        [0, 1, 2].map(|axis| Zones::uniform(layout, axis))
    }

    /// The pressure of even and of odd steps.
    fn lens(layout: &Layout) -> Vec<usize> {
        vec![layout.field_len(); 2]
    }

    fn shared(&self) -> &Arc<Coefficients> {
        self
    }

    fn cpu_layout(&self) -> &Layout {
        &self.layout
    }

    fn storage(&self) -> Storage {
        self.storage
    }

    fn fields(&self) -> Vec<&EdgeField> {
        vec![&self.v]
    }

    /// The sponge's factors.
    fn profiles(&self) -> Vec<f32> {
        self.sponge.concat()
    }

    /// The pressure of the step before.
    fn increments(from: usize) -> usize {
        1 - from
    }

    fn params(&self, tables: &Tables, plan: &PlanAddresses, shot: &ShotAddresses) -> [SecondOrderParams; 2] {
        let layout = &tables.layout;
        let factors = tables.profiles(Self::PROFILES, plan.profiles);
        let axis = |axis: usize| SpongeAxis {
            factors: factors[axis],
            weights: self.weights.axes[axis],
            n: layout.padded[axis] as i32,
            inner: layout.inner[axis] as i32,
        };
        [0, 1].map(|from: usize| SecondOrderParams {
            p: tables.first(shot.arrays[from]),
            next: tables.first(shot.arrays[1 - from]),
            v: tables.first_coefficient(plan.coefficients[0]),
            tiles: plan.tiles,
            axis: [axis(0), axis(1), axis(2)],
            steps: tables.steps[0].map(|step| step as u32),
            pitch: layout.pitch as u32,
            plane: layout.stride(1) as u32,
            pml: layout.pml as i32,
            centre: self.weights.centre,
            scale: tables.scales[0],
            activity: ActivityParams::new(layout, shot.flags, from),
        })
    }

    fn words(&self, cell: [usize; 3]) -> String {
        self.describe_cell(cell)
    }
}
