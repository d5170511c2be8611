//! The small integration tests, in one binary.

mod abi;
mod bad_calls;
mod c_programs;
mod callback_mode;
mod closed_streams;
mod guarded;
mod header;
mod imports;
mod layers;
mod legacy;
mod old_package;
mod random_worlds;
mod schedules;
mod skips;
mod task_stack;
mod words;
