//! The equations, each in the form in which a device computes it.

pub mod acoustic1;
