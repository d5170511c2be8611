//! Results of a shot: samples at the receivers, and the field for a snapshot.

use std::ops::Range;

use super::grid::layout::Layout;
use super::host_memory::{filled, reserved};
use super::survey::{Gather, Shot};
use crate::backend::cpu::{Buffer, Rows};
use crate::error::Result;

/// Samples of each trace that are collected before they are copied to the traces. So a step writes
/// neighbouring traces side by side and not each into a page of its own.
const BATCH: usize = 16;

pub struct Record {
    pub gather: Gather,
    /// Buffer of a snapshot; empty if the shot takes none.
    pub picture: Vec<f32>,
    /// Position of each receiver in the padded field.
    receivers: Vec<usize>,
    every: usize,
    /// `[sample in batch][trace]`.
    batch: Buffer,
}

/// The record, shared by the members of a team; each member writes its own traces.
#[derive(Clone, Copy)]
pub struct SharedRecord<'a> {
    receivers: &'a [usize],
    every: usize,
    samples: usize,
    batch: Rows<'a>,
    data: Rows<'a>,
}

impl Record {
    pub fn new(layout: &Layout, shot: &Shot) -> Result<Self> {
        let (traces, samples) = (shot.receivers.count(layout.inner), shot.samples());
        let cells = shot.receivers.cells(layout.inner);
        let mut receivers = reserved(traces, "the receivers of a shot")?;
        receivers.extend(cells.map(|cell| layout.at(cell.map(|i| i + layout.pml))));
        let data = filled(traces.saturating_mul(samples), 0.0, "the record of a shot")?;
        let batch = Buffer::zeroed(BATCH * traces, "the record of a shot")?;
        let picture = filled(snapshot_cells(layout, shot), 0.0, "a snapshot of a shot")?;
        let (gather, every) = (Gather { traces, samples, data }, shot.record_every);
        Ok(Record { gather, picture, receivers, every, batch })
    }

    /// Restores the current batch after the gather of a resumed shot has been loaded, which holds
    /// the samples of `steps` steps.
    pub fn refill(&mut self, steps: usize) {
        let taken = steps.div_ceil(self.every);
        let traces = self.receivers.len();
        let first = taken.saturating_sub(1) / BATCH * BATCH;
        for (trace, data) in self.gather.data.chunks_exact(self.gather.samples.max(1)).enumerate() {
            for (slot, value) in data[first..taken].iter().enumerate() {
                self.batch[slot * traces + trace] = *value;
            }
        }
    }

    /// Returns the bytes that [`Record::new`] allocates for a shot of `nt` steps.
    pub fn bytes(layout: &Layout, shot: &Shot, nt: usize) -> u64 {
        let traces = shot.receivers.count(layout.inner) as u64;
        let batch = traces.saturating_mul(4 * BATCH as u64 + size_of::<usize>() as u64);
        let picture = 4 * snapshot_cells(layout, shot) as u64;
        Record::gather_bytes(layout, shot, nt).saturating_add(batch).saturating_add(picture)
    }

    /// Returns the bytes of the gather, a part of [`Record::bytes`].
    pub fn gather_bytes(layout: &Layout, shot: &Shot, nt: usize) -> u64 {
        let traces = shot.receivers.count(layout.inner) as u64;
        traces.saturating_mul(4).saturating_mul(nt.div_ceil(shot.record_every.max(1)) as u64)
    }

    pub fn shared(&mut self) -> SharedRecord<'_> {
        SharedRecord {
            receivers: &self.receivers,
            every: self.every,
            samples: self.gather.samples,
            batch: self.batch.rows(),
            data: Rows::over(&mut self.gather.data),
        }
    }
}

impl SharedRecord<'_> {
    pub fn traces(&self) -> usize {
        self.receivers.len()
    }

    /// Records the samples of a step for some of the traces. `last`: it is the last step of the
    /// shot, after which a batch that is not full is copied to the traces, too.
    ///
    /// # Safety
    /// `p` has the record's layout. No other thread writes `p` or uses these traces meanwhile.
    pub unsafe fn take(&self, p: Rows<'_>, traces: Range<usize>, step: usize, last: bool) {
        let sample = step / self.every;
        let slot = sample % BATCH;
        let (first, count) = (traces.start, traces.len());
        if step.is_multiple_of(self.every) {
            // SAFETY: one row of the batch; the receivers are within the field.
            let to = unsafe { self.batch.write(slot * self.traces() + first, count) };
            for (to, &at) in to.iter_mut().zip(&self.receivers[traces]) {
                // SAFETY: as above.
                *to = unsafe { p.read(at, 1)[0] };
            }
        }
        // After the last step of a full batch, or of all.
        let full = slot + 1 == BATCH && (step + 1).is_multiple_of(self.every);
        if full || last {
            for trace in first..first + count {
                // SAFETY: a part of one trace, and the same trace's samples of the batch.
                unsafe {
                    let to = self.data.write(trace * self.samples + sample - slot, slot + 1);
                    for (k, to) in to.iter_mut().enumerate() {
                        *to = self.batch.read(k * self.traces() + trace, 1)[0];
                    }
                }
            }
        }
    }
}

/// Returns the number of values of a shot's snapshot; 0 if it takes none.
pub fn snapshot_cells(layout: &Layout, shot: &Shot) -> usize {
    shot.snapshot_every.map_or(0, |_| layout.inner.iter().product())
}

/// Copies the user's cells of a field over the padded grid to `to`, `[iy][ix][iz]`.
///
/// # Safety
/// `field` has this layout, and no other thread writes it meanwhile.
pub unsafe fn snapshot(layout: &Layout, field: Rows<'_>, to: &mut [f32]) {
    let [nx, _, nz] = layout.inner;
    for (column, to) in to.chunks_exact_mut(nz).enumerate() {
        let cell = [column % nx, column / nx, 0].map(|i| i + layout.pml);
        // SAFETY: a row of the user's grid is within the field.
        to.copy_from_slice(unsafe { field.read(layout.at(cell), nz) });
    }
}
