//! Random worlds on real threads: what `tests/it/random_worlds.rs` does in virtual time, with the races.
//!
//! A seed makes devices, some of which fail, and threads that submit tasks of all kinds, wait for them, cancel and
//! release them, while the scheduler is destroyed at some moment, or not. A seed gives the same mix, but not the same
//! run: the threads take their turns as the machine likes.
//!
//! `GPUSCHED_TEST_STRESS=FIRST,COUNT` names the seeds.

mod job;
mod record;
mod world;

/// Each run takes some ten milliseconds. Three at a time have more threads than there are processors.
#[test]
fn no_rule_is_broken_in_any_run() {
    testkit::worlds::play("GPUSCHED_TEST_STRESS", 300, 3, world::World::new);
}
