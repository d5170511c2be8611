//! How many bytes a shot takes on a GPU.

use super::super::coefficients::Coefficients;
use super::super::layout::Layout;
use super::super::one_pass::kernel::Lens;
use super::pass;
use super::steps::LEG;
use crate::backend::cuda::allocation_bytes;
use crate::fd::grid::Grid;
use crate::fd::storage::Storage;
use crate::fd::survey::Shot;

/// Bytes of a GPU for the source and the probe, of a few numbers each.
const SMALL: u64 = 8192;

/// Samples of a trace that a leg leaves, at most.
pub fn rows(shot: &Shot) -> usize {
    LEG.div_ceil(shot.record_every).min(shot.samples())
}

/// Steps that have a source.
fn sounding(shot: &Shot) -> usize {
    shot.wavelet.samples.len().min(shot.nt)
}

/// Bytes of a GPU that a shot takes at its peak, with what it shares with the others of its plan.
pub fn bytes(c: &Coefficients, shot: &Shot) -> u64 {
    let layout = c.layout.on_gpu();
    let traces = shot.receivers.count(layout.inner) as u64;
    let shared = [c.b.len_in(&layout), c.kappa.len_in(&layout)];
    let picture = shot.snapshot_every.map_or(0, |_| layout.inner.iter().product::<usize>());
    let more = [traces.saturating_mul(rows(shot) as u64), sounding(shot) as u64];
    let shared = shared.map(|len| coefficients(len, c.storage));
    taken(&layout, shared, picture, traces as usize)
        .saturating_add(more.map(granted_values).into_iter().fold(0, u64::saturating_add))
}

/// Values of float32 in whose place so many coefficients are.
fn coefficients(len: usize, storage: Storage) -> usize {
    if storage == Storage::Bits16 { len.div_ceil(2) } else { len }
}

/// Without the record and the wavelet.
fn taken(layout: &Layout, shared: [usize; 2], picture: usize, traces: usize) -> u64 {
    let profiles = 4 * layout.padded.iter().sum::<usize>();
    let fields = Lens::new(layout).all().chain(pass::tables(layout, traces));
    let pieces = fields.chain([profiles, picture]).chain(shared);
    pieces.map(|len| granted_values(len as u64)).fold(SMALL, u64::saturating_add)
}

/// What the GPU takes for so many numbers.
fn granted_values(len: u64) -> u64 {
    allocation_bytes(len.saturating_mul(4)).unwrap_or(u64::MAX)
}

/// Bytes of a GPU that a shot in a model of so many cells along the axes takes, with few receivers.
pub fn bytes_of_cells(n: [usize; 3], pml: usize, storage: Storage) -> u64 {
    let layout = Layout::new(&Grid { n, h: [1.0; 3] }, pml).on_gpu();
    taken(&layout, [coefficients(layout.rows(n[0] * n[1]), storage); 2], 0, 1)
}
