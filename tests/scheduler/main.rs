//! What the scheduler promises, on devices that are scripted.

mod scripted;

mod failures;
mod life;
mod light;
mod memory;
mod nested;
mod order;
mod ranges;
mod seeing;
mod storm;
