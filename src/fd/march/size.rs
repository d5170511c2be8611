//! Memory of a shot on a GPU.

use super::activity;
use super::equation::CudaEquation;
use super::source::CLEAN;
use super::tile_plan::TILE_ROWS;
use crate::fd::grid::layout::Layout;
use crate::fd::grid::tile_table::{self, GpuTile};
use crate::fd::storage::Storage;
use crate::fd::survey::Shot;
use crate::fd::time_loop::cuda::{SMALL, granted_bytes, loop_bytes};

/// Returns the bytes of a GPU that a shot of `nt` steps takes at its peak, with those that it shares
/// with other shots of its plan.
pub fn bytes<E: CudaEquation>(equation: &E, shot: &Shot, nt: usize) -> u64 {
    let layout = equation.layout().on_gpu();
    let fields = equation.fields().into_iter();
    let shared = fields.map(|field| coefficients(field.len_in(&layout), equation.storage()));
    let traces = shot.receivers.count(layout.inner);
    own_bytes::<E>(&layout, shared, traces).saturating_add(loop_bytes(&layout, shot, nt))
}

/// Returns the number of float32 values that take as many bytes as `len` coefficients.
fn coefficients(len: usize, storage: Storage) -> usize {
    if storage == Storage::Bits16 { len.div_ceil(2) } else { len }
}

/// Returns the bytes of fields, tables and coefficients.
fn own_bytes<E: CudaEquation>(layout: &Layout, shared: impl Iterator<Item = usize>, traces: usize) -> u64 {
    let profiles = E::PROFILES * layout.padded.iter().sum::<usize>();
    let (most, flags) = (tile_table::most(layout, TILE_ROWS), activity::flags(layout));
    let tiles = [most * size_of::<GpuTile>() / 4, most + 1, traces, traces];
    let arrays = E::lens(layout).into_iter().chain(tiles);
    let pieces = arrays.chain([CLEAN, flags, flags, profiles, (E::OWN_BYTES / 4) as usize]).chain(shared);
    pieces.map(|len| granted_bytes(len as u64)).fold(0, u64::saturating_add)
}

/// Returns the bytes of a GPU that a shot with few receivers takes in a model of `n` cells along
/// the axes.
pub fn bytes_of_cells<E: CudaEquation>(equation: &E, n: [usize; 3]) -> u64 {
    let layout = Layout::new(n, equation.layout().pml).on_gpu();
    let field = coefficients(layout.rows(n[0] * n[1]), equation.storage());
    let shared = std::iter::repeat_n(field, equation.fields().len());
    own_bytes::<E>(&layout, shared, 1).saturating_add(SMALL)
}
