//! The `gpusched` command, from its arguments to its files and exit status.

mod refusals;
mod scratch;
mod seeing;
mod simulate;
mod surveys;
mod tools;
mod world;
