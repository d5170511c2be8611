//! The time loop of a shot on a GPU.
//!
//! Steps are put on the queue a leg at a time; legs whose launches are the same are one graph. While the GPU computes a
//! leg, the host takes in what the one before has left: samples, a snapshot, how large the pressure is. So the
//! GPU never waits for the host, what waits on the queue is bounded, and a cancel is heard within two legs.

use std::ops::Range;
use std::time::Instant;

use super::cpu::{PROBE, judge, limit};
use super::cuda_steps::{Buffers, KERNELS, LEG, Step, Steps};
use super::field_kernels::Field;
use super::instability;
use super::launch::{Address, Launch};
use crate::backend::cuda::{DeviceBuffer, Download, Event, Graphs, Kernel, Params, Stream, allocation_bytes};
use crate::error::{Error, Result};
use crate::fd::control::Control;
use crate::fd::grid::layout::Layout;
use crate::fd::host_memory::host_zeros;
use crate::fd::inject::source_pressures;
use crate::fd::pause::State;
use crate::fd::survey::{Effort, Gather, Shot};

/// The probe comes at the end of a leg.
const _: () = assert!(PROBE.is_multiple_of(LEG));

/// Bytes of a GPU for the source and the probe, of a few numbers each.
pub const SMALL: u64 = 8192;

/// Returns the most samples of a trace that a leg leaves.
fn batch_samples(shot: &Shot) -> usize {
    LEG.div_ceil(shot.record_every).min(shot.samples())
}

/// Returns the bytes that the time loop of a shot allocates on a GPU beside its steps.
pub fn loop_bytes(layout: &Layout, shot: &Shot) -> u64 {
    let picture = shot.snapshot_every.map_or(0, |_| layout.inner.iter().product::<usize>() as u64);
    let traces = shot.receivers.count(layout.inner) as u64;
    let wavelet = shot.wavelet.samples.len().min(shot.nt) as u64;
    let pieces = [picture, traces.saturating_mul(batch_samples(shot) as u64), wavelet];
    pieces.map(granted_bytes).into_iter().fold(SMALL, u64::saturating_add)
}

/// Returns the bytes that a GPU allocates for so many float32 values.
pub fn granted_bytes(values: u64) -> u64 {
    allocation_bytes(values.saturating_mul(4)).unwrap_or(u64::MAX)
}

/// Values of a state that are on the host at a time.
const PIECE: usize = 8 << 20;

/// Runs the steps of a shot that fits the layout, which is that of a GPU.
pub fn run(
    layout: &Layout,
    shot: &Shot,
    steps: &dyn Steps,
    stream: &Stream,
    control: &dyn Control,
) -> Result<(Gather, Effort)> {
    let cuda_shot = CudaShot::new(layout, shot, steps, stream)?;
    let mut gather = gather(layout, shot)?;
    stream.finish()?;
    let begun = control.resume(&mut Between { cuda_shot: &cuda_shot, gather: &mut gather })?;
    let begin = Instant::now();
    let mut graphs = Graphs::default();
    let mut under_way: Option<Left> = None;
    let limit = limit(shot);
    let mut done = begun;
    for leg in legs(shot, begun) {
        done = leg.end;
        let left = cuda_shot.leg(shot, leg, &mut graphs)?;
        if let Some(earlier) = under_way.replace(left) {
            let taken = earlier.take_in(steps, shot, limit, &mut gather, control);
            taken.map_err(|error| cuda_shot.where_blown(error, done))?;
        }
        if control.pauses() {
            break;
        }
    }
    if let Some(last) = under_way {
        let taken = last.take_in(steps, shot, limit, &mut gather, control);
        taken.map_err(|error| cuda_shot.where_blown(error, done))?;
    }
    steps.tell(control);
    if done < shot.nt {
        control.pause(done, &mut Between { cuda_shot: &cuda_shot, gather: &mut gather })?;
        return Err(Error::Cancelled);
    }
    Ok((gather, Effort { time: begin.elapsed(), computed: 1.0 }))
}

/// The state between two legs, when the queue is empty.
struct Between<'a> {
    cuda_shot: &'a CudaShot<'a>,
    gather: &'a mut Gather,
}

impl Between<'_> {
    /// The fields in pieces.
    fn pieces(&self) -> impl Iterator<Item = (&DeviceBuffer<f32>, Range<usize>)> {
        let pieces = |block: &DeviceBuffer<f32>| {
            let len = block.len();
            (0..len).step_by(PIECE).map(move |begin| begin..len.min(begin + PIECE))
        };
        self.cuda_shot
            .steps
            .fields()
            .iter()
            .flat_map(move |block| pieces(block).map(move |piece| (block, piece)))
    }
}

impl State for Between<'_> {
    fn kind(&self) -> String {
        "cuda".into()
    }

    fn values(&self) -> u64 {
        let fields: usize = self.cuda_shot.steps.fields().iter().map(DeviceBuffer::len).sum();
        (fields + self.gather.data.len()) as u64
    }

    fn leave(&mut self, to: &mut dyn FnMut(&[f32]) -> Result<()>) -> Result<()> {
        for (block, piece) in self.pieces() {
            to(&self.cuda_shot.stream.download(block, piece)?.wait()?)?;
        }
        to(&self.gather.data)
    }

    fn take(&mut self, from: &mut dyn FnMut(&mut [f32]) -> Result<()>) -> Result<()> {
        let mut values = host_zeros(PIECE, "the state of a shot")?;
        for (block, piece) in self.pieces() {
            let values = &mut values[..piece.len()];
            from(values)?;
            self.cuda_shot.stream.upload(block, piece.start, values)?;
        }
        from(&mut self.gather.data)
    }
}

/// The steps from `begin` on in pieces that end at multiples of [`LEG`] and after each snapshot.
fn legs(shot: &Shot, mut begin: usize) -> impl Iterator<Item = Range<usize>> {
    let (nt, every) = (shot.nt, shot.snapshot_every);
    std::iter::from_fn(move || {
        let mut end = (begin / LEG + 1) * LEG;
        if let Some(every) = every {
            end = end.min(begin.next_multiple_of(every) + 1);
        }
        let steps = begin..end.min(nt);
        begin = steps.end;
        (!steps.is_empty()).then_some(steps)
    })
}

/// An empty record.
fn gather(layout: &Layout, shot: &Shot) -> Result<Gather> {
    let (traces, samples) = (shot.receivers.count(layout.inner), shot.samples());
    let data = host_zeros(traces.saturating_mul(samples), "the record of a shot")?;
    Ok(Gather { traces, samples, data })
}

/// A shot on a GPU.
struct CudaShot<'a> {
    stream: &'a Stream,
    /// That of the fields.
    layout: &'a Layout,
    steps: &'a dyn Steps,
    snapshot: Kernel,
    peak: Kernel,
    /// Amplitude times wavelet, of all steps that have a source, and of those of a leg.
    wavelet: DeviceBuffer<f32>,
    sounding: DeviceBuffer<f32>,
    traces: usize,
    /// `[sample of the leg][trace]`.
    samples: DeviceBuffer<f32>,
    /// The user's cells, if there are snapshots.
    picture: Option<DeviceBuffer<f32>>,
    largest: DeviceBuffer<u32>,
}

impl<'a> CudaShot<'a> {
    fn new(layout: &'a Layout, shot: &Shot, steps: &'a dyn Steps, stream: &'a Stream) -> Result<Self> {
        let picture = match shot.snapshot_every {
            Some(_) => Some(stream.alloc(layout.inner.iter().product(), "a snapshot of a shot")?),
            None => None,
        };
        let traces = shot.receivers.count(layout.inner);
        let function = |name| stream.function(KERNELS, name);
        Ok(CudaShot {
            stream,
            layout,
            steps,
            snapshot: function("field_snapshot")?,
            peak: function("field_peak")?,
            wavelet: stream.uploaded(&source_pressures(shot), "the wavelet of a shot")?,
            sounding: stream.alloc(LEG, "the wavelet of a leg")?,
            traces,
            samples: stream.alloc(batch_samples(shot) * traces, "the record of a shot")?,
            picture,
            largest: stream.alloc(1, "the probe of a shot")?,
        })
    }

    /// A shot that has blown up, when so many steps are done: they were on the queue when it was seen.
    fn where_blown(&self, error: Error, done: usize) -> Error {
        let Error::Unstable { .. } = error else { return error };
        let (layout, p) = (self.layout, self.steps.pressure(done - 1));
        instability::placed(error, &|cell| self.steps.describe_cell(cell), layout, Some(done), |y, look| {
            let first = layout.row(y * layout.padded[0]);
            let rows = self.stream.download(p, first..first + layout.padded[0] * layout.pitch)?;
            look(&rows.wait()?);
            Ok(())
        })
    }

    /// Puts some steps on the queue.
    fn leg(&self, shot: &Shot, steps: Range<usize>, graphs: &mut Graphs<(usize, Vec<Step>)>) -> Result<Left> {
        let traces = self.traces;
        let step = |step: usize| Step {
            odd: !step.is_multiple_of(2),
            sounds: step < self.wavelet.len(),
            keeps: traces > 0 && step.is_multiple_of(shot.record_every),
        };
        let launched: Vec<Step> = steps.clone().map(step).collect();
        let rows = launched.iter().filter(|step| step.keeps).count();
        let sounding = steps.start.min(self.wavelet.len())..steps.end.min(self.wavelet.len());
        self.stream.copy_part(&self.wavelet, sounding, &self.sounding)?;
        let at = Buffers { sounding: self.sounding.address(), samples: self.samples.address() };
        let (way, timed) = self.steps.next();
        let begun = (timed && steps.len() == LEG).then(|| self.stream.stamp()).transpose()?;
        let key = (way, launched.clone());
        graphs.put(self.stream, key, |to| self.steps.launches(way, &launched, at, to))?;
        let lap = begun.map(|begin| Ok(Lap { way, begin, end: self.stream.stamp()? })).transpose()?;
        let last = steps.end - 1;
        let samples = match rows {
            0 => None,
            rows => Some(self.stream.download(&self.samples, 0..rows * traces)?),
        };
        let field = Field::new(self.layout, self.steps.pressure(last).address());
        let look = |function: &Kernel, launch: Launch, to: Address| {
            let all = Params::new().with(field).with(to);
            self.stream.launch(function, launch.grid, launch.block, all)
        };
        let picture = match (&self.picture, shot.snapshot_every) {
            (Some(picture), Some(every)) if last.is_multiple_of(every) => {
                look(&self.snapshot, field.snapshot(), picture.address())?;
                Some(self.stream.download(picture, 0..picture.len())?)
            }
            _ => None,
        };
        let largest = if steps.end == shot.nt || steps.end.is_multiple_of(PROBE) {
            self.stream.zero(&self.largest)?;
            look(&self.peak, field.peak(), self.largest.address())?;
            Some(self.stream.download(&self.largest, 0..1)?)
        } else {
            None
        };
        Ok(Left { done: self.stream.record()?, steps, lap, samples, picture, largest })
    }
}

/// The time of a leg.
struct Lap {
    way: usize,
    begin: Event,
    end: Event,
}

/// What a leg leaves to the host, on its way.
struct Left {
    steps: Range<usize>,
    done: Event,
    lap: Option<Lap>,
    samples: Option<Download<f32>>,
    picture: Option<Download<f32>>,
    largest: Option<Download<u32>>,
}

impl Left {
    fn take_in(
        self,
        steps: &dyn Steps,
        shot: &Shot,
        limit: f32,
        gather: &mut Gather,
        control: &dyn Control,
    ) -> Result<()> {
        self.done.wait()?;
        if let Some(lap) = self.lap {
            steps.took(lap.way, lap.end.seconds_since(&lap.begin)?);
        }
        let last = self.steps.end - 1;
        if let Some(samples) = self.samples {
            let samples = samples.wait()?;
            let first = self.steps.start.div_ceil(shot.record_every);
            let rows = samples.len() / gather.traces;
            for (trace, to) in gather.data.chunks_exact_mut(gather.samples).enumerate() {
                for (row, to) in to[first..first + rows].iter_mut().enumerate() {
                    *to = samples[row * gather.traces + trace];
                }
            }
        }
        if let Some(largest) = self.largest {
            judge(largest.wait()?[0], limit, last)?;
        }
        for step in self.steps.start..last {
            control.step(step, shot.nt)?;
        }
        if let Some(picture) = self.picture {
            control.snapshot(last, &picture.wait()?)?;
        }
        control.step(last, shot.nt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fd::survey::Receivers;
    use crate::fd::wavelet::Wavelet;

    #[test]
    fn legs_cover_all_steps_once_and_end_where_something_is_due() {
        for (nt, every) in [(1, None), (16, None), (75, None), (64, Some(1)), (100, Some(7)), (50, Some(33))]
        {
            let shot = Shot {
                source: [0; 3],
                wavelet: Wavelet { samples: vec![1.0] },
                amplitude: 1.0,
                nt,
                receivers: Receivers::List(Vec::new()),
                record_every: 1,
                snapshot_every: every,
                mute: None,
            };
            let mut next = 0;
            for steps in legs(&shot, 0) {
                assert_eq!(steps.start, next);
                next = steps.end;
                for step in steps.clone() {
                    let due = every.is_some_and(|every| step % every == 0) || (step + 1) % LEG == 0;
                    assert!(!due || step + 1 == steps.end, "{step} is inside {steps:?}");
                }
            }
            assert_eq!(next, nt);
        }
    }
}
