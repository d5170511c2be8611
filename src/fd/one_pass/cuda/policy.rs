//! Interface of an equation to the step on a GPU.

use std::array::from_fn;
use std::sync::Arc;

use super::params::{AxisParams, StepParams, Zone};
use crate::fd::anisotropy::IsotropicBall;
use crate::fd::edge_field::EdgeField;
use crate::fd::grid::layout::Layout;
use crate::fd::march::activity::ActivityParams;
use crate::fd::march::equation::{CudaEquation, PlanAddresses, ShotAddresses};
use crate::fd::march::kernel_set::KernelSet;
use crate::fd::march::tables::Tables;
use crate::fd::one_pass::axis::Axis;
use crate::fd::one_pass::coefficients::Coefficients;
use crate::fd::one_pass::fields::{Fields, gpu_lens, gpu_slots};
use crate::fd::one_pass::policy::Policy;
use crate::fd::time_loop::launch::Address;

/// An equation in a medium, for one shot on a GPU.
pub trait CudaPolicy: Policy {
    /// Returns the kernels of the equation.
    fn kernel_set() -> &'static KernelSet;
}

/// Names of the coefficients in messages.
const NAMES: [&str; 4] =
    ["rho of the model", "rho vp² of the model", "epsilon of the model", "delta of the model"];

impl<P: CudaPolicy> CudaEquation for P {
    type Params = StepParams;
    type Shared = Coefficients;

    const COEFFICIENTS: &'static [&'static str] = NAMES.split_at(2 + P::MIXING).0;
    const PROFILES: usize = 4;
    const FIELDS: usize = 3 * P::PRESSURES;
    const OWN_BYTES: u64 = if P::MIXING > 0 { IsotropicBall::BYTES } else { 0 };

    fn kernels() -> &'static KernelSet {
        P::kernel_set()
    }

    fn lens(layout: &Layout) -> Vec<usize> {
        gpu_lens(layout, P::PRESSURES)
    }

    fn shared(&self) -> &Arc<Coefficients> {
        self.coefficients()
    }

    /// Returns rho, rho vp² and the mixing coefficients.
    fn fields(&self) -> Vec<&EdgeField> {
        let c = self.coefficients();
        let mixing = (0..P::MIXING).map(|number| self.mixing(number));
        [&*c.b, &*c.kappa].into_iter().chain(mixing).collect()
    }

    /// Returns keep, velocity rate, loss and pressure rate of x, then of y, then of z.
    fn profiles(&self) -> Vec<f32> {
        Axis::profiles(&self.coefficients().axes)
    }

    fn increments(_from: usize) -> usize {
        2 * P::PRESSURES
    }

    fn params(&self, tables: &Tables, plan: &PlanAddresses, shot: &ShotAddresses) -> [StepParams; 2] {
        let (c, layout) = (self.coefficients(), &tables.layout);
        let fields = Fields::new(P::PRESSURES, &shot.arrays);
        let first = |array: Address| tables.first(array);
        let [x, y, z] = fields.split;
        let profiles = tables.profiles(Self::PROFILES, plan.profiles);
        let axis = |axis: usize| {
            let (n, inner) = (layout.padded[axis], layout.inner[axis]);
            AxisParams::new(n, inner, c.axes[axis].rate, profiles[axis])
        };
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
                axis: [axis(0), axis(1), axis(2)],
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
