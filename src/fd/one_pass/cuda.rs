//! The step on a GPU (`kernels/one_pass.cuh`).

use std::array::from_fn;
use std::mem::offset_of;
use std::sync::Arc;

use super::axis::Axis;
use super::coefficients::Coefficients;
use super::equation::{OnePassEquation, OnePassPropagator};
use super::fields::{Fields, gpu_lens, gpu_slots};
use crate::fd::anisotropy::IsotropicBall;
use crate::fd::edge_field::EdgeField;
use crate::fd::grid::layout::Layout;
use crate::fd::grid::tile_table::GpuTile;
use crate::fd::grid::zones::Zones;
use crate::fd::march::activity::ActivityParams;
use crate::fd::march::equation::{CudaEquation, PlanAddresses, ShotAddresses};
use crate::fd::march::kernel_set::KernelSet;
use crate::fd::march::source::CubeParams;
use crate::fd::march::tables::Tables;
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::storage::Scale;
use crate::fd::time_loop::launch::Address;

/// Most coefficient fields of a step.
const COEFFICIENTS: usize = 4;

/// Properties of an axis, laid out as `struct Axis` of the kernels.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AxisParams {
    /// Keep, velocity rate, loss and pressure rate.
    pub profiles: [Address; 4],
    /// dt / h in s/m.
    pub rate: f32,
    /// Cells, with the absorbing layers.
    pub n: i32,
    /// The user's cells.
    pub inner: i32,
    pub unused: i32,
}

/// Zones of an axis, laid out as `struct Zone` of the kernels.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Zone {
    pub middle: [i32; 2],
    pub near_end: i32,
    pub far_begin: i32,
}

/// First parameter of a step, by value, laid out as `struct OnePass` of the kernels. An equation
/// with one pressure has no second one and two coefficients.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepParams {
    pub p: [Address; 2],
    pub next: [Address; 2],
    pub d: [Address; 2],
    pub velocity_old: [Address; 3],
    pub velocity_new: [Address; 3],
    pub split: [Address; 3],
    pub coefficients: [Address; COEFFICIENTS],
    pub axis: [AxisParams; 3],
    pub zone: [Zone; 3],
    pub tiles: Address,
    pub steps: [[u32; 2]; COEFFICIENTS],
    pub pitch: u32,
    pub plane: u32,
    pub slots: [u32; 2],
    pub pml: i32,
    /// [`Coefficients::beside`], -1 for `None`.
    pub beside: i32,
    /// Coefficients of the derivative.
    pub stencil: [f32; HALF_WIDTH],
    /// Scales of 16-bit coefficients.
    pub scales: [Scale; COEFFICIENTS],
    pub cube: CubeParams,
    pub activity: ActivityParams,
}

// The kernels assert the same.
const _: () = {
    assert!(size_of::<Zone>() == 16 && size_of::<GpuTile>() == 32 && size_of::<StepParams>() == 528);
    assert!(size_of::<AxisParams>() == 48 && offset_of!(AxisParams, rate) == 32);
    assert!(offset_of!(AxisParams, inner) == 40);
    assert!(offset_of!(StepParams, axis) == 152 && offset_of!(StepParams, tiles) == 344);
    assert!(
        offset_of!(StepParams, slots) == 392
            && offset_of!(StepParams, stencil) == 408
            && offset_of!(StepParams, cube) == 456
            && offset_of!(StepParams, activity) == 488
    );
};

impl AxisParams {
    /// Makes the parameters of x, y and z. `first`: the address of the profiles of all axes.
    pub fn of_axes(axes: &[Axis; 3], tables: &Tables, first: Address) -> [AxisParams; 3] {
        let begins = tables.profiles(4, first);
        [0, 1, 2].map(|axis| {
            let (n, inner) = (tables.layout.padded[axis], tables.layout.inner[axis] as i32);
            let profiles = [0, 1, 2, 3].map(|number| begins[axis] + 4 * number * n as u64);
            AxisParams { profiles, rate: axes[axis].rate, n: n as i32, inner, unused: 0 }
        })
    }
}

impl Zone {
    pub fn new(zones: &Zones) -> Zone {
        let Zones { middle, near, far, .. } = zones;
        let middle = [middle.start, middle.end].map(|i| i as i32);
        Zone { middle, near_end: near.end as i32, far_begin: far.start as i32 }
    }
}

impl<E: OnePassEquation> CudaEquation for OnePassPropagator<E> {
    type Params = StepParams;
    type Shared = Coefficients;

    const PROFILES: usize = 4;
    const OWN_BYTES: u64 = if E::MIXING > 0 { IsotropicBall::BYTES } else { 0 };

    fn kernels() -> &'static KernelSet {
        E::kernel_set()
    }

    fn lens(layout: &Layout) -> Vec<usize> {
        gpu_lens(layout, E::PRESSURES)
    }

    fn shared(&self) -> &Arc<Coefficients> {
        &self.c
    }

    /// Returns rho, rho vp² and the mixing coefficients.
    fn fields(&self) -> Vec<&EdgeField> {
        [&*self.c.b, &*self.c.kappa].into_iter().chain(self.mixing()).collect()
    }

    /// Returns keep, velocity rate, loss and pressure rate of x, then of y, then of z.
    fn profiles(&self) -> Vec<f32> {
        Axis::profiles(&self.c.axes)
    }

    fn params(&self, tables: &Tables, plan: &PlanAddresses, shot: &ShotAddresses) -> [StepParams; 2] {
        let (c, layout) = (&self.c, &tables.layout);
        let fields = Fields::new(E::PRESSURES, &shot.arrays);
        let first = |array: Address| tables.first(array);
        let [x, y, z] = fields.split;
        let axis = AxisParams::of_axes(&c.axes, tables, plan.profiles);
        [0, 1].map(|from: usize| {
            let velocity = |from: usize| {
                let [x, y, z] = fields.velocity.map(|both| both[from]);
                [first(x), first(y), z]
            };
            StepParams {
                p: fields.p.map(|both| first(both[from])),
                next: fields.p.map(|both| first(both[1 - from])),
                d: fields.d.map(first),
                velocity_old: velocity(from),
                velocity_new: velocity(1 - from),
                split: [first(x), first(y), z],
                coefficients: from_fn(|number| tables.first_coefficient(plan.coefficients[number])),
                axis,
                zone: tables.zones.each_ref().map(Zone::new),
                tiles: plan.tiles,
                steps: from_fn(|number| tables.steps[number].map(|step| step as u32)),
                pitch: layout.pitch as u32,
                plane: layout.stride(1) as u32,
                slots: [tables.zones[0].velocities() as u32, gpu_slots(&tables.zones[2]) as u32],
                pml: layout.pml as i32,
                beside: c.beside.map_or(-1, |beside| beside as i32),
                stencil: c.stencil,
                scales: from_fn(|number| tables.scales[number]),
                cube: shot.cube,
                activity: ActivityParams::new(layout, shot.flags, shot.skipped, from),
            }
        })
    }
}
