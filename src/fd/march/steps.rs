//! The steps of a shot on a GPU.

use super::activity;
use super::equation::{CudaEquation, PlanAddresses, ShotAddresses};
use super::medium::Medium;
use super::source::{CLEAN, CubeParams, CudaSource, SampleParams};
use crate::backend::cuda::{DeviceBuffer, Kernel, Launches, Params as Arguments, Stream};
use crate::error::Result;
use crate::fd::grid::layout::Layout;
use crate::fd::survey::{Shot, SourceKind};
use crate::fd::time_loop::cuda::{Buffers, CudaSteps, KERNELS, StepKind};
use crate::fd::time_loop::field_kernels::inject;
use crate::fd::time_loop::launch::Launch;

/// Poles of a source.
struct CudaPoles {
    kernel: (Kernel, Launch),
    places: DeviceBuffer<u32>,
    factors: DeviceBuffer<f32>,
}

impl CudaPoles {
    /// Returns the poles of a shot; `None` if its source has none.
    fn new(layout: &Layout, shot: &Shot, stream: &Stream) -> Result<Option<CudaPoles>> {
        let SourceKind::Poles(poles) = &shot.kind else { return Ok(None) };
        let (places, factors): (Vec<_>, Vec<_>) =
            poles.0.iter().map(|(cell, factor)| (layout.at(*cell) as u32, *factor)).unzip();
        let (launch, what) = (inject(places.len()), "the source of a shot");
        let (places, factors) = (stream.uploaded(&places, what)?, stream.uploaded(&factors, what)?);
        let kernel = (stream.function(KERNELS, launch.kernel)?, launch);
        Ok(Some(CudaPoles { kernel, places, factors }))
    }
}

pub struct MarchSteps<'a, E: CudaEquation> {
    equation: &'a E,
    params: [E::Params; 2],
    /// Arguments: the parameters of the step, its source, its samples.
    step: (Kernel, Launch),
    /// Runs before `step`. Argument: the parameters of the step.
    before: Option<(Kernel, Launch)>,
    injector: CudaSource,
    samples: SampleParams,
    _receivers: (DeviceBuffer<i32>, DeviceBuffer<u32>, DeviceBuffer<i32>),
    /// Injects a source. Arguments: the parameters of the step before, and the source.
    source: (Kernel, Launch),
    poles: Option<CudaPoles>,
    traces: u64,
    fields: Vec<DeviceBuffer<f32>>,
    skipped: DeviceBuffer<u64>,
    _own: Option<DeviceBuffer<f32>>,
}

impl<'a, E: CudaEquation> MarchSteps<'a, E> {
    pub fn new(equation: &'a E, medium: &'a Medium, shot: &Shot, stream: &Stream) -> Result<Self> {
        let tile_plan = &medium.tile_plan;
        let tables = &tile_plan.tables;
        let lens = E::lens(&tables.layout).into_iter().chain([CLEAN]);
        let blocks = lens.map(|len| stream.zeroed::<f32>(len, "a field of a shot"));
        let mut blocks = blocks.collect::<Result<Vec<_>>>()?;
        let ball = equation.ball();
        let own = ball.map(|ball| stream.uploaded(&ball.values(), "the coefficients of a shot"));
        let own = own.transpose()?;
        let cube = CubeParams::new(ball, own.as_ref().map_or(0, DeviceBuffer::address));
        let mut arrays: Vec<_> = blocks.iter().map(DeviceBuffer::address).collect();
        let clean = arrays.pop().unwrap_or_default();
        let at_start = activity::at_start(&tables.layout, shot);
        let uploaded = || stream.uploaded(&at_start, "the flags of a shot");
        let both = [uploaded()?, uploaded()?];
        let flags = both.each_ref().map(DeviceBuffer::address);
        blocks.extend(both);
        let skipped = stream.zeroed(1, "the count of skipped cells")?;
        let addresses = ShotAddresses { arrays, cube, flags, skipped: skipped.address() };
        let plan = PlanAddresses {
            coefficients: medium.addresses(),
            profiles: medium.profiles.address(),
            tiles: medium.tiles.address(),
        };
        let what = "the receivers of a shot";
        let (first, places, of) = tile_plan.receivers(&shot.receivers)?;
        let receivers =
            (stream.uploaded(&first, what)?, stream.uploaded(&places, what)?, stream.uploaded(&of, what)?);
        let (first, at, trace) = (receivers.0.address(), receivers.1.address(), receivers.2.address());
        let kernels = tables.kernels;
        let load = |launch: Launch| Ok((kernels.load(stream, launch.kernel)?, launch));
        let step = load(tile_plan.launch(kernels.step(tables.storage)))?;
        let before = kernels.before.map(|kernel| load(tile_plan.launch(kernel))).transpose()?;
        Ok(MarchSteps {
            equation,
            params: equation.params(tables, &plan, &addresses),
            step,
            before,
            injector: CudaSource::new(&tables.layout, shot, clean),
            samples: SampleParams { first, at, trace, to: 0 },
            _receivers: receivers,
            source: load(tile_plan.source())?,
            poles: CudaPoles::new(&tables.layout, shot, stream)?,
            traces: shot.receivers.count(tables.layout.inner) as u64,
            fields: blocks,
            skipped,
            _own: own,
        })
    }
}

impl<E: CudaEquation> CudaSteps for MarchSteps<'_, E> {
    fn launches(&self, steps: &[StepKind], at: Buffers, to: &mut Launches) {
        let mut put = |(function, launch): &(Kernel, Launch), all: Arguments| {
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
                put(&poles.kernel, all);
            }
            let amplitude = |number: usize| amplitude(number).filter(|_| poles.is_none());
            // The batch before does not have this one's amplitudes, so the first step gets a launch
            // for its source.
            if let Some(value) = amplitude(number).filter(|_| number == 0) {
                let points = self.injector.points(1 - now, false, Some(value));
                put(&self.source, Arguments::new().with(self.params[1 - now]).with(points));
            }
            if let Some(before) = &self.before {
                put(before, Arguments::new().with(self.params[now]));
            }
            let points = self.injector.points(now, step.has_source && poles.is_none(), amplitude(number + 1));
            let samples = SampleParams { to: if step.records { row } else { 0 }, ..self.samples };
            let all = Arguments::new().with(self.params[now]).with(points).with(samples);
            put(&self.step, all);
            row += if step.records { 4 * self.traces } else { 0 };
        }
    }

    fn describe_cell(&self, cell: [usize; 3]) -> String {
        self.equation.describe_cell(cell)
    }

    fn fields(&self) -> &[DeviceBuffer<f32>] {
        &self.fields
    }

    fn skipped(&self) -> &DeviceBuffer<u64> {
        &self.skipped
    }

    fn pressure(&self, step: usize) -> &DeviceBuffer<f32> {
        &self.fields[(step + 1) % E::PRESSURE_FIELDS]
    }
}
