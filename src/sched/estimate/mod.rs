//! Pure numbers: how long tasks take, a lower bound of the makespan, and how many slots pay off.

pub mod class_table;
pub mod concurrency_tuner;
pub mod estimator;
pub mod makespan_bound;

pub use class_table::{ClassRecord, ClassTable, DeviceRecord};
pub use concurrency_tuner::{AUTO_SLOTS, ConcurrencyTuner};
pub use estimator::Estimator;
pub use makespan_bound::lower_bound;
