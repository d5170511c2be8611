//! A step in one pass.

use super::super::coefficients::Coefficients;
use super::super::kernel::{self as common, Address, Addresses, Launch, Tables};
use super::super::layout::Layout;
use super::super::one_pass::kernel::{
    self, Cut, Fields, Grounds, OF_16_BITS, Params, Plan, SHAPES, Samples, Sounding,
};
use super::{Buffers, Field, Medium, Step, Steps};
use crate::backend::cuda::{Block, Function, Launches, Params as Arguments, Ptx, Stream};
use crate::error::Result;
use crate::fd::survey::Shot;

static KERNELS: Ptx = Ptx { name: "acoustic1_one_pass", text: kernel::PTX };

/// What all shots of a plan share for this form.
pub struct Pass {
    grounds: Grounds,
    boxes: Block<Cut>,
}

impl Pass {
    pub fn new(tables: &Tables, stream: &Stream) -> Result<Pass> {
        let shape = if tables.scales.is_some() { OF_16_BITS } else { SHAPES[0] };
        let at_once = stream.function(KERNELS, shape.kernel)?.blocks_at_once(shape.threads() as u32)?;
        let grounds = Grounds::new(tables, shape, at_once as usize)?;
        let boxes = stream.uploaded(&grounds.boxes.cuts, "the boxes of the model")?;
        Ok(Pass { grounds, boxes })
    }

    pub fn bytes(&self) -> u64 {
        self.boxes.bytes()
    }
}

/// Values of the tables of boxes, and of where the receivers of a box begin, at most.
pub fn tables(layout: &Layout) -> [usize; 2] {
    let most = kernel::most_boxes(layout);
    [most * size_of::<Cut>() / 4, most + 1]
}

pub struct OnePass<'a> {
    medium: &'a Medium,
    grounds: &'a Grounds,
    params: [Params; 2],
    sounding: Sounding,
    function: Function,
    source: Function,
    p: [Address; 2],
    samples: Samples,
    receivers: (Block<i32>, Block<u32>, Block<i32>),
    _fields: Vec<Block<f32>>,
}

impl<'a> OnePass<'a> {
    pub fn new(
        c: &Coefficients,
        medium: &'a Medium,
        pass: &'a Pass,
        shot: &Shot,
        stream: &Stream,
    ) -> Result<Self> {
        let grounds = &pass.grounds;
        let named =
            |number: usize| if number < 3 { "a field of a shot" } else { "the absorbing layer of a shot" };
        let lens = grounds.lens();
        let blocks = lens.all().chain([4]).enumerate();
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
        let plan = Plan {
            b: medium.b.address(),
            kappa: medium.kappa.address(),
            profiles: medium.profiles.address(),
            boxes: pass.boxes.address(),
        };
        let (first, places, traces) = grounds.receivers(&shot.receivers);
        let upload = |what| move |stream: &Stream, values: &[i32]| stream.uploaded(values, what);
        let receivers = upload("the receivers of a shot");
        let held = (
            receivers(stream, &first)?,
            stream.uploaded(&places, "the receivers of a shot")?,
            receivers(stream, &traces)?,
        );
        let samples =
            Samples { first: held.0.address(), at: held.1.address(), trace: held.2.address(), to: 0 };
        Ok(OnePass {
            medium,
            grounds,
            params: grounds.params(&medium.tables, &plan, &fields),
            sounding: Sounding::new(c, shot, fields.clean),
            function: stream.function(KERNELS, grounds.shape.kernel)?,
            source: stream.function(KERNELS, "acoustic1_one_pass_source")?,
            p: fields.p,
            samples,
            receivers: held,
            _fields: blocks,
        })
    }
}

impl Steps for OnePass<'_> {
    fn launches(&self, steps: &[Step], at: Buffers, to: &mut Launches) {
        let mut put = |function: &Function, launch: Launch, all: Arguments| {
            to.push(function, launch.grid, launch.block, all);
        };
        let amplitude = |number: usize| {
            let sounds = steps.get(number).is_some_and(|step| step.sounds);
            sounds.then(|| at.sounding + 4 * number as u64)
        };
        let traces = self.receivers.1.len() as u64;
        let mut row = at.samples;
        for (number, step) in steps.iter().enumerate() {
            let now = usize::from(step.odd);
            // The leg before doesn't know of this one's amplitudes.
            if let Some(value) = amplitude(number).filter(|_| number == 0) {
                let poles = self.sounding.poles(1 - now, false, Some(value));
                put(&self.source, kernel::source(), Arguments::new().with(self.params[1 - now]).with(poles));
            }
            let poles = self.sounding.poles(now, step.sounds, amplitude(number + 1));
            let samples = Samples { to: if step.keeps { row } else { 0 }, ..self.samples };
            let all = Arguments::new().with(self.params[now]).with(poles).with(samples);
            put(&self.function, self.grounds.step(), all);
            row += if step.keeps { 4 * traces } else { 0 };
        }
    }

    fn params(&self, step: usize) -> common::Params {
        let (tables, p) = (&self.medium.tables, self.p[1 - step % 2]);
        let [b, kappa] = [&self.medium.b, &self.medium.kappa].map(Field::address);
        let profiles = self.medium.profiles.address();
        tables.params(&Addresses { p, velocity: [p; 3], part: [p; 3], b, kappa, profiles }, 1)
    }
}
