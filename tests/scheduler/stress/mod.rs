//! Random worlds on real threads: what `tests/it/random_worlds.rs` does in virtual time, with the
//! races. A seed gives the same mix of devices, tasks and calls, but not the same run.
//!
//! `GPUSCHED_TEST_STRESS=FIRST,COUNT` names the seeds.

mod job;
mod record;
mod world;

/// Each run takes some ten milliseconds. Three concurrent runs have more threads than the machine
/// has processors.
#[test]
fn no_rule_is_broken_in_any_run() {
    testkit::worlds::play("GPUSCHED_TEST_STRESS", 300, 3, world::World::new);
}
