//! A step in two sweeps.

use super::super::coefficients::Coefficients;
use super::super::kernel::{self, Addresses, Launch};
use super::medium::Medium;
use super::steps::{Buffers, KERNELS, Step, Steps};
use crate::backend::cuda::{DeviceBuffer, Kernel, Launches, Params, Stream};
use crate::error::Result;
use crate::fd::survey::Shot;

/// Threads of a block of the sweeps.
const THREADS: u32 = 256;

pub struct Sweeps {
    params: kernel::Params,
    velocity: Kernel,
    pressure: Kernel,
    source: Kernel,
    record: Kernel,
    terms: DeviceBuffer<kernel::Term>,
    receivers: DeviceBuffer<i64>,
    /// Where `params` point to, the pressure first.
    fields: [DeviceBuffer<f32>; 7],
}

impl Sweeps {
    pub fn new(c: &Coefficients, medium: &Medium, shot: &Shot, stream: &Stream) -> Result<Self> {
        let tables = &medium.tables;
        let field = || stream.zeroed::<f32>(tables.field_len(), "a field of a shot");
        let part = |len| stream.zeroed::<f32>(len, "the absorbing layer of a shot");
        let [x, y, z] = tables.part_lens();
        let fields = [field()?, field()?, field()?, field()?, part(x)?, part(y)?, part(z)?];
        let function = |name| stream.function(KERNELS, name);
        let pressure = function("acoustic1_pressure")?;
        let [p, u, v, w, x, y, z] = fields.each_ref().map(DeviceBuffer::address);
        let at = Addresses {
            p,
            velocity: [u, v, w],
            part: [x, y, z],
            b: medium.b.address(),
            kappa: medium.kappa.address(),
            profiles: medium.profiles.address(),
        };
        let planes = tables.planes(pressure.blocks_at_once(THREADS)? as usize);
        Ok(Sweeps {
            params: tables.params(&at, planes),
            velocity: function("acoustic1_velocity")?,
            pressure,
            source: function("acoustic1_source")?,
            record: function("acoustic1_record")?,
            terms: stream.uploaded(&tables.source(c, shot.source), "the source of a shot")?,
            receivers: stream.uploaded(&tables.receivers(&shot.receivers), "the receivers of a shot")?,
            fields,
        })
    }
}

impl Steps for Sweeps {
    fn launches(&self, _way: usize, steps: &[Step], at: Buffers, to: &mut Launches) {
        let mut put = |function: &Kernel, launch: Launch, more: &dyn Fn(Params) -> Params| {
            to.push(function, launch.grid, launch.block, more(Params::new().with(self.params)));
        };
        let (terms, receivers) = (self.terms.len() as i32, self.receivers.len() as i32);
        let mut row = at.samples;
        for (number, step) in steps.iter().enumerate() {
            put(&self.velocity, kernel::velocity(&self.params), &|all| all);
            if step.sounds {
                let value = at.sounding + 4 * number as u64;
                let at = self.terms.address();
                put(&self.source, kernel::source(self.terms.len()), &|all| {
                    all.with(at).with(terms).with(value)
                });
            }
            put(&self.pressure, kernel::pressure(&self.params), &|all| all);
            if step.keeps {
                let at = self.receivers.address();
                put(&self.record, kernel::record(self.receivers.len()), &|all| {
                    all.with(at).with(receivers).with(row)
                });
                row += 4 * self.receivers.len() as u64;
            }
        }
    }

    fn params(&self, _: usize) -> kernel::Params {
        self.params
    }

    fn fields(&self) -> &[DeviceBuffer<f32>] {
        &self.fields
    }

    fn pressure(&self, _: usize) -> &DeviceBuffer<f32> {
        &self.fields[0]
    }
}
