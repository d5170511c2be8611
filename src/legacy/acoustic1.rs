//! `cuda_3dfd_1order` of `acoustic1order.so`: the acoustic equation of first order.

use super::function::{Function, Snapshots, Sources, pulse};
use crate::fd::equation::Absorber;
use crate::fd::model::Property;

pub static ACOUSTIC1: Function = Function {
    name: "cuda_3dfd_1order",
    equation: "acoustic1",
    absorber: Absorber::Pml,
    models: &[("vel", Property::Vp), ("rho", Property::Rho)],
    wavelet: pulse,
    amplitude: 10_000.0,
    first_cell: 1,
    sources: Sources::AlongX,
    around: 14,
    receivers_z: 0,
    mutes: true,
    snapshots: Snapshots::Interval,
    // Oddity B18 of docs/legacy.md.
    between: "",
    before_update: false,
};
