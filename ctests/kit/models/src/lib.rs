//! References for gpusched: the recorded cases, a double-precision propagator, kernels that run
//! without a GPU, other ways to schedule; and what the comparisons share.

pub mod bits;
pub mod dipole;
pub mod gate;
pub mod golden;
pub mod kernels;
pub mod norms;
pub mod reference;
pub mod schedules;
pub mod shots;
