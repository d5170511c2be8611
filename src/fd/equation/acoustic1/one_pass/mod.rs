//! A step in one pass over the grid, with the velocities eliminated where nothing is damped.

mod fields;
mod lanes;
mod pass;
mod rows;
mod run;
mod source;
mod zones;

pub use run::run;
