//! A step in one pass. Which shape a block has is found by a [`Trial`], whose ways are the shapes that there are kernels for.

use std::cell::Cell;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use super::super::coefficients::Coefficients;
use super::super::kernel::{self as common, Address, Addresses, Launch, Tables};
use super::super::layout::Layout;
use super::super::one_pass::kernel::{
    self, Cut, Fields, Grounds, Lens, OF_16_BITS, Params, Plan, SHAPES, Samples, Shape, Sounding,
};
use super::medium::{Field, Medium};
use super::trial::Trial;
use super::{Buffers, Step, Steps};
use crate::backend::cuda::{Block, Function, Launches, Params as Arguments, Ptx, Stream};
use crate::device::DeviceId;
use crate::error::{Error, Result};
use crate::fd::shot::Control;
use crate::fd::survey::Shot;

fn function(stream: &Stream, kernel: &'static str) -> Result<Function> {
    stream.function(Ptx { name: kernel, text: kernel::alone(kernel) }, kernel)
}

/// Legs of a shape that a shot does not time: the launches of the first are new, of the second a graph is made.
const NEW: u32 = 2;
/// Trials that are remembered.
const KNOWN: usize = 64;

/// What makes steps alike, on one card.
#[derive(PartialEq)]
struct Kind {
    card: DeviceId,
    layout: Layout,
    steps: [[usize; 2]; 2],
}

/// The trial of a kind of step, as long as the process lives. `known`: the way that an earlier process has found best.
fn trial(kind: Kind, ways: usize, known: impl FnOnce() -> Option<usize>) -> Arc<Trial> {
    static TRIALS: Mutex<Vec<(Kind, Arc<Trial>)>> = Mutex::new(Vec::new());
    let mut trials = TRIALS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, there)) = trials.iter().find(|(other, _)| *other == kind) {
        return there.clone();
    }
    let trial = known().map_or_else(|| Trial::new(ways), |way| Trial::settled(way, ways));
    let trial = Arc::new(trial);
    if trials.len() == KNOWN {
        trials.remove(0);
    }
    trials.push((kind, trial.clone()));
    trial
}

/// What a trial is about: all that its outcome may depend on, but the card and the library's version.
fn subject(tables: &Tables, stream: &Stream) -> String {
    let Layout { inner: [nx, ny, nz], pml, .. } = tables.layout;
    let [[b, b_z], [kappa, kappa_z]] = tables.steps();
    let (driver, kernels) = (stream.driver(), kernels());
    format!(
        "acoustic1 one-pass, {nx}x{ny}x{nz}+{pml}, {b} {b_z} {kappa} {kappa_z}, driver {driver}, kernels {kernels:016x}"
    )
}

/// A number that others are very unlikely to have than the kernels of all shapes, by FNV-1a.
fn kernels() -> u64 {
    static NUMBER: LazyLock<u64> = LazyLock::new(|| {
        let texts = SHAPES.iter().flat_map(|shape| kernel::alone(shape.kernel).bytes());
        texts.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
    });
    *NUMBER
}

/// The shapes that the card runs, if the one that is wanted is among them.
fn runnable(wanted: Option<Shape>, stream: &Stream) -> Result<&'static [Shape]> {
    let capability = stream.card().info().compute_capability;
    let shapes = Shape::on(capability);
    let Some(wanted) = wanted.filter(|wanted| !shapes.contains(wanted)) else { return Ok(shapes) };
    let names: Vec<_> = shapes.iter().map(|shape| shape.name()).collect();
    let ((major, minor), (least, more)) = (capability.unwrap_or_default(), wanted.since);
    let accepted = format!(
        "auto, {} on {}, whose compute capability is {major}.{minor}; {} takes one of {least}.{more} or higher",
        names.join(", "),
        stream.card().label(),
        wanted.name()
    );
    Err(Error::argument("the shape of blocks", wanted.name(), accepted))
}

/// What all shots of a plan share for this form.
pub struct Pass {
    trial: Arc<Trial>,
    /// What that is about, where there is a choice.
    subject: Option<String>,
    /// Its ways.
    shapes: &'static [Shape],
    /// Of the shapes that may be taken.
    grounds: Vec<Option<(Grounds, Block<Cut>)>>,
}

impl Pass {
    /// `wanted`: the one shape to take.
    ///
    /// Refused: one that the card does not run.
    pub fn new(
        tables: &Tables,
        wanted: Option<Shape>,
        stream: &Stream,
        control: &dyn Control,
    ) -> Result<Pass> {
        let shapes = match tables.scales {
            Some(_) => &[OF_16_BITS],
            None => runnable(wanted, stream)?,
        };
        let wanted = wanted.and_then(|shape| shapes.iter().position(|other| *other == shape));
        let subject = (wanted.is_none() && shapes.len() > 1).then(|| subject(tables, stream));
        let trial = match wanted {
            Some(way) => Arc::new(Trial::settled(way, shapes.len())),
            None if shapes.len() == 1 => Arc::new(Trial::new(1)),
            None => {
                let card = stream.card().info().id.clone();
                trial(Kind { card, layout: tables.layout, steps: tables.steps() }, shapes.len(), || {
                    let name = control.finding(subject.as_ref()?)?;
                    shapes.iter().position(|shape| shape.name() == name)
                })
            }
        };
        let mut grounds: Vec<_> = shapes.iter().map(|_| None).collect();
        for way in trial.ways() {
            let shape = shapes[way];
            let function = function(stream, shape.kernel)?;
            let at_once = function.blocks_at_once(shape.threads() as u32)?;
            let ground = Grounds::new(tables, shape, at_once as usize)?;
            let boxes = stream.uploaded(&ground.boxes.cuts, "the boxes of the model")?;
            grounds[way] = Some((ground, boxes));
        }
        Ok(Pass { trial, subject, shapes, grounds })
    }

    /// Tells what shots have found, so that other processes need not try.
    pub fn tell(&self, control: &dyn Control) {
        if let (Some(subject), Some(way)) = (&self.subject, self.trial.found()) {
            control.found(subject, self.shapes[way].name());
        }
    }

    pub fn bytes(&self) -> u64 {
        self.grounds.iter().flatten().map(|(_, boxes)| boxes.bytes()).sum()
    }

    /// The one that has been found best so far.
    pub fn shape(&self) -> Shape {
        self.shapes[self.trial.best()]
    }
}

/// Values of the tables of boxes, of where the receivers of a box begin, and of these, at most.
pub fn tables(layout: &Layout, traces: usize) -> impl Iterator<Item = usize> {
    SHAPES.into_iter().flat_map(move |shape| {
        let most = kernel::most_boxes(layout, shape);
        [most * size_of::<Cut>() / 4, most + 1, traces, traces]
    })
}

/// A shape as a shot has it.
struct Way<'a> {
    grounds: &'a Grounds,
    params: [Params; 2],
    function: Function,
    samples: Samples,
    _receivers: (Block<i32>, Block<u32>, Block<i32>),
    /// Legs that it has computed.
    legs: Cell<u32>,
}

pub struct OnePass<'a> {
    medium: &'a Medium,
    trial: &'a Trial,
    ways: Vec<Option<Way<'a>>>,
    sounding: Sounding,
    source: Function,
    p: [Address; 2],
    traces: u64,
    fields: Vec<Block<f32>>,
}

impl<'a> OnePass<'a> {
    pub fn new(
        c: &Coefficients,
        medium: &'a Medium,
        pass: &'a Pass,
        shot: &Shot,
        stream: &Stream,
    ) -> Result<Self> {
        let tables = &medium.tables;
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
        for way in pass.trial.ways() {
            if let Some(ground) = &pass.grounds[way] {
                ways[way] = Some(Way::new(medium, ground, &fields, shot, stream)?);
            }
        }
        Ok(OnePass {
            medium,
            trial: &pass.trial,
            ways,
            sounding: Sounding::new(c, shot, fields.clean),
            source: function(stream, "acoustic1_one_pass_source")?,
            p: fields.p,
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
        (grounds, boxes): &'a (Grounds, Block<Cut>),
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
            function: function(stream, grounds.shape.kernel)?,
            samples: Samples { first, at, trace, to: 0 },
            _receivers: held,
            legs: Cell::new(0),
        })
    }
}

impl Steps for OnePass<'_> {
    fn next(&self) -> (usize, bool) {
        let (way, timed) = self.trial.next();
        let legs =
            self.ways[way].as_ref().map_or(0, |way| way.legs.replace(way.legs.get().saturating_add(1)));
        (way, timed && legs >= NEW)
    }

    fn took(&self, way: usize, seconds: f64) {
        self.trial.took(way, seconds);
    }

    fn launches(&self, way: usize, steps: &[Step], at: Buffers, to: &mut Launches) {
        let Some(way) = self.way(way) else { return };
        let mut put = |function: &Function, launch: Launch, all: Arguments| {
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

    fn params(&self, step: usize) -> common::Params {
        let (tables, p) = (&self.medium.tables, self.p[1 - step % 2]);
        let [b, kappa] = [&self.medium.b, &self.medium.kappa].map(Field::address);
        let profiles = self.medium.profiles.address();
        tables.params(&Addresses { p, velocity: [p; 3], part: [p; 3], b, kappa, profiles }, 1)
    }

    fn fields(&self) -> &[Block<f32>] {
        &self.fields
    }

    fn pressure(&self, step: usize) -> &Block<f32> {
        &self.fields[1 - step % 2]
    }
}
