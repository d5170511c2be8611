//! Denormal numbers: the steps of a shot flush them to zero, and nothing outside the steps does.

use std::cell::Cell;
use std::sync::Arc;

use gpusched::backend::Lane;
use gpusched::backend::cpu::Team;
use gpusched::error::{Error, Result};
use gpusched::fd::model::Model;
use gpusched::fd::pause::State;
use gpusched::fd::plan::{Form, Options, Plan, Storage};
use gpusched::fd::shot::{Control, run};
use gpusched::fd::survey::{Receivers, Shot};
use gpusched::fd::wavelet::Wavelet;

use testkit::Random;
use testmodels::media::{FAINT, rough, shot, time_step};
use testmodels::shots::fire_with;

const N: [usize; 3] = [9, 7, 18];

fn case(amplitude: f32) -> (Arc<Model>, Shot) {
    let mut random = Random::new(31);
    let model = rough(N, [10.0, 12.5, 8.0], &mut random);
    let plain = shot(&mut random, N, 24, Receivers::Plane { iz: 4, every: [1, 1] });
    (model, Shot { amplitude, snapshot_every: Some(5), ..plain })
}

fn every_option() -> impl Iterator<Item = Options> {
    Form::ALL
        .into_iter()
        .flat_map(|form| Storage::ALL.map(|storage| Options { pml: 8, form, storage, ..Options::default() }))
}

#[test]
fn source_whose_fields_are_denormal_records_zeros() {
    let (model, faint) = case(FAINT);
    let loud = Shot { amplitude: 1.0, ..faint.clone() };
    let dt = time_step(&model);
    for options in every_option() {
        let found = fire_with(&model, dt, &faint, options, 2);
        let fields = found.snapshots.iter().flat_map(|(_, field)| field);
        let largest = found.record.iter().chain(fields).fold(0.0, |most: f32, v| most.max(v.abs()));
        assert_eq!(largest, 0.0, "{options:?}");
        assert!(fire_with(&model, dt, &loud, options, 2).record.iter().any(|v| *v != 0.0), "{options:?}");
    }
}

/// Starts a shot after its first step, with one value everywhere.
struct Filled(f32);

impl Control for Filled {
    fn resume(&self, state: &mut dyn State) -> Result<usize> {
        state.take(&mut |values| {
            values.fill(self.0);
            Ok(())
        })?;
        Ok(1)
    }
}

#[test]
fn denormal_fields_at_the_start_count_as_zeros() {
    let (model, plain) = case(1.0);
    // A source at the last step only: how large a pressure may be follows from the source.
    let mut samples = vec![0.0; plain.nt];
    samples[plain.nt - 1] = 1.0;
    let shot = Shot { wavelet: Wavelet::from_samples(samples).unwrap(), ..plain };
    for options in every_option() {
        let plan = Plan::new(model.clone(), time_step(&model), options).unwrap();
        let largest = |value: f32| {
            let gather = run(&plan, &shot, Lane::Cpu(&Team::new(2).unwrap()), &Filled(value)).unwrap();
            let later = gather.data.chunks(gather.samples).flat_map(|trace| &trace[1..shot.nt - 1]);
            later.fold(0.0, |most: f32, v| most.max(v.abs()))
        };
        // Two of them add up to a normal number.
        assert_eq!(largest(0.9 * f32::MIN_POSITIVE), 0.0, "{options:?}");
        assert!(largest(f32::MIN_POSITIVE * 2.0) > 0.0, "{options:?}");
    }
}

#[cfg(target_arch = "x86_64")]
mod mode {
    use std::arch::asm;

    use super::*;

    /// Flush to zero and denormals are zero.
    const FLUSHING: u32 = 0x8040;
    /// Bits that are flags of what happened.
    const FLAGS: u32 = 0x3f;

    fn mode() -> u32 {
        let mut mode = 0;
        // SAFETY: stores a register to `mode`.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut mode) };
        mode & !FLAGS
    }

    fn set_mode(mode: u32) {
        // SAFETY: a valid value for the register, of this thread only.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const mode) };
    }

    #[derive(Clone, Copy, PartialEq)]
    enum End {
        Done,
        Failed,
        Panicked,
    }

    /// Notes whether the caller of a step or a snapshot flushes.
    struct Seen(Cell<u32>, End);

    impl Control for Seen {
        fn step(&self, step: usize, _: usize) -> Result<()> {
            self.0.set(self.0.get() | mode());
            match self.1 {
                End::Failed if step == 3 => Err(Error::Cancelled),
                End::Panicked if step == 3 => std::panic::resume_unwind(Box::new("on purpose")),
                _ => Ok(()),
            }
        }

        fn snapshot(&self, _: usize, _: &[f32]) -> Result<()> {
            self.0.set(self.0.get() | mode());
            Ok(())
        }
    }

    #[test]
    fn caller_keeps_its_float_mode_however_a_shot_ends() {
        let (model, shot) = case(1.0);
        let before = mode();
        for (options, threads) in every_option().flat_map(|options| [(options, 1), (options, 2)]) {
            let plan = Plan::new(model.clone(), time_step(&model), options).unwrap();
            let team = Team::new(threads).unwrap();
            for end in [End::Done, End::Failed, End::Panicked] {
                // As usual, and rounding toward zero.
                for own in [before, before | 0x6000] {
                    let seen = Seen(Cell::new(0), end);
                    set_mode(own);
                    let ended = run(&plan, &shot, Lane::Cpu(&team), &seen);
                    let after = mode();
                    set_mode(before);
                    assert_eq!(after, own);
                    assert_eq!(seen.0.get() & FLUSHING, 0, "a control runs in the mode of the steps");
                    let expected = match end {
                        End::Done => ended.is_ok(),
                        End::Failed => ended == Err(Error::Cancelled),
                        End::Panicked => matches!(ended, Err(Error::Panic { .. })),
                    };
                    assert!(expected, "{ended:?}");
                }
            }
        }
    }
}
