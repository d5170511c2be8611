//! What all shots of a plan share on a GPU.

use std::sync::Arc;

use super::kernels::PlanKernels;
use super::tables::Tables;
use crate::backend::cuda::{DeviceBuffer, Stream};
use crate::error::{Error, Result};
use crate::fd::control::Control;
use crate::fd::one_pass::coefficients::Coefficients;
use crate::fd::storage::Storage;
use crate::fd::time_loop::block_shape::BlockShape;
use crate::fd::time_loop::launch::Address;

/// A field of coefficients as the kernels read it.
pub enum DeviceField {
    Values(DeviceBuffer<f32>),
    Numbers(DeviceBuffer<u16>),
}

impl DeviceField {
    pub fn address(&self) -> Address {
        match self {
            DeviceField::Values(block) => block.address(),
            DeviceField::Numbers(block) => block.address(),
        }
    }

    pub fn bytes(&self) -> u64 {
        match self {
            DeviceField::Values(block) => block.bytes(),
            DeviceField::Numbers(block) => block.bytes(),
        }
    }
}

/// What all shots of a plan share on a GPU.
pub struct Medium {
    pub tables: Tables,
    pub b: DeviceField,
    pub kappa: DeviceField,
    pub profiles: DeviceBuffer<f32>,
    pub pass: PlanKernels,
}

impl Medium {
    /// `control`: of the shot that is the first.
    pub fn new(
        c: &Coefficients,
        shape: Option<BlockShape>,
        stream: &Stream,
        control: &dyn Control,
    ) -> Result<Medium> {
        let tables = Tables::new(c);
        let names = ["1/rho of the model", "rho vp² of the model"];
        // One after the other: each is on the host twice meanwhile.
        let (b, kappa) = if c.storage == Storage::Bits16 {
            let field = |values: Vec<u16>, what| stream.uploaded(&values, what).map(DeviceField::Numbers);
            (field(tables.b_numbers(c)?, names[0])?, field(tables.kappa_numbers(c)?, names[1])?)
        } else {
            let field = |values: Vec<f32>, what| stream.uploaded(&values, what).map(DeviceField::Values);
            (field(tables.b(c)?, names[0])?, field(tables.kappa(c)?, names[1])?)
        };
        let profiles = stream.uploaded(&tables.profiles, "the absorbing layer of the model")?;
        let pass = PlanKernels::new(&tables, shape, stream, control)?;
        Ok(Medium { tables, b, kappa, profiles, pass })
    }
}

/// What the plan's shots share there, if it is there already.
pub fn medium(c: &Arc<Coefficients>, stream: &Stream) -> Result<Arc<Medium>> {
    stream.shared(c, || Err(Error::Internal("nothing is shared there yet".into())))
}

/// Bytes of the GPU that the plan's shots share there and that are there already.
pub fn shared_bytes(c: &Arc<Coefficients>, stream: &Stream) -> u64 {
    medium(c, stream).map_or(0, |medium| {
        medium.b.bytes() + medium.kappa.bytes() + medium.profiles.bytes() + medium.pass.bytes()
    })
}

/// The shape of blocks that shots of the plan have there, as far as it is known. `None`: none has run.
pub fn shape(c: &Arc<Coefficients>, stream: &Stream) -> Option<BlockShape> {
    Some(medium(c, stream).ok()?.pass.shape())
}
