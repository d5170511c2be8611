//! A step in one pass, as a shot has it.

use std::cell::Cell;

use super::kernel::{
    self, CudaSource, FieldAddresses, GpuTile, Lens, PlanAddresses, SampleParams, StepParams, TilePlan,
    kernel_of,
};
use super::kernels::{PlanKernels, function};
use super::medium::Medium;
use crate::backend::cuda::{DeviceBuffer, Kernel, Launches, Params as Arguments, Stream};
use crate::error::Result;
use crate::fd::control::Control;
use crate::fd::one_pass::coefficients::Coefficients;
use crate::fd::survey::Shot;
use crate::fd::time_loop::cuda_steps::{Buffers, CudaSteps, StepKind};
use crate::fd::time_loop::launch::Launch;

/// Batches of a shape that a shot does not time: the launches of the first are new, of the second a graph is made.
const NEW: u32 = 2;

/// A shape as a shot has it.
struct Candidate<'a> {
    tile_plan: &'a TilePlan,
    params: [StepParams; 2],
    function: Kernel,
    samples: SampleParams,
    _receivers: (DeviceBuffer<i32>, DeviceBuffer<u32>, DeviceBuffer<i32>),
    /// Batches that it has computed.
    batches: Cell<u32>,
}

pub struct CudaOnePass<'a> {
    c: &'a Coefficients,
    pass: &'a PlanKernels,
    candidates: Vec<Option<Candidate<'a>>>,
    injector: CudaSource,
    source: Kernel,
    traces: u64,
    fields: Vec<DeviceBuffer<f32>>,
}

impl<'a> CudaOnePass<'a> {
    pub fn new(c: &'a Coefficients, medium: &'a Medium, shot: &Shot, stream: &Stream) -> Result<Self> {
        let Medium { tables, pass, .. } = medium;
        let named =
            |number: usize| if number < 3 { "a field of a shot" } else { "the absorbing layer of a shot" };
        let blocks = Lens::new(&tables.layout).all().chain([4]).enumerate();
        let blocks: Result<Vec<_>> =
            blocks.map(|(number, len)| stream.zeroed::<f32>(len, named(number))).collect();
        let blocks = blocks?;
        let at = |number: usize| blocks[number].address();
        let fields = FieldAddresses {
            p: [at(0), at(1)],
            d: at(2),
            velocity: [[at(3), at(4)], [at(5), at(6)], [at(7), at(8)]],
            split: [at(9), at(10), at(11)],
            clean: at(12),
        };
        let mut candidates: Vec<_> = pass.shapes.iter().map(|_| None).collect();
        for candidate in pass.tuner.candidates() {
            if let Some(tile_plan) = &pass.tile_plans[candidate] {
                candidates[candidate] = Some(Candidate::new(medium, tile_plan, &fields, shot, stream)?);
            }
        }
        Ok(CudaOnePass {
            c,
            pass,
            candidates,
            injector: CudaSource::new(c, shot, fields.clean),
            source: function(stream, "acoustic1_one_pass_source")?,
            traces: shot.receivers.count(tables.layout.inner) as u64,
            fields: blocks,
        })
    }

    /// A candidate that may be taken: the plan has it since it was made, and the shot since it began.
    fn candidate(&self, candidate: usize) -> Option<&Candidate<'a>> {
        self.candidates[candidate].as_ref().or_else(|| self.candidates.iter().flatten().next())
    }
}

impl<'a> Candidate<'a> {
    fn new(
        medium: &Medium,
        (tile_plan, tiles): &'a (TilePlan, DeviceBuffer<GpuTile>),
        fields: &FieldAddresses,
        shot: &Shot,
        stream: &Stream,
    ) -> Result<Self> {
        let plan = PlanAddresses {
            b: medium.b.address(),
            kappa: medium.kappa.address(),
            profiles: medium.profiles.address(),
            tiles: tiles.address(),
        };
        let what = "the receivers of a shot";
        let (first, places, traces) = tile_plan.receivers(&shot.receivers);
        let held = (
            stream.uploaded(&first, what)?,
            stream.uploaded(&places, what)?,
            stream.uploaded(&traces, what)?,
        );
        let (first, at, trace) = (held.0.address(), held.1.address(), held.2.address());
        Ok(Candidate {
            tile_plan,
            params: tile_plan.params(&medium.tables, &plan, fields),
            function: function(stream, kernel_of(tile_plan.shape))?,
            samples: SampleParams { first, at, trace, to: 0 },
            _receivers: held,
            batches: Cell::new(0),
        })
    }
}

impl CudaSteps for CudaOnePass<'_> {
    fn next(&self) -> (usize, bool) {
        let (candidate, timed) = self.pass.tuner.next();
        let batches = self.candidates[candidate]
            .as_ref()
            .map_or(0, |candidate| candidate.batches.replace(candidate.batches.get().saturating_add(1)));
        (candidate, timed && batches >= NEW)
    }

    fn took(&self, candidate: usize, seconds: f64) {
        self.pass.tuner.took(candidate, seconds);
    }

    fn launches(&self, candidate: usize, steps: &[StepKind], at: Buffers, to: &mut Launches) {
        let Some(candidate) = self.candidate(candidate) else { return };
        let mut put = |function: &Kernel, launch: Launch, all: Arguments| {
            to.push(function, launch.grid, launch.block, all);
        };
        let amplitude = |number: usize| {
            let has_source = steps.get(number).is_some_and(|step| step.has_source);
            has_source.then(|| at.amplitudes + 4 * number as u64)
        };
        let mut row = at.samples;
        for (number, step) in steps.iter().enumerate() {
            let now = usize::from(step.odd);
            // The batch before doesn't know of this one's amplitudes.
            if let Some(value) = amplitude(number).filter(|_| number == 0) {
                let poles = self.injector.poles(1 - now, false, Some(value));
                put(
                    &self.source,
                    kernel::source(),
                    Arguments::new().with(candidate.params[1 - now]).with(poles),
                );
            }
            let poles = self.injector.poles(now, step.has_source, amplitude(number + 1));
            let samples = SampleParams { to: if step.records { row } else { 0 }, ..candidate.samples };
            let all = Arguments::new().with(candidate.params[now]).with(poles).with(samples);
            put(&candidate.function, candidate.tile_plan.step(), all);
            row += if step.records { 4 * self.traces } else { 0 };
        }
    }

    fn tell(&self, control: &dyn Control) {
        self.pass.tell(control);
    }

    fn describe_cell(&self, cell: [usize; 3]) -> String {
        self.c.describe_cell(cell, 1.0, "")
    }

    fn fields(&self) -> &[DeviceBuffer<f32>] {
        &self.fields
    }

    fn pressure(&self, step: usize) -> &DeviceBuffer<f32> {
        &self.fields[1 - step % 2]
    }
}
