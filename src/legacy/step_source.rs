//! Adds the source of a step to the field before that step's update. The old second-order function
//! records this sum.

use crate::error::Result;
use crate::fd::grid::Grid;
use crate::fd::host_memory::collected;
use crate::fd::inject::DIPOLE;
use crate::fd::survey::{Gather, Shot};

/// Source by time step, for a shot whose wavelet begins one step late.
pub struct StepSource {
    poles: Vec<Pole>,
    /// Amplitude of the source by step.
    values: Vec<f32>,
    record_every: usize,
}

/// A pole of the dipole that is inside the grid.
struct Pole {
    sign: f32,
    /// Index of its cell in a snapshot.
    at: usize,
    /// Traces of the receivers in its cell.
    traces: Vec<usize>,
}

impl StepSource {
    /// Returns the source of a shot.
    ///
    /// # Errors
    /// No memory for the values.
    pub fn new(shot: &Shot, grid: Grid) -> Result<StepSource> {
        let [x, y, z] = shot.source;
        let pole = |(depth, sign): (usize, f32)| {
            let cell = [x, y, z + depth];
            let receivers = shot.receivers.cells(grid.n).enumerate();
            let traces =
                receivers.filter(|(_, receiver)| *receiver == cell).map(|(trace, _)| trace).collect();
            grid.contains(cell).then(|| Pole { sign, at: grid.index(cell), traces })
        };
        let values = shot.wavelet.samples.iter().skip(1).map(|sample| shot.amplitude * sample);
        Ok(StepSource {
            poles: DIPOLE.into_iter().filter_map(pole).collect(),
            values: collected(values, "the source of a shot")?,
            record_every: shot.record_every,
        })
    }

    /// Returns the values of a snapshot that the source of this step changes, with the source
    /// added: the index and the value of each.
    pub fn changed_values<'a>(
        &'a self,
        step: usize,
        field: &'a [f32],
    ) -> impl Iterator<Item = (usize, f32)> + 'a {
        self.poles.iter().map(move |pole| (pole.at, field[pole.at] + pole.sign * self.value(step)))
    }

    /// Adds the source to each recorded sample.
    pub fn add_to_gather(&self, gather: &mut Gather) {
        for pole in &self.poles {
            for trace in &pole.traces {
                let samples = gather.data[trace * gather.samples..][..gather.samples].iter_mut();
                for (number, sample) in samples.enumerate() {
                    *sample += pole.sign * self.value(number * self.record_every);
                }
            }
        }
    }

    fn value(&self, step: usize) -> f32 {
        self.values.get(step).copied().unwrap_or(0.0)
    }
}
