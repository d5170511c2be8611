//! The old entry point: its numerics, its files, and what it does with bad input.

mod bad_input;
mod behaviour;
mod call;
mod golden_cases;
