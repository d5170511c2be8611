//! `cuda_3dfd` of `acoustic2order.so`: the acoustic equation of second order. Samples and snapshots
//! hold the field before the update of their step (oddity B10 of docs/legacy.md).

use super::args::Args;
use super::function::{Function, Snapshots, Sources};
use crate::error::Result;
use crate::fd::equation::Absorber;
use crate::fd::host_memory::collected;
use crate::fd::model::Property;
use crate::fd::wavelet::Wavelet;

pub static ACOUSTIC2: Function = Function {
    name: "cuda_3dfd",
    equation: "acoustic2",
    absorber: Absorber::Sponge,
    models: &[("vel", Property::Vp)],
    wavelet,
    // The upper pole of the dipole, in the source's cell, is the positive one here.
    amplitude: -1.0,
    first_cell: 0,
    sources: Sources::One,
    around: 0,
    receivers_z: 1,
    mutes: false,
    snapshots: Snapshots::Every(500),
    between: "_",
    before_update: true,
};

#[expect(clippy::approx_constant, reason = "the ten digits of the old kernels")]
const PI: f64 = 3.141592653;

/// Returns a Ricker wavelet over the whole time axis, one step late. The old function records the
/// field before the update of a step, which is the field after the update of the step before.
/// Rounds as the old function does.
fn wavelet(args: &Args, nt: usize) -> Result<Wavelet> {
    // Checks `fm` and `dt`; the result is not used.
    Wavelet::new(crate::fd::wavelet::Shape::CutRicker, args.fm, args.dt, 1)?;
    let sample = |it: usize| {
        let Some(it) = it.checked_sub(1) else { return 0.0 };
        let t = (f64::from(it as f32 * args.dt) - 1.0 / f64::from(args.fm)).abs() as f32;
        let x = (PI * f64::from(args.fm) * f64::from(t)) as f32;
        let q = x * x;
        ((1.0 - 2.0 * f64::from(q)) * f64::from((-q).exp())) as f32
    };
    Wavelet::from_samples(collected((0..nt + 1).map(sample), "a wavelet")?)
}
