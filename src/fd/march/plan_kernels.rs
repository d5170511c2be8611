//! The kernels of a plan. An [`Autotuner`], whose candidates are the shapes that the GPU runs, finds
//! the shape of blocks.

use std::sync::Arc;

use super::kernel_set::KernelSet;
use super::tables::Tables;
use super::tile_plan::{TilePlan, most_tiles};
use crate::backend::cuda::{DeviceBuffer, Stream};
use crate::error::{Error, Result};
use crate::fd::control::Control;
use crate::fd::grid::layout::Layout;
use crate::fd::grid::tile_table::GpuTile;
use crate::fd::storage::Storage;
use crate::fd::time_loop::autotuner::Autotuner;
use crate::fd::time_loop::block_shape::{BlockShape, OF_16_BITS, SHAPES};

/// Names all that the best shape may depend on, except the GPU and the library's version.
fn subject(tables: &Tables, stream: &Stream) -> String {
    let Layout { inner: [nx, ny, nz], pml, .. } = tables.layout;
    let steps: Vec<_> = tables.steps[..tables.coefficients].iter().flatten().map(usize::to_string).collect();
    let (steps, equation) = (steps.join(" "), tables.kernels.equation);
    let (driver, kernels) = (stream.driver(), tables.kernels.number());
    format!("{equation} one-pass, {nx}x{ny}x{nz}+{pml}, {steps}, driver {driver}, kernels {kernels:016x}")
}

/// Returns the shapes that the GPU runs, if the one that is wanted is among them.
fn runnable(
    kernels: &KernelSet,
    wanted: Option<BlockShape>,
    stream: &Stream,
) -> Result<&'static [BlockShape]> {
    let capability = stream.device().info().compute_capability;
    let shapes = BlockShape::among(kernels.shapes, capability);
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
    /// The subject of its finding, if there is a choice.
    subject: Option<String>,
    /// The candidates.
    pub shapes: &'static [BlockShape],
    /// The tiles of the shapes that may be taken.
    pub tile_plans: Vec<Option<(TilePlan, DeviceBuffer<GpuTile>)>>,
}

impl PlanKernels {
    /// `wanted`: the one shape to take.
    ///
    /// # Errors
    /// A shape that the GPU does not run.
    pub fn new(
        tables: &Tables,
        wanted: Option<BlockShape>,
        stream: &Stream,
        control: &dyn Control,
    ) -> Result<PlanKernels> {
        let shapes = match tables.storage {
            Storage::Bits16 => &[OF_16_BITS],
            Storage::Float32 => runnable(tables.kernels, wanted, stream)?,
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
            let function = tables.kernels.load(stream, tables.kernels.kernel(shape))?;
            let at_once = function.blocks_at_once(shape.threads() as u32)?;
            let tile_plan = TilePlan::new(tables, shape, at_once as usize)?;
            let tiles = stream.uploaded(&tile_plan.table.tiles, "the tiles of the model")?;
            tile_plans[candidate] = Some((tile_plan, tiles));
        }
        Ok(PlanKernels { tuner, subject, shapes, tile_plans })
    }

    /// Reports the winner, so that other processes need not compare.
    pub fn tell(&self, control: &dyn Control) {
        if let (Some(subject), Some(candidate)) = (&self.subject, self.tuner.found()) {
            control.found(subject, self.shapes[candidate].name);
        }
    }

    pub fn bytes(&self) -> u64 {
        self.tile_plans.iter().flatten().map(|(_, tiles)| tiles.bytes()).sum()
    }

    /// Returns the best shape found so far.
    pub fn shape(&self) -> BlockShape {
        self.shapes[self.tuner.best()]
    }
}

/// Returns the most values of the tables of tiles and receivers.
pub fn tables(layout: &Layout, traces: usize) -> impl Iterator<Item = usize> {
    SHAPES.into_iter().flat_map(move |shape| {
        let most = most_tiles(layout, shape);
        [most * size_of::<GpuTile>() / 4, most + 1, traces, traces]
    })
}
