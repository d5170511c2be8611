//! Time loop of a shot on a GPU.
//!
//! Steps are put on the stream in batches; batches with the same launches are one CUDA graph. While
//! the GPU computes a batch, the host receives the results of the one before: samples, a snapshot,
//! the largest pressure. A second stream copies these to the host. So the GPU waits neither for the
//! host nor for copies. The work on the stream is bounded, and a cancel takes effect within two
//! batches.

use std::ops::Range;
use std::time::Instant;

use super::cpu::check_largest;
use super::field_kernels::{Field, PTX, traces};
use super::instability::{self, PROBE, limit};
use super::launch::{Address, Launch};
use crate::backend::cuda::{
    DeviceBuffer, Download, Event, Graphs, Kernel, Launches, Params, Ptx, Stream, allocation_bytes,
};
use crate::error::{Error, Result};
use crate::fd::control::{Control, State};
use crate::fd::grid::layout::Layout;
use crate::fd::host_memory::host_zeros;
use crate::fd::inject::source_pressures;
use crate::fd::record::snapshot_cells;
use crate::fd::survey::{Effort, Gather, Shot};

/// Most steps of a batch.
pub const BATCH_STEPS: usize = 16;

/// A single static, because contexts know loaded kernels by the address of their text.
pub static KERNELS: Ptx = Ptx { name: "field", text: PTX };

/// Properties of a step that its launches depend on, besides its place in the batch.
#[derive(Clone, Copy, PartialEq)]
pub struct StepKind {
    pub odd: bool,
    /// It has a source.
    pub has_source: bool,
    /// It records a sample.
    pub records: bool,
}

/// The steps of a shot.
pub trait CudaSteps {
    /// Appends the launches of the steps of a batch, whose amplitudes and samples lie at `at`.
    fn launches(&self, steps: &[StepKind], at: Buffers, to: &mut Launches);

    /// Returns the words for a padded cell in a message.
    fn describe_cell(&self, cell: [usize; 3]) -> String;

    /// Returns all fields that a step passes to the next.
    fn fields(&self) -> &[DeviceBuffer<f32>];

    /// Returns the counter of the cells that the steps so far have skipped, one value.
    fn skipped(&self) -> &DeviceBuffer<u64>;

    /// Returns the field that has the pressure after a step.
    fn pressure(&self, step: usize) -> &DeviceBuffer<f32>;
}

/// Addresses of a batch's amplitudes, and of the rows of its samples.
#[derive(Clone, Copy)]
pub struct Buffers {
    pub amplitudes: Address,
    pub samples: Address,
}

/// The instability check is at the end of a batch.
const _: () = assert!(PROBE.is_multiple_of(BATCH_STEPS));

/// Bytes of a GPU for the source, the instability check and the count of skipped cells, a few
/// numbers each.
pub const SMALL: u64 = 8192;

/// Returns the most samples of a trace in a batch of a shot of `nt` steps.
fn batch_samples(shot: &Shot, nt: usize) -> usize {
    BATCH_STEPS.min(nt).div_ceil(shot.record_every)
}

/// Returns the bytes of a GPU that the time loop of a shot of `nt` steps allocates, without those of
/// its steps.
pub fn loop_bytes(layout: &Layout, shot: &Shot, nt: usize) -> u64 {
    let picture = snapshot_cells(layout, shot) as u64;
    let traces = shot.receivers.count(layout.inner) as u64;
    let wavelet = shot.wavelet.samples.len().min(nt) as u64;
    let samples = traces.saturating_mul(batch_samples(shot, nt) as u64);
    let pieces = [picture, samples, samples, wavelet];
    pieces.map(granted_bytes).into_iter().fold(SMALL, u64::saturating_add)
}

/// Returns the bytes that a GPU allocates for `values` float32 values.
pub fn granted_bytes(values: u64) -> u64 {
    allocation_bytes(values.saturating_mul(4)).unwrap_or(u64::MAX)
}

/// Values of a state that are on the host at a time.
const PIECE: usize = 8 << 20;

/// Runs the steps of a shot that fits the layout, which is that of a GPU.
pub fn run(
    layout: &Layout,
    shot: &Shot,
    steps: &dyn CudaSteps,
    stream: &Stream,
    control: &dyn Control,
) -> Result<(Gather, Effort)> {
    let cuda_shot = CudaShot::new(layout, shot, steps, stream)?;
    let (traces, samples) = (cuda_shot.traces, shot.samples());
    let data = host_zeros(traces.saturating_mul(samples), "the record of a shot")?;
    let mut gather = Gather { traces, samples, data };
    stream.finish()?;
    let begun = control.resume(&mut CudaCheckpoint { cuda_shot: &cuda_shot, gather: &mut gather })?;
    let begin = Instant::now();
    let mut graphs = Graphs::default();
    let mut in_flight: Option<InFlight> = None;
    let limit = limit(shot);
    let mut done = begun;
    let mut collect = |batch: Option<InFlight>, done| {
        let taken = batch.map_or(Ok(()), |batch| batch.collect(shot, limit, &mut gather, control));
        taken.map_err(|error| cuda_shot.with_place(error, done))
    };
    for steps_of_batch in batches(shot, begun) {
        done = steps_of_batch.end;
        let batch = cuda_shot.batch(shot, steps_of_batch, &mut graphs)?;
        collect(in_flight.replace(batch), done)?;
        if control.pauses() {
            break;
        }
    }
    collect(in_flight, done)?;
    if done < shot.nt {
        control.pause(done, &mut CudaCheckpoint { cuda_shot: &cuda_shot, gather: &mut gather })?;
        return Err(Error::Cancelled);
    }
    let time = begin.elapsed();
    let skipped = stream.download(steps.skipped(), 0..1)?.wait()?[0];
    let all = layout.updated_cells() * (done - begun);
    let computed = if all == 0 { 0.0 } else { 1.0 - skipped as f64 / all as f64 };
    Ok((gather, Effort { time, computed }))
}

/// State between two batches, while the stream is empty.
struct CudaCheckpoint<'a> {
    cuda_shot: &'a CudaShot<'a>,
    gather: &'a mut Gather,
}

impl CudaCheckpoint<'_> {
    /// Returns the fields in pieces.
    fn pieces(&self) -> impl Iterator<Item = (&DeviceBuffer<f32>, Range<usize>)> {
        self.cuda_shot.steps.fields().iter().flat_map(|block| {
            let len = block.len();
            (0..len).step_by(PIECE).map(move |begin| (block, begin..len.min(begin + PIECE)))
        })
    }
}

impl State for CudaCheckpoint<'_> {
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

    fn take(&mut self, _done: usize, from: &mut dyn FnMut(&mut [f32]) -> Result<()>) -> Result<()> {
        let mut values = host_zeros(PIECE, "the state of a shot")?;
        for (block, piece) in self.pieces() {
            let values = &mut values[..piece.len()];
            from(values)?;
            self.cuda_shot.stream.upload(block, piece.start, values)?;
        }
        from(&mut self.gather.data)
    }
}

/// Returns the steps from `begin` on in batches that end at multiples of [`BATCH_STEPS`] and after
/// each snapshot.
fn batches(shot: &Shot, mut begin: usize) -> impl Iterator<Item = Range<usize>> {
    let (nt, every) = (shot.nt, shot.snapshot_every);
    std::iter::from_fn(move || {
        let mut end = (begin / BATCH_STEPS + 1) * BATCH_STEPS;
        if let Some(every) = every {
            end = end.min(begin.next_multiple_of(every) + 1);
        }
        let steps = begin..end.min(nt);
        begin = steps.end;
        (!steps.is_empty()).then_some(steps)
    })
}

/// A shot on a GPU.
struct CudaShot<'a> {
    stream: &'a Stream,
    /// Stream that copies the results of batches to the host.
    copies: Stream,
    /// Layout of the fields.
    layout: &'a Layout,
    steps: &'a dyn CudaSteps,
    snapshot: Kernel,
    peak: Kernel,
    transpose: Kernel,
    /// Amplitude times wavelet: for all steps that have a source, and for those of a batch.
    wavelet: DeviceBuffer<f32>,
    amplitudes: DeviceBuffer<f32>,
    traces: usize,
    /// `[sample of the batch][trace]`.
    samples: DeviceBuffer<f32>,
    /// `[trace][sample of the batch]`, from which samples are copied to the host.
    leaving: DeviceBuffer<f32>,
    /// Pressures of the user's cells, if the shot takes snapshots.
    picture: Option<DeviceBuffer<f32>>,
    largest: DeviceBuffer<u32>,
}

impl<'a> CudaShot<'a> {
    fn new(layout: &'a Layout, shot: &Shot, steps: &'a dyn CudaSteps, stream: &'a Stream) -> Result<Self> {
        let picture = || stream.alloc(layout.inner.iter().product(), "a snapshot of a shot");
        let traces = shot.receivers.count(layout.inner);
        let function = |name| stream.function(KERNELS, name);
        let samples = || stream.alloc(batch_samples(shot, shot.nt) * traces, "the record of a shot");
        Ok(CudaShot {
            stream,
            copies: stream.beside()?,
            layout,
            steps,
            snapshot: function("field_snapshot")?,
            peak: function("field_peak")?,
            transpose: function("field_traces")?,
            wavelet: stream.uploaded(&source_pressures(shot)?, "the wavelet of a shot")?,
            amplitudes: stream.alloc(BATCH_STEPS, "the wavelet of a batch")?,
            traces,
            samples: samples()?,
            leaving: samples()?,
            picture: shot.snapshot_every.map(|_| picture()).transpose()?,
            largest: stream.alloc(1, "the probe of a shot")?,
        })
    }

    /// Adds the place to the error of an unstable shot. `done`: steps done, which were on the
    /// stream when the host found the instability.
    fn with_place(&self, error: Error, done: usize) -> Error {
        let (layout, p) = (self.layout, self.steps.pressure(done - 1));
        instability::placed(error, &|cell| self.steps.describe_cell(cell), layout, Some(done), |y, look| {
            let first = layout.row(y * layout.padded[0]);
            let rows = self.stream.download(p, first..first + layout.padded[0] * layout.pitch)?;
            look(&rows.wait()?);
            Ok(())
        })
    }

    /// Puts a batch of steps and the copies of its results on the streams.
    fn batch(
        &self,
        shot: &Shot,
        steps: Range<usize>,
        graphs: &mut Graphs<Vec<StepKind>>,
    ) -> Result<InFlight> {
        let step = |step: usize| StepKind {
            odd: !step.is_multiple_of(2),
            has_source: step < self.wavelet.len(),
            records: self.traces > 0 && step.is_multiple_of(shot.record_every),
        };
        let launched: Vec<StepKind> = steps.clone().map(step).collect();
        let rows = launched.iter().filter(|step| step.records).count();
        let amplitudes = steps.start.min(self.wavelet.len())..steps.end.min(self.wavelet.len());
        self.stream.copy_part(&self.wavelet, amplitudes, &self.amplitudes)?;
        let at = Buffers { amplitudes: self.amplitudes.address(), samples: self.samples.address() };
        graphs.put(self.stream, launched.clone(), |to| self.steps.launches(&launched, at, to))?;
        let last = steps.end - 1;
        let field = Field::new(self.layout, self.steps.pressure(last).address());
        let picture = self
            .picture
            .as_ref()
            .filter(|_| shot.snapshot_every.is_some_and(|every| last.is_multiple_of(every)));
        let probes = steps.end == shot.nt || steps.end.is_multiple_of(PROBE);
        let launch = |function: &Kernel, launch: Launch, all: Params| {
            self.stream.launch(function, launch.grid, launch.block, all)
        };
        // The copies of the batch before read what is overwritten here.
        self.stream.follow(&self.copies)?;
        if rows > 0 {
            let all = Params::new().with(self.samples.address()).with(self.leaving.address());
            launch(&self.transpose, traces(rows, self.traces), all.with(self.traces as i32))?;
        }
        if let Some(picture) = picture {
            launch(&self.snapshot, field.snapshot(), Params::new().with(field).with(picture.address()))?;
        }
        if probes {
            self.stream.zero(&self.largest)?;
            launch(&self.peak, field.peak(), Params::new().with(field).with(self.largest.address()))?;
        }
        let done = self.stream.record()?;
        self.copies.follow(self.stream)?;
        let samples =
            (rows > 0).then(|| self.copies.download(&self.leaving, 0..rows * self.traces)).transpose()?;
        let picture = picture.map(|picture| self.copies.download(picture, 0..picture.len())).transpose()?;
        let largest = probes.then(|| self.copies.download(&self.largest, 0..1)).transpose()?;
        Ok(InFlight { done, steps, samples, picture, largest })
    }
}

/// Results of a batch that the host has not received.
struct InFlight {
    steps: Range<usize>,
    done: Event,
    samples: Option<Download<f32>>,
    picture: Option<Download<f32>>,
    largest: Option<Download<u32>>,
}

impl InFlight {
    fn collect(self, shot: &Shot, limit: f32, gather: &mut Gather, control: &dyn Control) -> Result<()> {
        self.done.wait()?;
        let last = self.steps.end - 1;
        if let Some(samples) = self.samples {
            let samples = samples.wait()?;
            let first = self.steps.start.div_ceil(shot.record_every);
            let rows = samples.len() / gather.traces;
            let to = gather.data.chunks_exact_mut(gather.samples);
            to.zip(samples.chunks_exact(rows))
                .for_each(|(to, from)| to[first..first + rows].copy_from_slice(from));
        }
        if let Some(largest) = self.largest {
            check_largest(largest.wait()?[0], limit, last)?;
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

    #[test]
    fn batches_cover_all_steps_once_and_end_where_something_is_due() {
        for (nt, every) in [(1, None), (16, None), (75, None), (64, Some(1)), (100, Some(7)), (50, Some(33))]
        {
            let shot = Shot { nt, snapshot_every: every, ..Shot::default() };
            let mut next = 0;
            for steps in batches(&shot, 0) {
                assert_eq!(steps.start, next);
                next = steps.end;
                for step in steps.clone() {
                    let due = every.is_some_and(|every| step % every == 0) || (step + 1) % BATCH_STEPS == 0;
                    assert!(!due || step + 1 == steps.end, "{step} is inside {steps:?}");
                }
            }
            assert_eq!(next, nt);
        }
    }
}
