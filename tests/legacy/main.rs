//! The old entry point: its numerics, its files, and what it does with bad input.

#[allow(dead_code)]
#[path = "../support/golden.rs"]
mod golden;
#[allow(dead_code)]
#[path = "../support/norms.rs"]
mod norms;

mod bad_input;
mod behaviour;
mod call;
mod golden_cases;
