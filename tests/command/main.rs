//! The `gpusched` command, from its arguments to its files and exit status.

mod faults;
mod kills;
mod pausing;
mod refusals;
mod resume;
mod scratch;
mod seeing;
mod simulate;
mod surveys;
mod tools;
mod world;
