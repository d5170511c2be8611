//! What the numerical tests share.

pub mod golden;
pub mod norms;
