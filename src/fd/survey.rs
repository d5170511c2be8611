//! What is to be shot: source, receivers, time axis, snapshots.

use std::time::Duration;

use super::wavelet::Wavelet;

/// Where the pressure is recorded.
#[derive(Debug, Clone, PartialEq)]
pub enum Receivers {
    /// Every `every[0]`-th cell in x and `every[1]`-th in y of the plane at depth index `iz`,
    /// from cell 0; traces in the order `[iy][ix]`.
    Plane { iz: usize, every: [usize; 2] },
    /// Cells (x, y, z), in the order of the traces.
    List(Vec<[usize; 3]>),
}

/// Kind of a source. The order is that of the numbers in C.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceKind {
    /// The source of the old kernels, without a unit: it is added to the pressure of its cell; in `acoustic1` and `acoustic2`
    /// with a negative sign, and to that two cells below with a positive one.
    Pressure,
    /// Injection of a volume, in m³/s.
    Monopole,
    /// Force along an axis, in N, half a cell after the cell of the source.
    ForceX,
    ForceY,
    ForceZ,
    /// A source with a unit as the steps take it: [`source`](super::source).
    Poles(Poles),
}

/// Padded cells to whose increments a source is added, and factors.
#[derive(Debug, Clone, PartialEq)]
pub struct Poles(pub(super) Vec<([usize; 3], f32)>);

impl SourceKind {
    /// The kinds that a caller may choose, by name.
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
    /// Cell of the source.
    pub source: [usize; 3],
    pub kind: SourceKind,
    pub wavelet: Wavelet,
    /// Factor on the wavelet; 10000 in the old kernel. The product has the unit of the source.
    pub amplitude: f32,
    /// Steps to compute.
    pub nt: usize,
    pub receivers: Receivers,
    /// Every how many steps a sample is kept, from step 0.
    pub record_every: usize,
    /// Every how many steps the field over the grid is handed out, from step 0.
    pub snapshot_every: Option<usize>,
    /// Samples of steps before this are set to zero: one step a trace of [`Shot::receivers`].
    pub mute: Option<Vec<u32>>,
}

/// The record of a shot: `[trace][sample]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Gather {
    pub traces: usize,
    pub samples: usize,
    pub data: Vec<f32>,
}

/// What the steps of a shot took, since it began or was resumed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effort {
    /// From when the fields were allocated to the last step.
    pub time: Duration,
    /// The share of the grid's cells that was computed, averaged over the steps. The others were at rest.
    pub computed: f64,
}

impl Receivers {
    /// The receivers' cells in a grid of `n` cells, in the order of the traces.
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

    /// How many traces they give in a grid of `n` cells.
    pub fn count(&self, n: [usize; 3]) -> usize {
        match self {
            Receivers::Plane { every, .. } => n[0].div_ceil(every[0].max(1)) * n[1].div_ceil(every[1].max(1)),
            Receivers::List(cells) => cells.len(),
        }
    }
}

impl Default for Shot {
    /// A step without source and receivers.
    fn default() -> Shot {
        Shot {
            source: [0; 3],
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

impl Shot {
    /// Samples of each trace.
    pub fn samples(&self) -> usize {
        self.nt.div_ceil(self.record_every.max(1))
    }
}
