//! The same equation as CUDA kernels (`kernels/acoustic1.cu`): what they are given, and how they are launched.
//!
//! Nothing here knows a GPU: a pointer is a number, a launch is a name with sizes. Whoever has memory and a
//! queue, a driver or a test, uploads what [`Tables`] has, fills [`Params`], and each step launches in this order
//! [`velocity`], [`source`] while the wavelet lasts, [`pressure`], and [`record`] on the steps that keep a sample.
//! All pointers are to index 0 of row 0: [`Layout::lead`] values after where an array begins.

use std::mem::offset_of;

use super::coefficients::Coefficients;
use super::fields::part_lens;
use super::layout::Layout;
use super::source::Source;
use crate::backend::float_mode::FloatMode;
use crate::error::Result;
use crate::fd::stencil::REACH;
use crate::fd::storage::Scale;
use crate::fd::survey::{Receivers, Shot};

/// The kernels as the driver loads them: PTX that any driver from 470 on takes, for any GPU from Kepler on.
pub const PTX: &str = include_str!("../../../../kernels/ptx/acoustic1.ptx");

/// The address of float32 values on a GPU.
pub type Address = u64;

/// What depends on the index along one axis, as `struct Axis` of the kernels.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Axis {
    pub keep: Address,
    pub velocity_rate: Address,
    pub loss: Address,
    pub pressure_rate: Address,
    /// dt / h.
    pub rate: f32,
    /// All cells.
    pub n: i32,
    /// The user's cells.
    pub inner: i32,
    pub unused: i32,
}

/// What every kernel is given first, by value, as `struct Acoustic1` of the kernels.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Params {
    pub p: Address,
    pub velocity: [Address; 3],
    /// Of the pressure, in the absorbing layers of x, y, z. That of z has no lead.
    pub part: [Address; 3],
    pub b: Address,
    pub kappa: Address,
    pub b_step: [i64; 2],
    pub kappa_step: [i64; 2],
    /// Values from row to row along x.
    pub pitch: i64,
    /// And along y.
    pub plane: i64,
    pub axis: [Axis; 3],
    pub pml: i32,
    /// Along y that a block marches over.
    pub planes: i32,
    /// Coefficients of the derivative.
    pub stencil: [f32; REACH],
}

/// What a unit of the wavelet adds to one cell of one velocity, as `struct Term` of the kernels.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Term {
    /// Position after index 0 of row 0.
    pub at: i64,
    pub factor: [f32; 2],
    pub axis: i32,
    /// How many of the factors count, added one after the other.
    pub count: i32,
}

// As the kernels assert them.
const _: () = {
    assert!(size_of::<Axis>() == 48 && size_of::<Params>() == 288 && size_of::<Term>() == 24);
    assert!(offset_of!(Axis, rate) == 32 && offset_of!(Axis, inner) == 40 && offset_of!(Term, axis) == 16);
    assert!(offset_of!(Params, b) == 56 && offset_of!(Params, pitch) == 104);
    assert!(offset_of!(Params, axis) == 120 && offset_of!(Params, planes) == 268);
    assert!(offset_of!(Params, stencil) == 272);
};

/// How a kernel is launched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Launch {
    pub kernel: &'static str,
    /// Blocks along x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
}

/// Cells along z and along x of a block of the sweeps.
const TILE: [usize; 2] = [32, 8];
/// Threads of a block where they are in a line.
const LINE: usize = 256;
/// Planes that a block of a sweep marches over: many, so that little is loaded twice, unless the GPU would idle.
const PLANES: std::ops::RangeInclusive<usize> = 8..=64;
/// Planes that a block of `snapshot` and `peak` takes one after the other.
const DEPTH: usize = 16;

/// What is the same for all shots of a plan, as it is uploaded once a GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Tables {
    pub layout: Layout,
    /// For x, y, z one after the other: keep, velocity rate, loss, pressure rate.
    pub profiles: Vec<f32>,
    b_step: [usize; 2],
    kappa_step: [usize; 2],
    rates: [f32; 3],
    /// Of 1/rho and of kappa, if they are kept in 16 bits.
    pub scales: Option<[Scale; 2]>,
    pub stencil: [f32; REACH],
}

/// Where the arrays of a shot and of its plan begin on a GPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Addresses {
    /// [`Tables::field_len`] zeros each.
    pub p: Address,
    pub velocity: [Address; 3],
    /// [`Tables::part_lens`] zeros.
    pub part: [Address; 3],
    pub b: Address,
    pub kappa: Address,
    pub profiles: Address,
}

impl Tables {
    pub fn new(c: &Coefficients) -> Tables {
        let layout = c.layout.on_gpu();
        let profiles = c.axes.iter().flat_map(|axis| {
            [&axis.keep, &axis.velocity_rate, &axis.loss, &axis.pressure_rate].into_iter().flatten().copied()
        });
        let rates = [0, 1, 2].map(|axis| c.axes[axis].rate);
        let [b_step, kappa_step] = [&c.b, &c.kappa].map(|columns| columns.steps(layout.pitch));
        let scales = c.b.scale().zip(c.kappa.scale()).map(|(b, kappa)| [b, kappa]);
        let (profiles, stencil) = (profiles.collect(), c.stencil);
        Tables { layout, profiles, b_step, kappa_step, rates, scales, stencil }
    }

    /// Of the same coefficients, as it lies on a GPU: rows with a lead.
    pub fn b(&self, c: &Coefficients) -> Result<Vec<f32>> {
        c.b.copied(&c.layout, &self.layout)
    }

    /// And this.
    pub fn kappa(&self, c: &Coefficients) -> Result<Vec<f32>> {
        c.kappa.copied(&c.layout, &self.layout)
    }

    /// The same as the numbers that [`Tables::scales`] gives a meaning, for the kernel that takes these.
    pub fn b_numbers(&self, c: &Coefficients) -> Result<Vec<u16>> {
        c.b.numbers(&c.layout, &self.layout)
    }

    /// And this.
    pub fn kappa_numbers(&self, c: &Coefficients) -> Result<Vec<u16>> {
        c.kappa.numbers(&c.layout, &self.layout)
    }

    /// Values of a field over the padded grid.
    pub fn field_len(&self) -> usize {
        self.layout.field_len()
    }

    /// Values of the damped parts of the pressure.
    pub fn part_lens(&self) -> [usize; 3] {
        part_lens(&self.layout)
    }

    /// How many planes a block of a sweep best marches over on a GPU that runs `blocks_at_once` of them: as
    /// many as leave each place on the GPU four blocks to run.
    pub fn planes(&self, blocks_at_once: usize) -> usize {
        let active = |axis: usize| self.layout.active(axis).len();
        let tiles = active(2).div_ceil(TILE[0]) * active(0).div_ceil(TILE[1]);
        let wanted = blocks_at_once.saturating_mul(4).div_ceil(tiles).max(1);
        (active(1) / wanted).clamp(*PLANES.start(), *PLANES.end())
    }

    /// What depends on one index only, with the profiles from there on.
    pub fn axes(&self, profiles: Address) -> [Axis; 3] {
        let mut profile = profiles;
        [0, 1, 2].map(|axis| {
            let n = self.layout.padded[axis];
            let mut next = || {
                profile += 4 * n as u64;
                profile - 4 * n as u64
            };
            Axis {
                keep: next(),
                velocity_rate: next(),
                loss: next(),
                pressure_rate: next(),
                rate: self.rates[axis],
                n: n as i32,
                inner: self.layout.inner[axis] as i32,
                unused: 0,
            }
        })
    }

    /// Values from column to column of 1/rho, and of kappa.
    pub fn steps(&self) -> [[usize; 2]; 2] {
        [self.b_step, self.kappa_step]
    }

    /// `planes` is how many planes a block of a sweep marches over.
    pub fn params(&self, at: &Addresses, planes: usize) -> Params {
        let layout = &self.layout;
        let first = |array: Address| array + 4 * layout.lead as u64;
        let axis = self.axes(at.profiles);
        let [x, y, z] = at.part;
        Params {
            p: first(at.p),
            velocity: at.velocity.map(first),
            part: [first(x), first(y), z],
            b: first(at.b),
            kappa: first(at.kappa),
            b_step: self.b_step.map(|step| step as i64),
            kappa_step: self.kappa_step.map(|step| step as i64),
            pitch: layout.pitch as i64,
            plane: layout.stride(1) as i64,
            axis,
            pml: layout.pml as i32,
            planes: planes.max(1) as i32,
            stencil: self.stencil,
        }
    }

    /// Positions of the receivers after index 0 of row 0, in the order of the traces.
    pub fn receivers(&self, receivers: &Receivers) -> Vec<i64> {
        let layout = &self.layout;
        let at = |cell: [usize; 3]| (layout.at(cell.map(|i| i + layout.pml)) - layout.lead) as i64;
        receivers.cells(layout.inner).map(at).collect()
    }

    /// What a source at the user's cell `at` adds, each cell of a velocity once.
    pub fn source(&self, c: &Coefficients, at: [usize; 3]) -> Vec<Term> {
        let mut terms: Vec<Term> = Vec::new();
        for &(axis, at, factor) in Source::laid_out(c, &self.layout, at).terms() {
            let (axis, at) = (axis as i32, (at - self.layout.lead) as i64);
            // Poles are two: no cell gets more than two factors.
            match terms.iter_mut().find(|term| (term.axis, term.at) == (axis, at)) {
                Some(term) => {
                    term.factor[1] = factor;
                    term.count = 2;
                }
                None => terms.push(Term { at, factor: [factor, 0.0], axis, count: 1 }),
            }
        }
        terms
    }
}

/// Returns the amplitude times the wavelet for the steps of a shot that have a source. Denormal numbers
/// are flushed, as in a step on the CPU, which multiplies the two itself.
pub fn source_pressures(shot: &Shot) -> Vec<f32> {
    let _mode = FloatMode::flushing();
    let samples = shot.wavelet.samples.iter().take(shot.nt);
    samples.map(|sample| shot.amplitude * sample).collect()
}

fn blocks(cells: usize, each: usize) -> u32 {
    cells.div_ceil(each.max(1)) as u32
}

fn sweep(kernel: &'static str, params: &Params) -> Launch {
    let active = |axis: usize| params.axis[axis].n as usize - 2 * REACH;
    let grid =
        [blocks(active(2), TILE[0]), blocks(active(0), TILE[1]), blocks(active(1), params.planes as usize)];
    Launch { kernel, grid, block: [TILE[0] as u32, TILE[1] as u32, 1] }
}

fn line(kernel: &'static str, count: usize) -> Launch {
    Launch { kernel, grid: [blocks(count, LINE), 1, 1], block: [LINE as u32, 1, 1] }
}

fn boxed(kernel: &'static str, [nx, ny, nz]: [i32; 3]) -> Launch {
    let grid = [blocks(nz as usize, TILE[0]), blocks(nx as usize, TILE[1]), blocks(ny as usize, DEPTH)];
    Launch { kernel, grid, block: [TILE[0] as u32, TILE[1] as u32, 1] }
}

/// Arguments: the parameters.
pub fn velocity(params: &Params) -> Launch {
    sweep("acoustic1_velocity", params)
}

/// Arguments: the parameters.
pub fn pressure(params: &Params) -> Launch {
    sweep("acoustic1_pressure", params)
}

/// Arguments: the parameters, the address of the terms, their number as `i32`, the address of amplitude times wavelet.
pub fn source(terms: usize) -> Launch {
    line("acoustic1_source", terms)
}

/// Arguments: the parameters, the address of the receivers' positions, their number as `i32`, the address of
/// the row that their pressures go to.
pub fn record(receivers: usize) -> Launch {
    line("acoustic1_record", receivers)
}

/// Arguments: the parameters, the address of the user's cells.
pub fn snapshot(params: &Params) -> Launch {
    boxed("acoustic1_snapshot", params.axis.map(|axis| axis.inner))
}

/// Arguments: the parameters, the address of a `u32` that was set to zero: then the bits of the largest
/// magnitude, those of infinity or more if a value is not finite.
pub fn peak(params: &Params) -> Launch {
    boxed("acoustic1_peak", params.axis.map(|axis| axis.n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fd::grid::Grid;
    use crate::fd::model::Model;
    use crate::fd::wavelet::Wavelet;

    fn coefficients(n: [usize; 3], pml: usize) -> Coefficients {
        let grid = Grid { n, h: [10.0; 3] };
        Coefficients::new(&Model::new(grid, vec![2000.0; grid.cells()], None).unwrap(), 1e-3, pml).unwrap()
    }

    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    #[test]
    fn source_pressures_are_flushed() {
        let shot = Shot {
            source: [0; 3],
            wavelet: Wavelet { samples: vec![1e-20, -1e-20, 1e-40, 0.5, 1.0] },
            amplitude: 1e-20,
            nt: 4,
            receivers: Receivers::List(Vec::new()),
            record_every: 1,
            snapshot_every: None,
            mute: None,
        };
        let found: Vec<u32> = source_pressures(&shot).into_iter().map(f32::to_bits).collect();
        assert_eq!(found, [0.0, -0.0, 0.0, 0.5e-20].map(f32::to_bits));
    }

    #[test]
    fn a_source_adds_to_each_updated_cell_once() {
        let c = coefficients([3, 4, 5], 8);
        let tables = Tables::new(&c);
        for (source, lost) in [([0, 0, 0], 0), ([2, 3, 4], 1)] {
            let terms = tables.source(&c, source);
            // 48 taps of two poles; along z the poles are two cells apart, and six of their cells are the same.
            assert_eq!(terms.iter().map(|term| term.count).sum::<i32>(), 48 - lost, "{source:?}");
            assert_eq!(terms.len() as i32, 42 - lost);
            let cells: std::collections::HashSet<_> = terms.iter().map(|term| (term.axis, term.at)).collect();
            assert_eq!(cells.len(), terms.len());
            for term in terms {
                let row = term.at / tables.layout.pitch as i64;
                let nx = tables.layout.padded[0] as i64;
                let cell = [row % nx, row / nx, term.at % tables.layout.pitch as i64];
                for (axis, index) in cell.into_iter().enumerate() {
                    assert!(tables.layout.active(axis).contains(&(index as usize)), "{cell:?}");
                }
            }
        }
    }

    #[test]
    fn a_gpu_is_kept_busy_and_marches_far_if_it_is() {
        let small = Tables::new(&coefficients([4, 4, 4], 8));
        let large = Tables::new(&coefficients([300, 300, 10], 20));
        assert_eq!(small.planes(1000), 8);
        assert_eq!(large.planes(1), 64);
        assert!((8..64).contains(&large.planes(200)));
    }

    /// Along y and z of a launch there are at most 65535 blocks, and along x 2³¹ - 1.
    #[test]
    fn the_largest_grids_have_few_enough_blocks() {
        let at = Addresses { p: 0, velocity: [0; 3], part: [0; 3], b: 0, kappa: 0, profiles: 0 };
        let mut params = Tables::new(&coefficients([4; 3], 8)).params(&at, *PLANES.start());
        // As many cells as a grid may have, with the widest layers.
        for axis in &mut params.axis {
            (axis.n, axis.inner) = (102_000, 100_000);
        }
        for launch in [velocity(&params), pressure(&params), snapshot(&params), peak(&params)] {
            assert!(launch.grid[1].max(launch.grid[2]) <= 65_535, "{launch:?}");
        }
    }
}
