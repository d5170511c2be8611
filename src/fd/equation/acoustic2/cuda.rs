//! The step on a GPU: its parameters and its part of [`march`](crate::fd::march).

use std::mem::offset_of;
use std::sync::Arc;

use super::coefficients::Acoustic2Coefficients;
use super::layer::{self, Layers};
use super::{Acoustic2Propagator, cpu};
use crate::fd::centred::FIRST;
use crate::fd::edge_field::EdgeField;
use crate::fd::grid::layout::Layout;
use crate::fd::march::activity::ActivityParams;
use crate::fd::march::equation::{CudaEquation, PlanAddresses, ShotAddresses};
use crate::fd::march::kernel_set::{KernelSet, kernel_set};
use crate::fd::march::tables::Tables;
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::storage::{Scale, Storage};
use crate::fd::time_loop::launch::Address;

/// The kernels of `kernels/acoustic2_one_pass.cu`.
static KERNELS: KernelSet = kernel_set!("acoustic2_one_pass", None, Some("acoustic2_one_pass_4x2_16_bit"));

/// The same with that of a PML.
static WITH_PML: KernelSet = kernel_set!(
    "acoustic2_one_pass",
    Some("acoustic2_one_pass_layers"),
    Some("acoustic2_one_pass_4x2_16_bit")
);

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

/// The layers along an axis, as `struct Layers`. All zero without a PML.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LayersParams {
    pub phi: Address,
    pub next_phi: Address,
    pub chi: Address,
    pub pitch: u32,
    pub plane: u32,
    /// The end of the first zone, and the begin of the second.
    pub between: [i32; 2],
    pub centre: f32,
    pub unused: i32,
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
    pub layers: [LayersParams; 3],
    pub first: [f32; HALF_WIDTH],
    /// Whether vp² is stored in 16 bits.
    pub halved: i32,
    pub unused: i32,
}

// As the kernels assert them.
const _: () = {
    assert!(size_of::<SpongeAxis>() == 32 && size_of::<SecondOrderParams>() == 368);
    assert!(size_of::<LayersParams>() == 48 && offset_of!(SecondOrderParams, layers) == 200);
    assert!(offset_of!(SecondOrderParams, steps) == 128 && offset_of!(SecondOrderParams, scale) == 152);
};

impl<const PML: bool> CudaEquation for Acoustic2Propagator<PML> {
    type Params = SecondOrderParams;
    type Shared = Acoustic2Coefficients;

    const PROFILES: usize = if PML { 1 + layer::PROFILES } else { 1 };

    fn kernels() -> &'static KernelSet {
        if PML { &WITH_PML } else { &KERNELS }
    }

    fn lens(layout: &Layout) -> Vec<usize> {
        cpu::lens::<PML>(layout, Layout::on_gpu)
    }

    fn shared(&self) -> &Arc<Acoustic2Coefficients> {
        &self.0
    }

    fn fields(&self) -> Vec<&EdgeField> {
        vec![&self.0.v]
    }

    /// The sponge's factors, and the profiles of a PML.
    fn profiles(&self) -> Vec<f32> {
        let of = |axis: usize| {
            let n = self.0.layout.padded[axis];
            let layers = self.0.layers.iter().flat_map(move |layers| &layers[axis].profiles);
            std::iter::once(&self.0.sponge[axis]).chain(layers).flat_map(move |values| &values[..n])
        };
        [0, 1, 2].into_iter().flat_map(of).copied().collect()
    }

    fn params(&self, tables: &Tables, plan: &PlanAddresses, shot: &ShotAddresses) -> [SecondOrderParams; 2] {
        let (c, layout) = (&self.0, &tables.layout);
        let factors = tables.profiles(Self::PROFILES, plan.profiles);
        let axis = |axis: usize| SpongeAxis {
            factors: factors[axis],
            weights: c.weights.axes[axis],
            n: layout.padded[axis] as i32,
            inner: layout.inner[axis] as i32,
        };
        let layers = |from: usize, axis: usize| {
            let Some(Layers { layout, zones: [near, far], centre, .. }) =
                c.layers.as_ref().map(|all| &all[axis])
            else {
                return LayersParams::default();
            };
            let layout = layout.on_gpu();
            let array = |number: usize| shot.arrays[2 + 3 * axis + number] + 4 * layout.lead as u64;
            LayersParams {
                phi: array(from),
                next_phi: array(1 - from),
                chi: array(2),
                pitch: layout.pitch as u32,
                plane: layout.stride(1) as u32,
                between: [near.end as i32, far.start as i32],
                centre: *centre,
                unused: 0,
            }
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
            centre: c.weights.centre,
            scale: tables.scales[0],
            activity: ActivityParams::new(layout, shot.flags, shot.skipped, from),
            layers: [0, 1, 2].map(|axis| layers(from, axis)),
            first: FIRST,
            halved: i32::from(c.storage == Storage::Bits16),
            unused: 0,
        })
    }
}
