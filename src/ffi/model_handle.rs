//! Handles of models. The object behind a handle contains the model and the plans that its shots
//! share.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use super::handle::HandleTable;
use crate::error::Result;
use crate::fd::equation::Material;
use crate::fd::model::{Model, Outline};
use crate::fd::plan::{Options, Plan, Stencil};
use crate::fd::survey::Shot;
use crate::fd::warnings::warnings;
use crate::fd::wavelet::Shape;
use crate::fork::ProcessMark;

/// A medium: properties on a grid. Any number of shots, threads and schedulers may share
/// it.
pub struct sched_fd_model_t {
    _opaque: [u8; 0],
}

/// A model, and the plans of the most recently used time steps and options.
pub(super) struct SharedModel {
    /// Computed from the caller's arrays, which are dropped.
    material: Material,
    /// Time step in seconds that is certainly stable, for each of [`Stencil::ALL`].
    sure: [f64; Stencil::ALL.len()],
    plans: Mutex<Vec<Arc<Plan>>>,
    /// Warnings that have been logged; each is logged once, not for every shot.
    logged: Mutex<HashSet<String>>,
    born: ProcessMark,
}

/// Maximum number of cached plans. Shots of one survey have one time step; a second plan serves
/// callers that compare two.
const PLANS: usize = 2;

/// Maximum number of warnings that are logged for one model. Shots with a frequency each would fill
/// the log.
const LOGGED: usize = 16;

impl SharedModel {
    pub(super) fn new(model: &Model, options: Options) -> Result<SharedModel> {
        let material = options.material(model)?;
        let sure = Stencil::ALL.map(|stencil| Options { stencil, ..options }.dt_sure(model));
        let (plans, logged) = (Mutex::default(), Mutex::default());
        Ok(SharedModel { material, sure, plans, logged, born: ProcessMark::here() })
    }

    pub(super) fn model(&self) -> &Outline {
        &self.material.model
    }

    /// Returns the options of a shot that states none.
    pub(super) fn options(&self) -> Options {
        Options::default().with_material(&self.material)
    }

    /// Returns the plan for a time step in seconds. Shots of one model share it, and thereby the
    /// coefficients.
    pub(super) fn plan(&self, dt: f32, options: Options) -> Result<Arc<Plan>> {
        // The plan will have these options.
        let options = options.with_material(&self.material);
        let make = || Plan::of(&self.material, dt, options).map(Arc::new);
        if !self.born.is_here() {
            // In a child of fork, the lock may belong to a thread of the parent.
            return make();
        }
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |plan: &Arc<Plan>| plan.dt.to_bits() == dt.to_bits() && plan.options == options;
        let plan = match plans.iter().position(same) {
            Some(at) => plans.remove(at),
            None => make()?,
        };
        if plans.len() == PLANS {
            plans.remove(0);
        }
        plans.push(plan.clone());
        Ok(plan)
    }

    /// Returns the [`warnings`] of a shot.
    pub(super) fn warnings(&self, plan: &Plan, shot: &Shot, wavelet: Option<(Shape, f32)>) -> Vec<String> {
        warnings(plan, shot, wavelet, self.sure[plan.options.stencil as usize])
    }

    /// Logs the warnings of a shot that have not been logged.
    pub(super) fn log_warnings(&self, plan: &Plan, shot: &Shot, wavelet: Option<(Shape, f32)>) {
        // In a child of fork, the lock may belong to a thread of the parent.
        if !log::log_enabled!(log::Level::Warn) || !self.born.is_here() {
            return;
        }
        let new = |warning: &String| {
            let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
            logged.len() < LOGGED && logged.insert(warning.clone())
        };
        // Logged without the lock, because the caller's log function may submit a shot.
        for warning in self.warnings(plan, shot, wavelet).iter().filter(|warning| new(warning)) {
            log::warn!("{warning}");
        }
    }
}

pub(super) static MODELS: HandleTable<SharedModel> = HandleTable::new("model");

/// Returns the model behind a handle.
pub(super) fn shared_model(handle: *const sched_fd_model_t) -> Result<Arc<SharedModel>> {
    MODELS.get(handle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fd::grid::Grid;
    use crate::fd::plan::Storage;

    /// Shots that share a plan share the coefficients and their copy on a GPU.
    #[test]
    fn shots_of_a_kind_have_one_plan() {
        let grid = Grid { n: [3, 4, 5], h: [10.0; 3] };
        let fields = Model::new(grid, vec![2000.0; grid.cells()], None).unwrap();
        for storage in Storage::ALL {
            let model = SharedModel::new(&fields, Options { storage, ..Options::default() }).unwrap();
            let plan = |exact_time| model.plan(1e-3, Options { exact_time, ..Options::default() }).unwrap();
            let first = plan(false);
            assert!(Arc::ptr_eq(&first, &plan(false)), "{storage:?}");
            assert!(!Arc::ptr_eq(&first, &plan(true)) && Arc::ptr_eq(&first, &plan(false)), "{storage:?}");
        }
    }
}
