//! Source, receivers, time axis and snapshots of a shot; its gather.

use std::time::Duration;

use super::host_memory::collected;
use super::wavelet::Wavelet;
use crate::error::Result;

/// Cells in which the pressure is recorded.
#[derive(Debug, Clone, PartialEq)]
pub enum Receivers {
    /// Every `every[0]`-th cell in x and `every[1]`-th in y of the plane at depth index `iz`,
    /// from cell 0; traces in the order `[iy][ix]`.
    Plane { iz: usize, every: [usize; 2] },
    /// Cells (x, y, z), in the order of the traces.
    List(Vec<[usize; 3]>),
}

/// Kind of a source. The order is that of the numbers in C.
#[derive(Debug, Default, Clone, PartialEq)]
pub enum SourceKind {
    /// Source of the old kernels, without a unit: its samples are added to the pressure of its
    /// cell. In `acoustic1` and `acoustic2` it is a dipole: with a negative sign in its cell, and
    /// with a positive one two cells below.
    #[default]
    Pressure,
    /// Injection rate of volume, in m³/s.
    Monopole,
    /// Force along an axis, in N, half a cell after the cell of the source.
    ForceX,
    ForceY,
    ForceZ,
    /// Poles of a source with a unit, as the time steps inject it: see [`source`](super::source).
    Poles(Poles),
}

/// Padded cells whose increments a source is added to, each with its factor.
#[derive(Debug, Clone, PartialEq)]
pub struct Poles(pub(super) Vec<([usize; 3], f32)>);

impl SourceKind {
    /// Kinds that a caller may choose, by name.
    pub const NAMED: [(&str, SourceKind); 5] = [
        ("pressure", SourceKind::Pressure),
        ("monopole", SourceKind::Monopole),
        ("force-x", SourceKind::ForceX),
        ("force-y", SourceKind::ForceY),
        ("force-z", SourceKind::ForceZ),
    ];

    pub fn name(&self) -> &'static str {
        SourceKind::NAMED.iter().find(|(_, kind)| kind == self).map_or("poles", |(name, _)| name)
    }
}

/// One shot. Cells are counted from 0 in the model's grid.
#[derive(Debug, Clone, PartialEq)]
pub struct Shot {
    /// Cell of the source; for a source in the absorbing layer, the nearest cell of the grid.
    pub source: [usize; 3],
    /// Cells from `source` to a source in the absorbing layer, along x, y and z; zeros for a source
    /// in the grid.
    pub outside: [isize; 3],
    pub kind: SourceKind,
    pub wavelet: Wavelet,
    /// Factor on the wavelet; 10000 in the old kernel. The product has the unit of the source.
    pub amplitude: f32,
    /// Number of steps.
    pub nt: usize,
    pub receivers: Receivers,
    /// Interval between samples in steps; the first sample is that of step 0.
    pub record_every: usize,
    /// Interval between snapshots of the pressure over the model's grid, in steps; the first is
    /// that of step 0.
    pub snapshot_every: Option<usize>,
    /// For each trace of [`Shot::receivers`], the step before which all samples are set to zero.
    pub mute: Option<Vec<u32>>,
}

/// The record of a shot: `[trace][sample]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Gather {
    pub traces: usize,
    pub samples: usize,
    pub data: Vec<f32>,
}

/// Cost of the steps of a shot, since it began or was resumed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effort {
    /// Time from the allocation of the fields to the last step.
    pub time: Duration,
    /// Share of the updated cells that the steps have computed. The others were at rest. GPUs
    /// compute larger parts of the grid than CPUs.
    pub computed: f64,
}

impl Receivers {
    /// Returns the receivers' cells in a grid of `n` cells, in the order of the traces.
    pub fn cells(&self, n: [usize; 3]) -> Box<dyn Iterator<Item = [usize; 3]> + '_> {
        match self {
            Receivers::Plane { iz, every } => {
                let (iz, every) = (*iz, every.map(|e| e.max(1)));
                let row = move |iy| (0..n[0]).step_by(every[0]).map(move |ix| [ix, iy, iz]);
                Box::new((0..n[1]).step_by(every[1]).flat_map(row))
            }
            Receivers::List(cells) => Box::new(cells.iter().copied()),
        }
    }

    /// Returns the number of traces in a grid of `n` cells.
    pub fn count(&self, n: [usize; 3]) -> usize {
        match self {
            Receivers::Plane { every, .. } => n[0].div_ceil(every[0].max(1)) * n[1].div_ceil(every[1].max(1)),
            Receivers::List(cells) => cells.len(),
        }
    }
}

impl Shot {
    /// Returns a shot with another source and number of steps, and without the mute.
    ///
    /// # Errors
    /// No memory for the list of receivers.
    pub(super) fn with_source(&self, kind: SourceKind, wavelet: Wavelet, nt: usize) -> Result<Shot> {
        let receivers = match &self.receivers {
            Receivers::List(cells) => {
                Receivers::List(collected(cells.iter().copied(), "the receivers of a shot")?)
            }
            Receivers::Plane { iz, every } => Receivers::Plane { iz: *iz, every: *every },
        };
        Ok(Shot { kind, wavelet, nt, receivers, mute: None, ..*self })
    }

    /// Returns the number of samples of each trace.
    pub fn samples(&self) -> usize {
        self.nt.div_ceil(self.record_every.max(1))
    }

    /// Returns the padded indices of the source's cell. `pml`: cells of the absorbing layer.
    pub fn padded_source(&self, pml: usize) -> [usize; 3] {
        std::array::from_fn(|axis| (self.source[axis] + pml).saturating_add_signed(self.outside[axis]))
    }
}

impl Default for Shot {
    /// Returns a shot of one step, without samples of a source and without receivers.
    fn default() -> Shot {
        Shot {
            source: [0; 3],
            outside: [0; 3],
            kind: SourceKind::Pressure,
            wavelet: Wavelet { samples: Vec::new() },
            amplitude: 1.0,
            nt: 1,
            receivers: Receivers::List(Vec::new()),
            record_every: 1,
            snapshot_every: None,
            mute: None,
        }
    }
}
