//! A toy equation, to show what an equation needs: scalar advection along x, upwind,
//!
//! ```text
//! dp/dt = -vp dp/dx      p⁺[i] = p[i] - c (p[i] - p[i-1]),  c = vp dt / h
//! ```
//!
//! With `c` = 1 a step moves the field by one cell.

use std::sync::Arc;

use super::{EQUATIONS, Equation, Propagator, PropagatorFactory, Properties};
use crate::backend::Lane;
use crate::backend::cpu::{Buffer, Rows, Team, TeamMember};
use crate::backend::float_mode::FloatMode;
use crate::error::Result;
use crate::fd::control::{Control, Silent};
use crate::fd::grid::Grid;
use crate::fd::grid::layout::Layout;
use crate::fd::inject::SourceMedium;
use crate::fd::model::{Model, Outline, Property};
use crate::fd::plan::{Options, Plan};
use crate::fd::shot;
use crate::fd::stencil::Stencil;
use crate::fd::storage::Storage;
use crate::fd::survey::{Effort, Gather, Receivers, Shot};
use crate::fd::time_loop;
use crate::fd::time_loop::cpu::CpuSteps;
use crate::fd::wavelet::Wavelet;

struct Advection;

impl Equation for Advection {
    fn name(&self) -> &'static str {
        "advection"
    }

    fn properties(&self) -> Properties {
        Properties { required: &[Property::Vp], optional: &[] }
    }

    fn class(&self) -> u32 {
        0xfd00_00ff
    }

    fn dt_max(&self, model: &Outline, _: Stencil) -> f64 {
        f64::from(model.grid.h[0]) / f64::from(model.fastest)
    }

    fn dt_sure(&self, model: &Model, stencil: Stencil) -> f64 {
        self.dt_max(model, stencil)
    }

    fn propagator_factory(&self, model: &Model, pml: usize, _: Storage) -> Result<PropagatorFactory> {
        let (layout, rate) = (Layout::new(model.grid.n, pml), model.fastest / model.grid.h[0]);
        Ok(Box::new(move |dt, _| Box::new(Upwind { layout, c: rate * dt })))
    }
}

struct Upwind {
    layout: Layout,
    c: f32,
}

impl SourceMedium for Upwind {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn modulus(&self, _cell: [usize; 3]) -> f64 {
        1.0
    }
}

impl Propagator for Upwind {
    fn bytes(&self) -> u64 {
        0
    }

    fn field_bytes(&self) -> u64 {
        2 * Buffer::bytes_of(self.layout.field_len())
    }

    fn thread_bytes(&self, _: usize) -> u64 {
        0
    }

    fn run_on_cpu(&self, shot: &Shot, team: &Team, control: &dyn Control) -> Result<(Gather, Effort)> {
        let field = || Buffer::zeroed(self.layout.field_len(), "a field of a shot");
        let mut fields = [field()?, field()?];
        let steps = UpwindSteps { own: self, shot, p: fields.each_mut().map(Buffer::rows) };
        time_loop::cpu::run(&self.layout, shot, &steps, team, control)
    }
}

struct UpwindSteps<'a> {
    own: &'a Upwind,
    shot: &'a Shot,
    /// The pressure before even and before odd steps.
    p: [Rows<'a>; 2],
}

impl CpuSteps for UpwindSteps<'_> {
    type Own = ();

    fn own(&self) -> Result<()> {
        Ok(())
    }

    fn step(&self, member: &TeamMember<'_>, _: &mut (), step: usize) -> Result<()> {
        let _mode = FloatMode::flushing();
        let layout = &self.own.layout;
        let [from, to] = [self.p[step % 2], self.p[1 - step % 2]];
        member.barrier_then(|| {
            let cell = layout.at(self.shot.source.map(|index| index + layout.pml));
            // SAFETY: a cell of the field; the others wait.
            let value = unsafe { from.write(cell, 1) };
            value[0] += self.shot.amplitude * self.shot.wavelet.samples.get(step).unwrap_or(&0.0);
        })?;
        let [columns, _, len] = layout.padded;
        for row in member.share(columns * layout.padded[1]).filter(|row| row % columns > 0) {
            // SAFETY: rows of the fields; this one is written by this member only.
            let (behind, here, next) = unsafe {
                let at = |row| layout.row(row);
                (from.read(at(row - 1), len), from.read(at(row), len), to.write(at(row), len))
            };
            for (next, (here, behind)) in next.iter_mut().zip(here.iter().zip(behind)) {
                *next = here - self.own.c * (here - behind);
            }
        }
        member.barrier()
    }

    fn pressure(&self, step: usize) -> Rows<'_> {
        self.p[1 - step % 2]
    }

    fn describe_cell(&self, cell: [usize; 3]) -> String {
        format!("cell {cell:?}")
    }

    fn fields(&self) -> Vec<Rows<'_>> {
        self.p.to_vec()
    }
}

#[test]
fn new_equation_is_one_file_that_plans_and_shots_take_as_it_is() {
    let grid = Grid { n: [20, 2, 3], h: [10.0; 3] };
    let options = Options { equation: &Advection, ..Options::default() };
    let plan = |model, dt| Plan::new(Arc::new(model), dt, options);
    let model = |property: Option<(Property, f32)>| {
        let vp = (Property::Vp, 2000.0.into());
        Model::of(grid, [vp].into_iter().chain(property.map(|(name, value)| (name, value.into())))).unwrap()
    };
    let wavelet = Wavelet { samples: vec![1.0, -2.0, 0.5] };
    let shot = Shot {
        source: [4, 1, 2],
        wavelet: wavelet.clone(),
        amplitude: 3.0,
        nt: 12,
        receivers: Receivers::List(vec![[4, 1, 2], [11, 1, 2], [11, 0, 2], [3, 1, 2]]),
        ..Shot::default()
    };
    let plan_of_shots = plan(model(None), 0.005).unwrap();
    let team = Team::new(2).unwrap();
    let (gather, _) = shot::run(&plan_of_shots, &shot, Lane::Cpu(&team), &Silent).unwrap();
    // After step k the sample of step k has moved by one cell.
    let arrived = |cells: usize| {
        let sample = |step: usize| (step + 1).checked_sub(cells).and_then(|k| wavelet.samples.get(k));
        (0..shot.nt).map(move |step| sample(step).map_or(0.0, |sample| 3.0 * sample)).collect::<Vec<f32>>()
    };
    let still = vec![0.0; shot.nt];
    assert_eq!(gather.data, [still.clone(), arrived(7), still.clone(), still].concat());

    let refused = |plan: Result<Plan>| plan.map(|_| ()).unwrap_err().to_string();
    let step = refused(plan(model(None), 0.0051));
    assert!(step.contains("dt may be at most 0.005 s"), "{step}");
    let density = refused(plan(model(Some((Property::Rho, 1000.0))), 0.005));
    assert!(density.contains("rho is no property of advection; accepted: vp"), "{density}");
    let bytes = plan_of_shots.shot_bytes(&shot, 2).device;
    assert!(bytes >= 2 * 4 * 60 * 42 * 43, "{bytes}");
    assert!(EQUATIONS.iter().all(|other| other.class() != Advection.class()));
}
