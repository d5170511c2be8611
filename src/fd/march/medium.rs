//! The data that all shots of a plan share on a GPU.

use std::sync::Arc;

use super::equation::CudaEquation;
use super::tables::{COEFFICIENTS, Tables};
use super::tile_plan::{THREADS, TilePlan};
use crate::backend::cuda::{DeviceBuffer, SharedObject, Stream};
use crate::error::{Error, Result};
use crate::fd::edge_field::EdgeField;
use crate::fd::grid::tile_table::GpuTile;
use crate::fd::time_loop::launch::Address;

/// The data that all shots of a plan share on a GPU.
pub struct Medium {
    pub coefficients: Vec<DeviceBuffer<f32>>,
    pub profiles: DeviceBuffer<f32>,
    pub tile_plan: TilePlan,
    pub tiles: DeviceBuffer<GpuTile>,
}

impl Medium {
    pub fn new<E: CudaEquation>(equation: &E, stream: &Stream) -> Result<Medium> {
        let tables = Tables::new(equation);
        let layout = equation.layout();
        // One after the other: each is on the host twice during its upload.
        let upload = |field: &EdgeField| stream.uploaded(&field.on_gpu(layout, &tables.layout)?, field.what);
        let coefficients = equation.fields().into_iter().map(upload).collect::<Result<_>>()?;
        let profiles = stream.uploaded(&tables.profiles, "the absorbing layer of the model")?;
        let step = tables.kernels.load(stream, tables.kernels.step(tables.storage))?;
        let tile_plan = TilePlan::new(tables, step.blocks_at_once(THREADS as u32)? as usize);
        let tiles = stream.uploaded(&tile_plan.table.tiles, "the tiles of the model")?;
        Ok(Medium { coefficients, profiles, tile_plan, tiles })
    }

    /// Returns the addresses of the coefficients.
    pub fn addresses(&self) -> [Address; COEFFICIENTS] {
        std::array::from_fn(|number| self.coefficients.get(number).map_or(0, DeviceBuffer::address))
    }
}

impl SharedObject for Medium {
    fn device_bytes(&self) -> u64 {
        let coefficients = self.coefficients.iter().map(DeviceBuffer::bytes).sum::<u64>();
        coefficients + self.profiles.bytes() + self.tiles.bytes()
    }
}

/// Returns the bytes of the data that the plan's shots share on this GPU; 0 if they are not there.
pub fn shared_bytes<C: Send + Sync + 'static>(c: &Arc<C>, stream: &Stream) -> u64 {
    let absent = || Err(Error::Internal("the plan has no data on this GPU".into()));
    stream.shared::<C, Medium>(c, absent).map_or(0, |medium| medium.device_bytes())
}
