//! The bytes of a shot on a GPU.

use super::plan_kernels;
use super::policy::CudaPolicy;
use super::tile_plan::Lens;
use crate::fd::grid::Grid;
use crate::fd::grid::layout::Layout;
use crate::fd::storage::Storage;
use crate::fd::survey::Shot;
use crate::fd::time_loop::cuda::{SMALL, granted_bytes, loop_bytes};

/// Returns the bytes of a GPU that a shot takes at its peak, with what it shares with the others of its plan.
pub fn bytes<P: CudaPolicy>(policy: &P, shot: &Shot) -> u64 {
    let c = policy.coefficients();
    let layout = c.layout.on_gpu();
    let shared = policy.fields().into_iter().map(|field| coefficients(field.len_in(&layout), c.storage));
    let traces = shot.receivers.count(layout.inner);
    own_bytes::<P>(&layout, shared, traces).saturating_add(loop_bytes(&layout, shot))
}

/// Returns the number of float32 values in whose place so many coefficients are stored.
fn coefficients(len: usize, storage: Storage) -> usize {
    if storage == Storage::Bits16 { len.div_ceil(2) } else { len }
}

/// Returns the bytes of fields, tables and coefficients.
fn own_bytes<P: CudaPolicy>(layout: &Layout, shared: impl Iterator<Item = usize>, traces: usize) -> u64 {
    let profiles = 4 * layout.padded.iter().sum::<usize>();
    let fields = Lens::new(layout, P::PRESSURES).all().chain(plan_kernels::tables(layout, traces));
    let pieces = fields.chain([profiles, (P::CUBE_BYTES / 4) as usize]).chain(shared);
    pieces.map(|len| granted_bytes(len as u64)).fold(0, u64::saturating_add)
}

/// Returns the bytes of a GPU that a shot in a model of so many cells along the axes takes, with few receivers.
pub fn bytes_of_cells<P: CudaPolicy>(n: [usize; 3], pml: usize, storage: Storage) -> u64 {
    let layout = Layout::new(&Grid { n, h: [1.0; 3] }, pml).on_gpu();
    let field = coefficients(layout.rows(n[0] * n[1]), storage);
    own_bytes::<P>(&layout, std::iter::repeat_n(field, 2 + P::MIXING), 1).saturating_add(SMALL)
}
