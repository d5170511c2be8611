//! Pure numbers: how long tasks take, a lower bound of the makespan, and how many slots pay off.

pub mod class_table;
pub mod concurrency_tuner;
pub mod estimator;
pub mod makespan_bound;
pub mod ratio_window;
