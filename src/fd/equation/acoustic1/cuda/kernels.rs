//! The kernels of a plan. Which shape a block has is found by an [`Autotuner`], whose candidates are
//! the shapes that there are kernels for.

use std::sync::{Arc, LazyLock};

use super::kernel::{self, GpuTile, TilePlan, kernel_of};
use super::tables::Tables;
use crate::backend::cuda::{DeviceBuffer, Kernel, Ptx, Stream};
use crate::error::{Error, Result};
use crate::fd::control::Control;
use crate::fd::grid::layout::Layout;
use crate::fd::time_loop::autotuner::Autotuner;
use crate::fd::time_loop::block_shape::{BlockShape, OF_16_BITS, SHAPES};

pub fn function(stream: &Stream, kernel: &'static str) -> Result<Kernel> {
    stream.function(Ptx { name: kernel, text: kernel::alone(kernel) }, kernel)
}

/// Names all that the best shape may depend on, except the GPU and the library's version.
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
        let texts = SHAPES.iter().flat_map(|shape| kernel::alone(kernel_of(*shape)).bytes());
        texts.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
    });
    *NUMBER
}

/// The shapes that the GPU runs, if the one that is wanted is among them.
fn runnable(wanted: Option<BlockShape>, stream: &Stream) -> Result<&'static [BlockShape]> {
    let capability = stream.device().info().compute_capability;
    let shapes = BlockShape::on(capability);
    let Some(wanted) = wanted.filter(|wanted| !shapes.contains(wanted)) else { return Ok(shapes) };
    let names: Vec<_> = shapes.iter().map(|shape| shape.name).collect();
    let ((major, minor), (least, more)) = (capability.unwrap_or_default(), wanted.since);
    let accepted = format!(
        "auto, {} on {}, whose compute capability is {major}.{minor}; {} takes one of {least}.{more} or higher",
        names.join(", "),
        stream.device().label(),
        wanted.name
    );
    Err(Error::argument("the shape of blocks", wanted.name, accepted))
}

/// The kernels of a plan, which all its shots share.
pub struct PlanKernels {
    pub tuner: Arc<Autotuner>,
    /// What that is about, where there is a choice.
    subject: Option<String>,
    /// Its candidates.
    pub shapes: &'static [BlockShape],
    /// Of the shapes that may be taken.
    pub tile_plans: Vec<Option<(TilePlan, DeviceBuffer<GpuTile>)>>,
}

impl PlanKernels {
    /// `wanted`: the one shape to take.
    ///
    /// Refused: one that the GPU does not run.
    pub fn new(
        tables: &Tables,
        wanted: Option<BlockShape>,
        stream: &Stream,
        control: &dyn Control,
    ) -> Result<PlanKernels> {
        let shapes = match tables.scales {
            Some(_) => &[OF_16_BITS],
            None => runnable(wanted, stream)?,
        };
        let wanted = wanted.and_then(|shape| shapes.iter().position(|other| *other == shape));
        let subject = (wanted.is_none() && shapes.len() > 1).then(|| subject(tables, stream));
        let tuner = match wanted {
            Some(candidate) => Arc::new(Autotuner::settled(candidate, shapes.len())),
            None if shapes.len() == 1 => Arc::new(Autotuner::new(1)),
            None => {
                let key = format!("{} {}", stream.device().info().id, subject.as_deref().unwrap_or_default());
                Autotuner::shared(key, shapes.len(), || {
                    let name = control.finding(subject.as_ref()?)?;
                    shapes.iter().position(|shape| shape.name == name)
                })
            }
        };
        let mut tile_plans: Vec<_> = shapes.iter().map(|_| None).collect();
        for candidate in tuner.candidates() {
            let shape = shapes[candidate];
            let function = function(stream, kernel_of(shape))?;
            let at_once = function.blocks_at_once(shape.threads() as u32)?;
            let tile_plan = TilePlan::new(tables, shape, at_once as usize)?;
            let tiles = stream.uploaded(&tile_plan.table.tiles, "the tiles of the model")?;
            tile_plans[candidate] = Some((tile_plan, tiles));
        }
        Ok(PlanKernels { tuner, subject, shapes, tile_plans })
    }

    /// Tells what shots have found, so that other processes need not try.
    pub fn tell(&self, control: &dyn Control) {
        if let (Some(subject), Some(candidate)) = (&self.subject, self.tuner.found()) {
            control.found(subject, self.shapes[candidate].name);
        }
    }

    pub fn bytes(&self) -> u64 {
        self.tile_plans.iter().flatten().map(|(_, tiles)| tiles.bytes()).sum()
    }

    /// The one that has been found best so far.
    pub fn shape(&self) -> BlockShape {
        self.shapes[self.tuner.best()]
    }
}

/// Values of the tables of tiles, of where the receivers of a box begin, and of these, at most.
pub fn tables(layout: &Layout, traces: usize) -> impl Iterator<Item = usize> {
    SHAPES.into_iter().flat_map(move |shape| {
        let most = kernel::most_tiles(layout, shape);
        [most * size_of::<GpuTile>() / 4, most + 1, traces, traces]
    })
}
