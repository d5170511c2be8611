//! The time loop of a shot on a card.
//!
//! Steps are put on the queue a leg at a time; legs whose launches are the same are one graph. While the card computes a leg, the host takes in what the
//! one before has left: samples, a snapshot, a look for numbers that are none. So the card never waits for
//! the host, what waits on the queue is bounded, and a cancel is heard within two legs.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use super::coefficients::Coefficients;
use super::fields::part_lens;
use super::kernel::{self, Addresses, Launch, PTX, Tables};
use super::layout::Layout;
use super::record::host_zeros;
use super::run::{Clock, PROBE, unstable};
use crate::backend::cuda::{
    Block, Download, Event, Function, Graphs, Launches, Params, Ptx, Stream, granted,
};
use crate::error::{Error, Result};
use crate::fd::grid::Grid;
use crate::fd::shot::Control;
use crate::fd::survey::{Gather, Shot};

/// Steps of a leg; the probe comes at the end of one.
const LEG: usize = 16;
const _: () = assert!(PROBE.is_multiple_of(LEG));
/// Threads of a block of the sweeps.
const THREADS: u32 = 256;
/// Bytes of a card for the source and the probe, of a few numbers each.
const SMALL: u64 = 8192;

const KERNELS: Ptx = Ptx { name: "acoustic1", text: PTX };

/// What all shots of a plan share on a card.
struct Medium {
    tables: Tables,
    b: Block<f32>,
    kappa: Block<f32>,
    profiles: Block<f32>,
}

impl Medium {
    fn new(c: &Coefficients, stream: &Stream) -> Result<Medium> {
        let tables = Tables::new(c)?;
        // One after the other: each is on the host twice meanwhile.
        let b = stream.uploaded(&tables.b(c)?, "1/rho of the model")?;
        let kappa = stream.uploaded(&tables.kappa(c)?, "rho vp² of the model")?;
        let profiles = stream.uploaded(&tables.profiles, "the absorbing layer of the model")?;
        Ok(Medium { tables, b, kappa, profiles })
    }
}

/// Bytes of a card that a shot takes at its peak, with what it shares with the others of its plan.
pub fn bytes(c: &Coefficients, shot: &Shot) -> u64 {
    let layout = c.layout.on_card();
    let traces = shot.receivers.count(layout.inner) as u64;
    let shared = [c.b.len_in(&layout), c.kappa.len_in(&layout)];
    let picture = shot.snapshot_every.map_or(0, |_| layout.inner.iter().product::<usize>());
    let record = [traces.saturating_mul(rows(shot) as u64), traces.saturating_mul(2)];
    let more = [record[0], record[1], sounding(shot) as u64];
    taken(&layout, shared, picture)
        .saturating_add(more.map(granted_values).into_iter().fold(0, u64::saturating_add))
}

/// Without the record and the wavelet.
fn taken(layout: &Layout, shared: [usize; 2], picture: usize) -> u64 {
    let profiles = 4 * layout.padded.iter().sum::<usize>();
    let [x, y, z] = part_lens(layout);
    let fields = [layout.field_len(); 4];
    let pieces = fields.into_iter().chain([x, y, z, profiles, picture]).chain(shared);
    pieces.map(|len| granted_values(len as u64)).fold(SMALL, u64::saturating_add)
}

/// What the card takes for so many numbers.
fn granted_values(len: u64) -> u64 {
    granted(len.saturating_mul(4)).unwrap_or(u64::MAX)
}

/// Bytes of a card that a shot in a model of `n` cells along each axis takes, with few receivers.
pub fn bytes_of_cube(n: usize, pml: usize) -> u64 {
    let layout = Layout::new(&Grid { n: [n; 3], h: [1.0; 3] }, pml).on_card();
    taken(&layout, [layout.rows(n * n); 2], 0)
}

/// Bytes of the card that the plan's shots share there and that are there already.
pub fn shared_bytes(c: &Arc<Coefficients>, stream: &Stream) -> u64 {
    let none = || Err(Error::Internal("nothing is shared there yet".into()));
    let medium = stream.shared::<_, Medium>(c, none);
    medium.map_or(0, |medium| medium.b.bytes() + medium.kappa.bytes() + medium.profiles.bytes())
}

/// Samples of a trace that a leg leaves, at most.
fn rows(shot: &Shot) -> usize {
    LEG.div_ceil(shot.record_every).min(shot.samples())
}

/// Steps that have a source.
fn sounding(shot: &Shot) -> usize {
    shot.wavelet.samples.len().min(shot.nt)
}

/// Runs a shot that fits the coefficients' grid.
pub fn run(
    c: &Arc<Coefficients>,
    shot: &Shot,
    stream: &Stream,
    control: &dyn Control,
) -> Result<(Gather, Clock)> {
    let medium = stream.shared(c, || Medium::new(c, stream))?;
    let card = Card::new(c, &medium, shot, stream)?;
    let mut gather = gather(&c.layout, shot)?;
    stream.finish()?;
    let begin = Instant::now();
    let mut graphs = Graphs::default();
    let mut under_way: Option<Left> = None;
    for steps in legs(shot) {
        let left = card.leg(shot, steps, &mut graphs)?;
        if let Some(earlier) = under_way.replace(left) {
            earlier.take_in(shot, &mut gather, control)?;
        }
    }
    if let Some(last) = under_way {
        last.take_in(shot, &mut gather, control)?;
    }
    Ok((gather, begin.elapsed()))
}

/// The steps in pieces that end at multiples of [`LEG`] and after each snapshot.
fn legs(shot: &Shot) -> impl Iterator<Item = Range<usize>> {
    let (nt, every) = (shot.nt, shot.snapshot_every);
    let mut begin = 0;
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

/// What a step launches: nothing else makes its launches others than those of any leg's step at its place.
#[derive(Clone, Copy, PartialEq)]
struct Step {
    /// There is a source.
    sounds: bool,
    /// A sample is kept.
    keeps: bool,
}

/// A shot on a card.
struct Card<'a> {
    stream: &'a Stream,
    params: kernel::Params,
    velocity: Function,
    pressure: Function,
    source: Function,
    record: Function,
    snapshot: Function,
    peak: Function,
    terms: Block<kernel::Term>,
    /// Amplitude times wavelet, of all steps that have a source, and of those of a leg.
    wavelet: Block<f32>,
    sounding: Block<f32>,
    receivers: Block<i64>,
    /// `[sample of the leg][trace]`.
    samples: Block<f32>,
    /// The user's cells, if there are snapshots.
    picture: Option<Block<f32>>,
    largest: Block<u32>,
    /// Where `params` point to.
    _fields: [Block<f32>; 7],
}

impl<'a> Card<'a> {
    fn new(c: &Coefficients, medium: &Medium, shot: &Shot, stream: &'a Stream) -> Result<Self> {
        let tables = &medium.tables;
        let field = || stream.zeroed::<f32>(tables.field_len(), "a field of a shot");
        let part = |len| stream.zeroed::<f32>(len, "the absorbing layer of a shot");
        let [x, y, z] = tables.part_lens();
        let fields = [field()?, field()?, field()?, field()?, part(x)?, part(y)?, part(z)?];
        let receivers = tables.receivers(&shot.receivers);
        let wavelet = &shot.wavelet.samples[..sounding(shot)];
        let wavelet: Vec<_> = wavelet.iter().map(|sample| shot.amplitude * sample).collect();
        let picture = match shot.snapshot_every {
            Some(_) => Some(stream.alloc(tables.layout.inner.iter().product(), "a snapshot of a shot")?),
            None => None,
        };
        let function = |name| stream.function(KERNELS, name);
        let pressure = function("acoustic1_pressure")?;
        let [p, u, v, w, x, y, z] = fields.each_ref().map(Block::address);
        let at = Addresses {
            p,
            velocity: [u, v, w],
            part: [x, y, z],
            b: medium.b.address(),
            kappa: medium.kappa.address(),
            profiles: medium.profiles.address(),
        };
        let planes = tables.planes(pressure.blocks_at_once(THREADS)? as usize);
        Ok(Card {
            stream,
            params: tables.params(&at, planes),
            velocity: function("acoustic1_velocity")?,
            pressure,
            source: function("acoustic1_source")?,
            record: function("acoustic1_record")?,
            snapshot: function("acoustic1_snapshot")?,
            peak: function("acoustic1_peak")?,
            terms: stream.uploaded(&tables.source(c, shot.source), "the source of a shot")?,
            wavelet: stream.uploaded(&wavelet, "the wavelet of a shot")?,
            sounding: stream.alloc(LEG, "the wavelet of a leg")?,
            samples: stream.alloc(rows(shot) * receivers.len(), "the record of a shot")?,
            receivers: stream.uploaded(&receivers, "the receivers of a shot")?,
            picture,
            largest: stream.alloc(1, "the probe of a shot")?,
            _fields: fields,
        })
    }

    fn launch(&self, function: &Function, launch: Launch, more: impl FnOnce(Params) -> Params) -> Result<()> {
        self.stream.launch(function, launch.grid, launch.block, more(Params::new().with(self.params)))
    }

    /// The launches of a leg.
    fn steps(&self, steps: &[Step], to: &mut Launches) {
        let mut put = |function: &Function, launch: Launch, more: &dyn Fn(Params) -> Params| {
            to.push(function, launch.grid, launch.block, more(Params::new().with(self.params)));
        };
        let (terms, receivers) = (self.terms.len() as i32, self.receivers.len() as i32);
        let mut row = self.samples.address();
        for (number, step) in steps.iter().enumerate() {
            put(&self.velocity, kernel::velocity(&self.params), &|all| all);
            if step.sounds {
                let value = self.sounding.address() + 4 * number as u64;
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

    /// Puts some steps on the queue.
    fn leg(&self, shot: &Shot, steps: Range<usize>, graphs: &mut Graphs<Vec<Step>>) -> Result<Left> {
        let traces = self.receivers.len();
        let step = |step: usize| Step {
            sounds: step < self.wavelet.len(),
            keeps: traces > 0 && step.is_multiple_of(shot.record_every),
        };
        let launched: Vec<Step> = steps.clone().map(step).collect();
        let rows = launched.iter().filter(|step| step.keeps).count();
        let sounding = steps.start.min(self.wavelet.len())..steps.end.min(self.wavelet.len());
        self.stream.copy_part(&self.wavelet, sounding, &self.sounding)?;
        let key = launched.clone();
        graphs.put(self.stream, key, |to| self.steps(&launched, to))?;
        let last = steps.end - 1;
        let samples = match rows {
            0 => None,
            rows => Some(self.stream.download(&self.samples, 0..rows * traces)?),
        };
        let picture = match (&self.picture, shot.snapshot_every) {
            (Some(picture), Some(every)) if last.is_multiple_of(every) => {
                let to = picture.address();
                self.launch(&self.snapshot, kernel::snapshot(&self.params), |all| all.with(to))?;
                Some(self.stream.download(picture, 0..picture.len())?)
            }
            _ => None,
        };
        let largest = if steps.end == shot.nt || steps.end.is_multiple_of(PROBE) {
            self.stream.zero(&self.largest)?;
            let to = self.largest.address();
            self.launch(&self.peak, kernel::peak(&self.params), |all| all.with(to))?;
            Some(self.stream.download(&self.largest, 0..1)?)
        } else {
            None
        };
        Ok(Left { done: self.stream.record()?, steps, samples, picture, largest })
    }
}

/// What a leg leaves to the host, on its way.
struct Left {
    steps: Range<usize>,
    done: Event,
    samples: Option<Download<f32>>,
    picture: Option<Download<f32>>,
    largest: Option<Download<u32>>,
}

impl Left {
    fn take_in(self, shot: &Shot, gather: &mut Gather, control: &dyn Control) -> Result<()> {
        self.done.wait()?;
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
        if let Some(largest) = self.largest
            && largest.wait()?[0] >= f32::INFINITY.to_bits()
        {
            return Err(unstable(last));
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
            for steps in legs(&shot) {
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
