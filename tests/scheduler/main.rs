//! What the scheduler promises, on devices that are scripted.

#[allow(dead_code)]
#[path = "../support/random.rs"]
mod random;
mod scripted;

mod failures;
mod free;
mod hang;
mod life;
mod light;
mod loose;
mod memory;
mod nested;
mod order;
mod ranges;
mod seats;
mod seeing;
mod shared;
mod storm;
mod storms;
