//! What is kept between runs of each kind of device: rates of task classes, and findings of tasks.

pub mod findings;
pub mod rate_store;
