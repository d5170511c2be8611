//! `cuda_3dfd_vti` of `acoustic1vti.so`: media with a vertical axis of symmetry.

use super::function::{Function, Snapshots, Sources, pulse};
use crate::fd::equation::Absorber;
use crate::fd::model::Property;

pub static VTI: Function = Function {
    name: "cuda_3dfd_vti",
    equation: "vti",
    absorber: Absorber::Pml,
    models: &[
        ("vel", Property::Vp),
        ("rho", Property::Rho),
        ("epsilon", Property::Epsilon),
        ("delta", Property::Delta),
    ],
    wavelet: pulse,
    amplitude: 10.0,
    first_cell: 1,
    sources: Sources::AlongX,
    around: 14,
    receivers_z: 0,
    mutes: true,
    snapshots: Snapshots::Interval,
    between: "_",
    before_update: false,
};
