//! Interface of an equation to the step on the CPU.

use super::activity::ActiveTile;
use super::partition::Partition;
use super::source::SourceInjector;
use super::tuning::SIZES;
use crate::backend::cpu::{Buffer, Rows};
use crate::error::Result;
use crate::fd::anisotropy::IsotropicBall;
use crate::fd::grid::layout::Layout;
use crate::fd::grid::zones::Zones;
use crate::fd::inject::SourceMedium;
use crate::fd::storage::Storage;
use crate::fd::vector::isa::Isa;

/// Most planes along y of a tile. Most equations compute the fluxes of seven planes more for each
/// tile, so tiles are long if all threads have enough of them.
const PLANES: usize = 512;

/// An equation in a medium, with a time step.
pub trait TiledEquation: SourceMedium + Send + Sync {
    /// Number of pressures that a step reads and replaces.
    const PRESSURES: usize;
    /// Points of a source without a unit: cells below the shot's source cell, and the factor on the
    /// wavelet.
    const SOURCE: &'static [(usize, f32)];
    /// Rows along x of the tiles that the tuner tries, the default first.
    const ROWS: [usize; SIZES];

    /// Pairs of fields, by the number of the first: a step reads one and overwrites the other.
    const PAIRS: &'static [usize];

    /// Whether all cells are updated alike: none stores a velocity.
    const UNIFORM: bool = false;

    /// Returns the zones of x, y and z.
    fn zones(layout: &Layout) -> [Zones; 3] {
        let zones = if Self::UNIFORM { Zones::uniform } else { Zones::new };
        [0, 1, 2].map(|axis| zones(layout, axis))
    }

    /// Returns the number of the field to which a step adds the poles of a source. `from`: 0 if the
    /// step reads the pressures of even steps, 1 for those of odd ones.
    fn increment_field(from: usize) -> usize;

    /// Returns the name of the equation, and all else that the best tile size depends on.
    fn kind(&self) -> String;

    fn storage(&self) -> Storage {
        Storage::Float32
    }

    /// Returns the equation for a shot whose source is at a padded cell.
    fn around(&self, source: [usize; 3]) -> Self
    where
        Self: Sized;

    /// Returns the medium around the shot's source, if the shot has its own there.
    fn ball(&self) -> Option<&IsotropicBall> {
        None
    }

    /// Returns the words for a padded cell in a message.
    fn describe_cell(&self, padded: [usize; 3]) -> String;

    /// Returns the lengths of the fields of a shot in the order of checkpoints: first each pressure
    /// of even and of odd steps.
    fn field_lens(&self) -> Vec<usize>;

    /// Returns the number of values of a thread's scratch.
    fn scratch_len(&self, partition: &Partition) -> usize;

    /// Computes a part of a tile that is not at rest.
    ///
    /// # Safety
    /// The fields have the lengths of [`TiledEquation::field_lens`], and the scratch that of
    /// [`TiledEquation::scratch_len`]. Meanwhile no other thread uses the part of the fields that
    /// this tile writes, or writes the part that it reads. The processor has the instructions.
    unsafe fn sweep(step: &TileStep<'_, Self>, tile: &ActiveTile, scratch: *mut f32)
    where
        Self: Sized;

    /// Divides the grid into tiles for `threads` threads.
    fn partition(&self, threads: usize) -> Partition {
        Partition::new(self.layout(), Self::zones(self.layout()), threads, &Self::sizes())
    }

    /// Returns the most rows along x and planes along y of a tile, for each tiling.
    fn sizes() -> [[usize; 2]; SIZES] {
        Self::ROWS.map(|rows| [rows, PLANES])
    }

    /// Returns the fields of a shot at rest.
    fn fields_at_rest(&self) -> Result<Vec<Buffer>> {
        self.field_lens().into_iter().map(|len| Buffer::zeroed(len, "a field of a shot")).collect()
    }

    /// Returns the bytes that [`TiledEquation::fields_at_rest`] allocates.
    fn field_bytes(&self) -> u64 {
        self.field_lens().into_iter().map(Buffer::bytes_of).sum()
    }

    /// Returns the bytes of the scratch of `threads` threads.
    fn thread_bytes(&self, threads: usize) -> u64 {
        let untiled = Partition::untiled(self.layout(), Self::zones(self.layout()), &Self::sizes());
        Buffer::bytes_of(self.scratch_len(&untiled)).saturating_mul(threads as u64)
    }
}

/// Arguments that the tiles of a step share.
pub struct TileStep<'a, E: TiledEquation> {
    pub equation: &'a E,
    pub partition: &'a Partition,
    pub fields: &'a [Rows<'a>],
    /// 0 if the pressures before the step are those of even steps, 1 for those of odd ones.
    pub from: usize,
    /// The source, if it is in the pressures before the step.
    pub injector: Option<&'a SourceInjector>,
    /// Whether fields that the next step reads are written past the caches.
    pub stream: bool,
    pub isa: Isa,
}
