//! Tests of the scheduler on scripted devices.

mod scripted;

mod detached;
mod failures;
mod hang;
mod lifecycle;
mod light;
mod memory;
mod nested;
mod observability;
mod order;
mod ranges;
mod shared_devices;
mod slot_reuse;
mod slot_tuning;
mod stress;
