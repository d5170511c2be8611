//! The old entry point: its numerics, its files, and its refusals of bad input.

mod bad_input;
mod behaviour;
mod call;
mod golden_cases;
