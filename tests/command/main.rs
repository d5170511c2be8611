//! The `gpusched` command, from its arguments to its files and exit status.

mod environment;
mod faults;
mod kills;
mod observability;
mod pausing;
mod places;
mod refusals;
mod resume;
mod simulate;
mod surveys;
mod tools;
