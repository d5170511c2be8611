//! Denormal numbers: the steps of a shot flush them to zero, and nothing outside the steps does.

use std::cell::Cell;

use gpusched::backend::{Lane, cpu::Team};
use gpusched::error::Result;
use gpusched::fd::plan::{Options, Storage};
use gpusched::fd::{control::Control, shot::run};
use gpusched::fd::{control::State, survey::Receivers, wavelet::Wavelet};

use testkit::Random;
use testmodels::shots::{FAINT, World};

/// Returns the same shot with every storage.
fn worlds() -> impl Iterator<Item = World> {
    let receivers = Receivers::Plane { iz: 4, every: [1, 1] };
    let mut world = World::rough([9, 7, 18], 24, receivers, &mut Random::new(31));
    (world.shot.amplitude, world.shot.snapshot_every) = (1.0, Some(5));
    Storage::ALL
        .into_iter()
        .map(move |storage| World { options: Options { storage, ..world.options }, ..world.clone() })
}

#[test]
fn source_whose_fields_are_denormal_records_zeros() {
    for mut world in worlds() {
        assert!(world.fire().record.iter().any(|v| *v != 0.0), "{:?}", world.options);
        world.shot.amplitude = FAINT;
        let found = world.fire();
        let mut fields = found.snapshots.iter().flat_map(|(_, field)| field).chain(&found.record);
        assert!(fields.all(|v| *v == 0.0), "{:?}", world.options);
    }
}

/// Resumes a shot after its first step, with one value in all fields.
struct Filled(f32);

impl Control for Filled {
    fn resume(&self, state: &mut dyn State) -> Result<usize> {
        state.take(1, &mut |values| {
            values.fill(self.0);
            Ok(())
        })?;
        Ok(1)
    }
}

#[test]
fn denormal_fields_at_the_start_count_as_zeros() {
    for mut world in worlds() {
        // A source at the last step only, because the limit of the pressure follows from the
        // source.
        let mut samples = vec![0.0; world.shot.nt];
        samples[world.shot.nt - 1] = 1.0;
        world.shot.wavelet = Wavelet::from_samples(samples).unwrap();
        let (plan, shot, options) = (world.plan(), &world.shot, world.options);
        let largest = |value: f32| {
            let (gather, _) = run(&plan, shot, Lane::Cpu(&Team::new(2).unwrap()), &Filled(value)).unwrap();
            let later = gather.data.chunks(gather.samples).flat_map(|trace| &trace[1..shot.nt - 1]);
            later.fold(0.0, |most: f32, v| most.max(v.abs()))
        };
        // The sum of two such values is a normal number.
        assert_eq!(largest(0.9 * f32::MIN_POSITIVE), 0.0, "{options:?}");
        assert!(largest(f32::MIN_POSITIVE * 2.0) > 0.0, "{options:?}");
    }
}

#[cfg(target_arch = "x86_64")]
mod mode {
    use std::arch::asm;

    use super::*;

    /// Returns the bits that flush to zero and take denormals for zeros.
    fn flushing() -> u32 {
        let mut mode = 0;
        // SAFETY: stores a register to `mode`.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut mode) };
        mode & 0x8040
    }

    /// Records whether the caller of a step or a snapshot flushes.
    struct Seen(Cell<u32>);

    impl Control for Seen {
        fn step(&self, _: usize, _: usize) -> Result<()> {
            self.0.set(self.0.get() | flushing());
            Ok(())
        }

        fn snapshot(&self, step: usize, _: &[f32]) -> Result<()> {
            self.step(step, 0)
        }
    }

    #[test]
    fn control_and_caller_do_not_flush() {
        for (world, threads) in worlds().flat_map(|world| [(world.clone(), 1), (world, 2)]) {
            let seen = Seen(Cell::new(0));
            run(&world.plan(), &world.shot, Lane::Cpu(&Team::new(threads).unwrap()), &seen).unwrap();
            assert_eq!((seen.0.get(), flushing()), (0, 0), "{threads} threads");
        }
    }
}
