//! Tests of numerical results. `docs/numerics.md` gives the reason of every tolerance.

mod accuracy;
mod analytic;
mod anisotropy;
mod check;
mod density;
mod edges;
mod flushing;
mod group_velocity;
mod pausing;
mod physics;
mod propagator;
mod reference;
mod sources;
mod stability;
mod wavelets;
