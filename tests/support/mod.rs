//! What the numerical tests share.

pub mod bits;
pub mod dipole;
pub mod eliminated;
pub mod gate;
pub mod golden;
pub mod norms;
pub mod pausing;
pub mod random;
pub mod reference;
pub mod shooting;
