//! References for gpusched: the recorded cases, a double-precision propagator, kernels that run
//! without a GPU, other ways to schedule; and what the comparisons share.

pub mod bits;
pub mod dipole;
pub mod gate;
pub mod golden;
pub mod hostcuda;
pub mod interpreted;
pub mod kernel_shots;
pub mod media;
pub mod norms;
pub mod one_pass_shots;
pub mod pausing;
pub mod reference;
pub mod scheduled_shots;
pub mod schedules;
pub mod shots;
pub mod without_velocities;
