//! How many bytes a shot takes on a GPU.

use super::kernel::Lens;
use super::kernels;
use crate::fd::grid::Grid;
use crate::fd::grid::layout::Layout;
use crate::fd::one_pass::coefficients::Coefficients;
use crate::fd::storage::Storage;
use crate::fd::survey::Shot;
use crate::fd::time_loop::cuda::{granted_bytes, loop_bytes};

/// Returns the bytes of a GPU that a shot takes at its peak, with what it shares with the others of its plan.
pub fn bytes(c: &Coefficients, shot: &Shot) -> u64 {
    let layout = c.layout.on_gpu();
    let shared = [&c.b, &c.kappa].map(|field| coefficients(field.len_in(&layout), c.storage));
    let traces = shot.receivers.count(layout.inner);
    own_bytes(&layout, shared, traces).saturating_add(loop_bytes(&layout, shot))
}

/// Returns the number of float32 values in whose place so many coefficients are stored.
fn coefficients(len: usize, storage: Storage) -> usize {
    if storage == Storage::Bits16 { len.div_ceil(2) } else { len }
}

/// Returns the bytes of fields, tables and coefficients.
fn own_bytes(layout: &Layout, shared: [usize; 2], traces: usize) -> u64 {
    let profiles = 4 * layout.padded.iter().sum::<usize>();
    let fields = Lens::new(layout).all().chain(kernels::tables(layout, traces));
    let pieces = fields.chain([profiles]).chain(shared);
    pieces.map(|len| granted_bytes(len as u64)).fold(0, u64::saturating_add)
}

/// Returns the bytes of a GPU that a shot in a model of so many cells along the axes takes, with few receivers.
pub fn bytes_of_cells(n: [usize; 3], pml: usize, storage: Storage) -> u64 {
    let layout = Layout::new(&Grid { n, h: [1.0; 3] }, pml).on_gpu();
    own_bytes(&layout, [coefficients(layout.rows(n[0] * n[1]), storage); 2], 1)
        .saturating_add(crate::fd::time_loop::cuda::SMALL)
}
