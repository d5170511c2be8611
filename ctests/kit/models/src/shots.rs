//! Runs shots through the library, as a task of the scheduler would.

use std::cell::RefCell;
use std::sync::Arc;

use gpusched::Result;
use gpusched::backend::Lane;
use gpusched::backend::cpu::Team;
use gpusched::fd::grid::Grid;
use gpusched::fd::model::Model;
use gpusched::fd::plan::{Form, Options, Plan};
use gpusched::fd::shot::{self, Control};
use gpusched::fd::survey::{Receivers, Shot};
use gpusched::fd::wavelet::Wavelet;

/// What a shot gives.
#[derive(PartialEq)]
pub struct Shots {
    /// `[trace][sample]`.
    pub record: Vec<f32>,
    /// Samples a trace.
    pub samples: usize,
    /// Step, and the pressure over the model's grid.
    pub snapshots: Vec<(usize, Vec<f32>)>,
}

impl Shots {
    pub fn trace(&self, trace: usize) -> &[f32] {
        &self.record[trace * self.samples..][..self.samples]
    }
}

#[derive(Default)]
struct Keep(RefCell<Vec<(usize, Vec<f32>)>>);

impl Control for Keep {
    fn step(&self, _: usize, _: usize) -> Result<()> {
        Ok(())
    }

    fn snapshot(&self, step: usize, field: &[f32]) -> Result<()> {
        self.0.borrow_mut().push((step, field.to_vec()));
        Ok(())
    }
}

/// With the old kernel's layer of 20 cells, on two threads.
pub fn fire(model: &Arc<Model>, dt: f32, shot: &Shot) -> Shots {
    fire_with(model, dt, shot, Options::default(), 2)
}

/// The same, computed in one form.
pub fn fire_as(form: Form, model: &Arc<Model>, dt: f32, shot: &Shot) -> Shots {
    fire_with(model, dt, shot, Options { form, ..Options::default() }, 2)
}

pub fn fire_with(model: &Arc<Model>, dt: f32, shot: &Shot, options: Options, threads: usize) -> Shots {
    try_fire(model, dt, shot, options, threads).unwrap()
}

pub fn try_fire(model: &Arc<Model>, dt: f32, shot: &Shot, options: Options, threads: usize) -> Result<Shots> {
    let plan = Plan::new(model.clone(), dt, options)?;
    let (team, keep) = (Team::new(threads)?, Keep::default());
    let gather = shot::run(&plan, shot, Lane::Cpu(&team), &keep)?;
    assert_eq!(gather.data.len(), gather.traces * gather.samples);
    Ok(Shots { record: gather.data, samples: gather.samples, snapshots: keep.0.into_inner() })
}

/// One velocity and one density throughout.
pub fn homogeneous(n: [usize; 3], h: [f32; 3], vp: f32, rho: f32) -> Arc<Model> {
    let grid = Grid::new(n, h).unwrap();
    Arc::new(Model::new(grid, vec![vp; grid.cells()], Some(vec![rho; grid.cells()])).unwrap())
}

/// A shot of unit amplitude with every sample kept.
pub fn plain_shot(source: [usize; 3], samples: Vec<f32>, nt: usize, receivers: Vec<[usize; 3]>) -> Shot {
    Shot {
        source,
        wavelet: Wavelet::from_samples(samples).unwrap(),
        amplitude: 1.0,
        nt,
        receivers: Receivers::List(receivers),
        record_every: 1,
        snapshot_every: None,
        mute: None,
    }
}
