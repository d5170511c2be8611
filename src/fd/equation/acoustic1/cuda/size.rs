//! What fits on a GPU: which form a shot takes there, and how many bytes.

use super::super::coefficients::Coefficients;
use super::super::fields::part_lens;
use super::super::form::Form;
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

/// One pass tells positions apart by 32 bits; what is larger takes two sweeps.
pub fn possible(layout: &Layout, form: Form) -> Form {
    if u32::try_from(layout.field_len()).is_ok() { form } else { Form::TwoSweeps }
}

/// Whether a form's kernels take numbers of 16 bits: two sweeps take what these stand for.
pub fn numbers(layout: &Layout, form: Form, storage: Storage) -> bool {
    possible(layout, form) == Form::OnePass && storage == Storage::Bits16
}

/// Samples of a trace that a leg leaves, at most.
pub fn rows(shot: &Shot) -> usize {
    LEG.div_ceil(shot.record_every).min(shot.samples())
}

/// Steps that have a source.
fn sounding(shot: &Shot) -> usize {
    shot.wavelet.samples.len().min(shot.nt)
}

/// Bytes of a GPU that a shot takes at its peak, with what it shares with the others of its plan.
pub fn bytes(c: &Coefficients, form: Form, shot: &Shot) -> u64 {
    let layout = c.layout.on_gpu();
    let traces = shot.receivers.count(layout.inner) as u64;
    let shared = [c.b.len_in(&layout), c.kappa.len_in(&layout)];
    let picture = shot.snapshot_every.map_or(0, |_| layout.inner.iter().product::<usize>());
    let more = [traces.saturating_mul(rows(shot) as u64), sounding(shot) as u64];
    let shared = shared.map(|len| coefficients(len, &layout, form, c.storage));
    taken(&layout, form, shared, picture, traces as usize)
        .saturating_add(more.map(granted_values).into_iter().fold(0, u64::saturating_add))
}

/// Values of float32 in whose place so many coefficients are.
fn coefficients(len: usize, layout: &Layout, form: Form, storage: Storage) -> usize {
    if numbers(layout, form, storage) { len.div_ceil(2) } else { len }
}

/// Without the record and the wavelet.
fn taken(layout: &Layout, form: Form, shared: [usize; 2], picture: usize, traces: usize) -> u64 {
    let profiles = 4 * layout.padded.iter().sum::<usize>();
    let fields: Vec<usize> = match possible(layout, form) {
        Form::TwoSweeps => {
            let fields = [layout.field_len(); 4].into_iter().chain(part_lens(layout));
            fields.chain([traces.saturating_mul(2)]).collect()
        }
        Form::OnePass => Lens::new(layout).all().chain(pass::tables(layout, traces)).collect(),
    };
    let pieces = fields.into_iter().chain([profiles, picture]).chain(shared);
    pieces.map(|len| granted_values(len as u64)).fold(SMALL, u64::saturating_add)
}

/// What the GPU takes for so many numbers.
fn granted_values(len: u64) -> u64 {
    allocation_bytes(len.saturating_mul(4)).unwrap_or(u64::MAX)
}

/// Bytes of a GPU that a shot in a model of so many cells along the axes takes, with few receivers.
pub fn bytes_of_cells(n: [usize; 3], pml: usize, form: Form, storage: Storage) -> u64 {
    let layout = Layout::new(&Grid { n, h: [1.0; 3] }, pml).on_gpu();
    taken(&layout, form, [coefficients(layout.rows(n[0] * n[1]), &layout, form, storage); 2], 0, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_for_one_pass_takes_two_sweeps() {
        let [one_pass, sweeps] = [Form::OnePass, Form::TwoSweeps]
            .map(|form| [1500, 1700].map(|n| bytes_of_cells([n; 3], 20, form, Storage::Bits16)));
        assert!(one_pass[0] < sweeps[0] && one_pass[1] == sweeps[1], "{one_pass:?}, {sweeps:?}");
    }
}
