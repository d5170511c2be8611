//! `cuda_3dfd_tti` of `acoustic1tti.so`: media with a tilted axis of symmetry, without density. The
//! old function does not open the file of its argument `rho`.

use super::function::{Function, Snapshots, Sources, pulse};
use crate::fd::equation::Absorber;
use crate::fd::model::Property;

pub static TTI: Function = Function {
    name: "cuda_3dfd_tti",
    equation: "tti",
    absorber: Absorber::Pml,
    models: &[
        ("vel", Property::Vp),
        ("epsilon", Property::Epsilon),
        ("delta", Property::Delta),
        ("theta", Property::Theta),
        ("psi", Property::Phi),
    ],
    wavelet: pulse,
    amplitude: 10.0,
    first_cell: 1,
    sources: Sources::First,
    around: 34,
    receivers_z: 0,
    mutes: true,
    // The arguments `show_snapshot` and `snap_interval` have no effect (oddity B16 of docs/legacy.md).
    snapshots: Snapshots::Always(100),
    between: "_",
    before_update: false,
};
