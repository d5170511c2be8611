//! The small integration tests, in one binary.

mod abi;
mod bad_calls;
mod callback_mode;
mod closed_streams;
mod cpp;
mod exec;
mod failure_classes;
mod float_mode;
mod guarded;
mod header;
mod hostile_calls;
mod io;
mod layers;
mod legacy;
mod legacy_callers;
mod manners;
mod observability;
mod old_package;
mod random_worlds;
mod ranges;
mod reentry;
mod schedules;
mod task_stack;
