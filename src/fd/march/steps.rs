//! The steps of a shot on a GPU.

use std::cell::Cell;

use super::activity;
use super::equation::{CudaEquation, PlanAddresses, ShotAddresses};
use super::medium::Medium;
use super::plan_kernels::PlanKernels;
use super::source::{CLEAN, CudaSource, SampleParams};
use super::tile_plan::TilePlan;
use crate::backend::cuda::{DeviceBuffer, Kernel, Launches, Params as Arguments, Stream};
use crate::error::Result;
use crate::fd::control::Control;
use crate::fd::grid::layout::Layout;
use crate::fd::grid::tile_table::GpuTile;
use crate::fd::survey::{Shot, SourceKind};
use crate::fd::time_loop::cuda_steps::{Buffers, CudaSteps, KERNELS, StepKind};
use crate::fd::time_loop::field_kernels::inject;
use crate::fd::time_loop::launch::Launch;

/// Batches of a shape that a shot does not time: the launches of the first are new, of the second a graph is made.
const NEW: u32 = 2;

/// A shape as a shot has it.
struct Candidate<'a, P> {
    tile_plan: &'a TilePlan,
    params: [P; 2],
    function: Kernel,
    /// The kernel before it.
    fluxes: Option<Kernel>,
    samples: SampleParams,
    _receivers: (DeviceBuffer<i32>, DeviceBuffer<u32>, DeviceBuffer<i32>),
    /// Batches that it has computed.
    batches: Cell<u32>,
}

/// The poles of a source.
struct CudaPoles {
    kernel: Kernel,
    launch: Launch,
    places: DeviceBuffer<u32>,
    factors: DeviceBuffer<f32>,
}

impl CudaPoles {
    /// Returns the poles of a shot whose source has them.
    fn new(layout: &Layout, shot: &Shot, stream: &Stream) -> Result<Option<CudaPoles>> {
        let SourceKind::Poles(poles) = &shot.kind else { return Ok(None) };
        let (places, factors): (Vec<_>, Vec<_>) =
            poles.0.iter().map(|(cell, factor)| (layout.at(*cell) as u32, *factor)).unzip();
        let (launch, what) = (inject(places.len()), "the source of a shot");
        let (places, factors) = (stream.uploaded(&places, what)?, stream.uploaded(&factors, what)?);
        Ok(Some(CudaPoles { kernel: stream.function(KERNELS, launch.kernel)?, launch, places, factors }))
    }
}

pub struct MarchSteps<'a, E: CudaEquation> {
    equation: &'a E,
    pass: &'a PlanKernels,
    candidates: Vec<Option<Candidate<'a, E::Params>>>,
    injector: CudaSource,
    source: Kernel,
    poles: Option<CudaPoles>,
    traces: u64,
    fields: Vec<DeviceBuffer<f32>>,
    _own: Option<DeviceBuffer<f32>>,
}

impl<'a, E: CudaEquation> MarchSteps<'a, E> {
    pub fn new(equation: &'a E, medium: &'a Medium, shot: &Shot, stream: &Stream) -> Result<Self> {
        let Medium { tables, pass, .. } = medium;
        let named = |number: usize| {
            if number < E::FIELDS { "a field of a shot" } else { "the absorbing layer of a shot" }
        };
        let lens = E::lens(&tables.layout).into_iter().chain([CLEAN]).enumerate();
        let blocks = lens.map(|(number, len)| stream.zeroed::<f32>(len, named(number)));
        let mut blocks = blocks.collect::<Result<Vec<_>>>()?;
        let own =
            equation.own().map(|own| stream.uploaded(&own, "the coefficients of a shot")).transpose()?;
        let mut arrays: Vec<_> = blocks.iter().map(DeviceBuffer::address).collect();
        let clean = arrays.pop().unwrap_or_default();
        let at_start = activity::at_start(&tables.layout, shot);
        let uploaded = || stream.uploaded(&at_start, "the flags of a shot");
        let both = [uploaded()?, uploaded()?];
        let flags = both.each_ref().map(DeviceBuffer::address);
        blocks.extend(both);
        let own_address = own.as_ref().map_or(0, DeviceBuffer::address);
        let addresses = ShotAddresses { arrays, own: own_address, flags };
        let mut candidates: Vec<_> = pass.shapes.iter().map(|_| None).collect();
        for candidate in pass.tuner.candidates() {
            if let Some(tile_plan) = &pass.tile_plans[candidate] {
                let new = Candidate::new(equation, medium, tile_plan, &addresses, shot, stream)?;
                candidates[candidate] = Some(new);
            }
        }
        Ok(MarchSteps {
            equation,
            pass,
            candidates,
            injector: CudaSource::new(&tables.layout, shot, clean),
            source: tables.kernels.load(stream, tables.kernels.source)?,
            poles: CudaPoles::new(&tables.layout, shot, stream)?,
            traces: shot.receivers.count(tables.layout.inner) as u64,
            fields: blocks,
            _own: own,
        })
    }

    /// Returns a candidate that may be taken: the plan has it since it was made, and the shot since it began.
    fn candidate(&self, candidate: usize) -> Option<&Candidate<'a, E::Params>> {
        self.candidates[candidate].as_ref().or_else(|| self.candidates.iter().flatten().next())
    }
}

impl<'a, P: Copy> Candidate<'a, P> {
    fn new(
        equation: &impl CudaEquation<Params = P>,
        medium: &Medium,
        (tile_plan, tiles): &'a (TilePlan, DeviceBuffer<GpuTile>),
        addresses: &ShotAddresses,
        shot: &Shot,
        stream: &Stream,
    ) -> Result<Self> {
        let tables = &medium.tables;
        let plan = PlanAddresses {
            coefficients: medium.addresses(),
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
        let kernels = tables.kernels;
        let fluxes =
            kernels.fluxes(tile_plan.shape).map(|kernel| kernels.load(stream, kernel)).transpose()?;
        let (first, at, trace) = (held.0.address(), held.1.address(), held.2.address());
        Ok(Candidate {
            tile_plan,
            params: equation.params(tables, &plan, addresses),
            function: kernels.load(stream, kernels.kernel(tile_plan.shape))?,
            fluxes,
            samples: SampleParams { first, at, trace, to: 0 },
            _receivers: held,
            batches: Cell::new(0),
        })
    }
}

impl<E: CudaEquation> CudaSteps for MarchSteps<'_, E> {
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
            let poles = self.poles.as_ref();
            if let (Some(poles), Some(value)) = (poles, amplitude(number)) {
                let to = self.fields[E::increments(now)].address();
                let (places, factors) = (poles.places.address(), poles.factors.address());
                let all = Arguments::new().with(to).with(places).with(factors).with(value);
                put(&poles.kernel, poles.launch, all);
            }
            let amplitude = |number: usize| amplitude(number).filter(|_| poles.is_none());
            // The batch before has not this one's amplitudes.
            if let Some(value) = amplitude(number).filter(|_| number == 0) {
                let points = self.injector.points(1 - now, false, Some(value));
                put(
                    &self.source,
                    candidate.tile_plan.source(),
                    Arguments::new().with(candidate.params[1 - now]).with(points),
                );
            }
            if let (Some(kernel), Some(launch)) = (&candidate.fluxes, candidate.tile_plan.fluxes()) {
                put(kernel, launch, Arguments::new().with(candidate.params[now]));
            }
            let points = self.injector.points(now, step.has_source && poles.is_none(), amplitude(number + 1));
            let samples = SampleParams { to: if step.records { row } else { 0 }, ..candidate.samples };
            let all = Arguments::new().with(candidate.params[now]).with(points).with(samples);
            put(&candidate.function, candidate.tile_plan.step(), all);
            row += if step.records { 4 * self.traces } else { 0 };
        }
    }

    fn tell(&self, control: &dyn Control) {
        self.pass.tell(control);
    }

    fn describe_cell(&self, cell: [usize; 3]) -> String {
        self.equation.words(cell)
    }

    fn fields(&self) -> &[DeviceBuffer<f32>] {
        &self.fields
    }

    fn pressure(&self, step: usize) -> &DeviceBuffer<f32> {
        &self.fields[(step + 1) % E::PRESSURES]
    }
}
