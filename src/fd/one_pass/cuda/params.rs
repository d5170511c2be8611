//! First parameter of the kernels of a step.

use std::mem::offset_of;

use crate::fd::grid::tile_table::GpuTile;
use crate::fd::grid::zones::Zones;
use crate::fd::march::activity::ActivityParams;
use crate::fd::march::source::CubeParams;
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::storage::Scale;
use crate::fd::time_loop::launch::Address;

/// Most coefficient fields of a step.
const COEFFICIENTS: usize = 4;

/// Properties of an axis, laid out as `struct Axis` of the kernels.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AxisParams {
    pub keep: Address,
    pub velocity_rate: Address,
    pub loss: Address,
    pub pressure_rate: Address,
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
    /// [`Beside`](crate::fd::one_pass::coefficients::Beside), -1 for `None`.
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
    /// Makes the parameters of an axis of `n` cells, `inner` of them the user's. `profiles`: the
    /// address of its four profiles.
    pub fn new(n: usize, inner: usize, rate: f32, profiles: Address) -> AxisParams {
        let [keep, velocity_rate, loss, pressure_rate] =
            [0, 1, 2, 3].map(|number| profiles + 4 * number * n as u64);
        AxisParams {
            keep,
            velocity_rate,
            loss,
            pressure_rate,
            rate,
            n: n as i32,
            inner: inner as i32,
            unused: 0,
        }
    }
}

impl Zone {
    pub fn new(zones: &Zones) -> Zone {
        let Zones { middle, near, far, .. } = zones;
        let middle = [middle.start, middle.end].map(|i| i as i32);
        Zone { middle, near_end: near.end as i32, far_begin: far.start as i32 }
    }
}
