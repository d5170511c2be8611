//! The part of the tests' tools that needs the propagator: recorded cases, references, kernels
//! without a GPU.

pub mod bits;
pub mod dipole;
pub mod gate;
pub mod golden;
pub mod kernels;
pub mod norms;
pub mod reference;
pub mod schedules;
pub mod shots;
