//! A step in one pass, as a shot has it.

use std::cell::Cell;

use super::kernel::{self, Cut, Fields, Grounds, Lens, Params, Plan, Samples, Sounding, kernel_of};
use super::kernels::{Pass, function};
use super::medium::Medium;
use crate::backend::cuda::{DeviceBuffer, Kernel, Launches, Params as Arguments, Stream};
use crate::error::Result;
use crate::fd::control::Control;
use crate::fd::equation::acoustic1::coefficients::Coefficients;
use crate::fd::survey::Shot;
use crate::fd::time_loop::cuda_steps::{Buffers, Step, Steps};
use crate::fd::time_loop::launch::Launch;

/// Legs of a shape that a shot does not time: the launches of the first are new, of the second a graph is made.
const NEW: u32 = 2;

/// A shape as a shot has it.
struct Way<'a> {
    grounds: &'a Grounds,
    params: [Params; 2],
    function: Kernel,
    samples: Samples,
    _receivers: (DeviceBuffer<i32>, DeviceBuffer<u32>, DeviceBuffer<i32>),
    /// Legs that it has computed.
    legs: Cell<u32>,
}

pub struct OnePass<'a> {
    c: &'a Coefficients,
    pass: &'a Pass,
    ways: Vec<Option<Way<'a>>>,
    sounding: Sounding,
    source: Kernel,
    traces: u64,
    fields: Vec<DeviceBuffer<f32>>,
}

impl<'a> OnePass<'a> {
    pub fn new(c: &'a Coefficients, medium: &'a Medium, shot: &Shot, stream: &Stream) -> Result<Self> {
        let Medium { tables, pass, .. } = medium;
        let named =
            |number: usize| if number < 3 { "a field of a shot" } else { "the absorbing layer of a shot" };
        let blocks = Lens::new(&tables.layout).all().chain([4]).enumerate();
        let blocks: Result<Vec<_>> =
            blocks.map(|(number, len)| stream.zeroed::<f32>(len, named(number))).collect();
        let blocks = blocks?;
        let at = |number: usize| blocks[number].address();
        let fields = Fields {
            p: [at(0), at(1)],
            d: at(2),
            kept: [[at(3), at(4)], [at(5), at(6)], [at(7), at(8)]],
            part: [at(9), at(10), at(11)],
            clean: at(12),
        };
        let mut ways: Vec<_> = pass.shapes.iter().map(|_| None).collect();
        for way in pass.tuner.candidates() {
            if let Some(ground) = &pass.grounds[way] {
                ways[way] = Some(Way::new(medium, ground, &fields, shot, stream)?);
            }
        }
        Ok(OnePass {
            c,
            pass,
            ways,
            sounding: Sounding::new(c, shot, fields.clean),
            source: function(stream, "acoustic1_one_pass_source")?,
            traces: shot.receivers.count(tables.layout.inner) as u64,
            fields: blocks,
        })
    }

    /// A way that may be taken: the plan has it since it was made, and the shot since it began.
    fn way(&self, way: usize) -> Option<&Way<'a>> {
        self.ways[way].as_ref().or_else(|| self.ways.iter().flatten().next())
    }
}

impl<'a> Way<'a> {
    fn new(
        medium: &Medium,
        (grounds, boxes): &'a (Grounds, DeviceBuffer<Cut>),
        fields: &Fields,
        shot: &Shot,
        stream: &Stream,
    ) -> Result<Self> {
        let plan = Plan {
            b: medium.b.address(),
            kappa: medium.kappa.address(),
            profiles: medium.profiles.address(),
            boxes: boxes.address(),
        };
        let what = "the receivers of a shot";
        let (first, places, traces) = grounds.receivers(&shot.receivers);
        let held = (
            stream.uploaded(&first, what)?,
            stream.uploaded(&places, what)?,
            stream.uploaded(&traces, what)?,
        );
        let (first, at, trace) = (held.0.address(), held.1.address(), held.2.address());
        Ok(Way {
            grounds,
            params: grounds.params(&medium.tables, &plan, fields),
            function: function(stream, kernel_of(grounds.shape))?,
            samples: Samples { first, at, trace, to: 0 },
            _receivers: held,
            legs: Cell::new(0),
        })
    }
}

impl Steps for OnePass<'_> {
    fn next(&self) -> (usize, bool) {
        let (way, timed) = self.pass.tuner.next();
        let legs =
            self.ways[way].as_ref().map_or(0, |way| way.legs.replace(way.legs.get().saturating_add(1)));
        (way, timed && legs >= NEW)
    }

    fn took(&self, way: usize, seconds: f64) {
        self.pass.tuner.took(way, seconds);
    }

    fn launches(&self, way: usize, steps: &[Step], at: Buffers, to: &mut Launches) {
        let Some(way) = self.way(way) else { return };
        let mut put = |function: &Kernel, launch: Launch, all: Arguments| {
            to.push(function, launch.grid, launch.block, all);
        };
        let amplitude = |number: usize| {
            let sounds = steps.get(number).is_some_and(|step| step.sounds);
            sounds.then(|| at.sounding + 4 * number as u64)
        };
        let mut row = at.samples;
        for (number, step) in steps.iter().enumerate() {
            let now = usize::from(step.odd);
            // The leg before doesn't know of this one's amplitudes.
            if let Some(value) = amplitude(number).filter(|_| number == 0) {
                let poles = self.sounding.poles(1 - now, false, Some(value));
                put(&self.source, kernel::source(), Arguments::new().with(way.params[1 - now]).with(poles));
            }
            let poles = self.sounding.poles(now, step.sounds, amplitude(number + 1));
            let samples = Samples { to: if step.keeps { row } else { 0 }, ..way.samples };
            let all = Arguments::new().with(way.params[now]).with(poles).with(samples);
            put(&way.function, way.grounds.step(), all);
            row += if step.keeps { 4 * self.traces } else { 0 };
        }
    }

    fn tell(&self, control: &dyn Control) {
        self.pass.tell(control);
    }

    fn describe_cell(&self, cell: [usize; 3]) -> String {
        self.c.describe_cell(cell)
    }

    fn fields(&self) -> &[DeviceBuffer<f32>] {
        &self.fields
    }

    fn pressure(&self, step: usize) -> &DeviceBuffer<f32> {
        &self.fields[1 - step % 2]
    }
}
