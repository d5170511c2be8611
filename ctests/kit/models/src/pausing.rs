//! Shots that stop on the way and go on from what they have left.

use std::cell::{Cell, RefCell};

use gpusched::backend::Lane;
use gpusched::fd::pause::State;
use gpusched::fd::plan::Plan;
use gpusched::fd::shot::{self, Control};
use gpusched::fd::survey::Shot;
use gpusched::{Error, Result};

use crate::shots::Shots;

#[derive(Default)]
struct Pausing {
    /// It pauses as soon as it can after so many steps.
    after: Cell<usize>,
    told: Cell<usize>,
    left: RefCell<Option<(usize, String, Vec<f32>)>>,
    snapshots: RefCell<Vec<(usize, Vec<f32>)>>,
}

impl Control for Pausing {
    fn step(&self, step: usize, _: usize) -> Result<()> {
        self.told.set(step + 1);
        Ok(())
    }

    fn snapshot(&self, step: usize, field: &[f32]) -> Result<()> {
        self.snapshots.borrow_mut().push((step, field.to_vec()));
        Ok(())
    }

    fn resume(&self, state: &mut dyn State) -> Result<usize> {
        let Some((done, kind, values)) = self.left.take() else { return Ok(0) };
        assert_eq!((state.kind(), state.values()), (kind, values.len() as u64));
        let mut rest = &values[..];
        state.take(&mut |to| {
            let (now, later) = rest.split_at(to.len());
            to.copy_from_slice(now);
            rest = later;
            Ok(())
        })?;
        assert!(rest.is_empty(), "{} values are left over", rest.len());
        Ok(done)
    }

    fn pauses(&self) -> bool {
        self.told.get() >= self.after.get()
    }

    fn pause(&self, done: usize, state: &mut dyn State) -> Result<()> {
        let mut values = Vec::new();
        state.leave(&mut |piece| {
            values.extend_from_slice(piece);
            Ok(())
        })?;
        assert_eq!(values.len() as u64, state.values());
        *self.left.borrow_mut() = Some((done, state.kind(), values));
        Ok(())
    }
}

/// The shot in parts, each on the lane of its number, ended soon after so many steps; and where each ended.
pub fn in_parts<'a>(
    plan: &Plan,
    shot: &Shot,
    pauses: &[usize],
    lane: impl Fn(usize) -> Lane<'a>,
) -> Result<(Shots, Vec<usize>)> {
    let pausing = Pausing::default();
    let mut ends = Vec::new();
    for part in 0.. {
        pausing.after.set(pauses.get(part).copied().unwrap_or(usize::MAX));
        match shot::run(plan, shot, lane(part), &pausing) {
            Ok(gather) => {
                let snapshots = pausing.snapshots.into_inner();
                return Ok((Shots { record: gather.data, samples: gather.samples, snapshots }, ends));
            }
            Err(Error::Cancelled) => {
                let left = pausing.left.borrow();
                let (done, ..) = left.as_ref().expect("it has left something");
                assert!(part < pauses.len() && *done < shot.nt);
                ends.push(*done);
            }
            Err(error) => return Err(error),
        }
    }
    unreachable!()
}
