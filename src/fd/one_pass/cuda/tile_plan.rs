//! The tiles of a plan's grid, and the launches over them.
//!
//! Nothing here knows a GPU. Each step is one launch of [`TilePlan::step`]; before a step whose
//! source is not yet in the pressures comes [`TilePlan::source`]. Steps read and write two sets of
//! fields in turns.

use super::kernel_set::KernelSet;
use super::params::{CubeParams, StepParams, Zone};
use super::tables::{COEFFICIENTS, Tables};
use crate::error::{Error, Result};
use crate::fd::grid::layout::Layout;
use crate::fd::grid::tile_table::{self, TileTable};
use crate::fd::grid::zones::Zones;
use crate::fd::survey::Receivers;
use crate::fd::time_loop::block_shape::BlockShape;
use crate::fd::time_loop::launch::{Address, Launch};

/// Addresses of the arrays of a shot on a GPU: [`Lens::all`] zeros.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FieldAddresses {
    /// Of each pressure.
    pub p: [[Address; 2]; 2],
    pub d: [Address; 2],
    pub velocity: [[Address; 2]; 3],
    pub split: [Address; 3],
    /// Four values: the pressures at the source's points without the source.
    pub clean: Address,
}

/// Addresses of the arrays of a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlanAddresses {
    pub coefficients: [Address; COEFFICIENTS],
    pub profiles: Address,
    pub tiles: Address,
}

/// The data that all shots of a plan on a kind of GPU share.
#[derive(Clone)]
pub struct TilePlan {
    pub kernels: &'static KernelSet,
    pub shape: BlockShape,
    pub table: TileTable,
    pressures: usize,
    zones: [Zones; 3],
    layout: Layout,
}

/// The number of values of a shot's arrays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lens {
    pressures: usize,
    pub field: usize,
    pub velocity: [usize; 3],
    pub split: [usize; 3],
}

/// Returns the number of velocities of a row along z.
fn slots(zones: &Zones) -> usize {
    zones.velocities().next_multiple_of(8)
}

impl Lens {
    /// `layout`: that of a GPU.
    pub fn new(layout: &Layout, pressures: usize) -> Lens {
        let [x, y, z] = [0, 1, 2].map(|axis| Zones::new(layout, axis));
        let [nx, ny, _] = layout.padded;
        Lens {
            pressures,
            field: layout.field_len(),
            velocity: [
                layout.rows(ny * x.velocities()),
                layout.rows(y.velocities() * nx),
                ny * nx * slots(&z),
            ],
            split: layout.split_lens(),
        }
    }

    /// Returns the lengths of all arrays: each pressure twice, increments, both steps' velocities,
    /// split pressures, pressures without the source.
    pub fn all(self) -> impl Iterator<Item = usize> {
        let fields = std::iter::repeat_n(self.field, self.fields());
        let twice = self.velocity.into_iter().flat_map(|len| [len, len]);
        fields.chain(twice).chain(self.split).chain([4])
    }

    /// Returns the number of pressures and increments, the first arrays.
    pub fn fields(self) -> usize {
        3 * self.pressures
    }
}

impl FieldAddresses {
    /// `all`: the addresses of [`Lens::all`].
    pub fn new(pressures: usize, all: &[Address]) -> FieldAddresses {
        let (fields, others) = all.split_at(3 * pressures);
        let of = |number: usize| if number < pressures { number } else { 0 };
        FieldAddresses {
            p: [0, 1].map(|number| [0, 1].map(|from| fields[2 * of(number) + from])),
            d: [0, 1].map(|number| fields[2 * pressures + of(number)]),
            velocity: [0, 2, 4].map(|first| [others[first], others[first + 1]]),
            split: [6, 7, 8].map(|number| others[number]),
            clean: others[9],
        }
    }
}

/// Returns the most tiles of a shape's table.
pub fn most_tiles(layout: &Layout, shape: BlockShape) -> usize {
    tile_table::most(layout, shape.warps * shape.rows)
}

impl TilePlan {
    /// For a GPU that runs `at_once` blocks of the shape at a time.
    ///
    /// # Errors
    /// A field of more values than positions of 32 bits tell apart.
    pub fn new(tables: &Tables, shape: BlockShape, at_once: usize) -> Result<TilePlan> {
        let (kernels, pressures, layout) = (tables.kernels, tables.pressures, tables.layout);
        if u32::try_from(layout.field_len()).is_err() {
            let accepted = format!("at most {} on a GPU", u32::MAX);
            return Err(Error::argument("the number of cells, layers included", layout.cells(), accepted));
        }
        let zones = [0, 1, 2].map(|axis| Zones::new(&layout, axis));
        let table = TileTable::new(&layout, &zones, shape.warps * shape.rows, at_once);
        Ok(TilePlan { kernels, shape, table, pressures, zones, layout })
    }

    pub fn lens(&self) -> Lens {
        Lens::new(&self.layout, self.pressures)
    }

    /// Returns the parameters of the steps that read the first set of pressures, and of those that
    /// read the second.
    pub fn params(
        &self,
        tables: &Tables,
        plan: &PlanAddresses,
        fields: &FieldAddresses,
        cube: CubeParams,
    ) -> [StepParams; 2] {
        let layout = &self.layout;
        let first = |array: Address| array + 4 * layout.lead as u64;
        let coefficient = |array: Address| array + (tables.storage.bytes() * layout.lead) as u64;
        let [x, y, z] = fields.split;
        let zone = |axis: usize| {
            let Zones { middle, near, far, .. } = &self.zones[axis];
            let middle = [middle.start, middle.end].map(|i| i as i32);
            Zone { middle, near_end: near.end as i32, far_begin: far.start as i32 }
        };
        [0, 1].map(|from: usize| {
            let velocity = |from: usize| {
                let [x, y, z] = fields.velocity.map(|both| both[from]);
                [first(x), first(y), z]
            };
            StepParams {
                p: fields.p.map(|both| first(both[from])),
                next: fields.p.map(|both| first(both[1 - from])),
                d: fields.d.map(first),
                velocity_old: velocity(from),
                velocity_new: velocity(1 - from),
                split: [first(x), first(y), z],
                coefficients: plan.coefficients.map(coefficient),
                axis: tables.axes(plan.profiles),
                zone: [zone(0), zone(1), zone(2)],
                tiles: plan.tiles,
                steps: tables.steps.map(|both| both.map(|step| step as u32)),
                pitch: layout.pitch as u32,
                plane: layout.stride(1) as u32,
                slots: [self.zones[0].velocities() as u32, slots(&self.zones[2]) as u32],
                pml: layout.pml as i32,
                unused: 0,
                stencil: tables.stencil,
                scales: tables.scales,
                cube,
            }
        })
    }

    /// Returns the receivers tile by tile: the first of each tile, positions after index 0 of row 0, and
    /// numbers of traces.
    pub fn receivers(&self, receivers: &Receivers) -> (Vec<i32>, Vec<u32>, Vec<i32>) {
        let layout = &self.layout;
        let place = |(trace, cell): (usize, [usize; 3])| {
            let cell = cell.map(|i| i + layout.pml);
            let at = (layout.at(cell) - layout.lead) as u32;
            (self.table.of(cell).unwrap_or(0), at, trace as i32)
        };
        let mut all: Vec<_> = receivers.cells(layout.inner).enumerate().map(place).collect();
        all.sort_unstable_by_key(|(tile, _, trace)| (*tile, *trace));
        let before = |number: usize| all.partition_point(|(tile, ..)| *tile < number) as i32;
        let first = (0..=self.table.tiles.len()).map(before).collect();
        (first, all.iter().map(|(_, at, _)| *at).collect(), all.iter().map(|(.., trace)| *trace).collect())
    }

    /// Arguments: the parameters of the step, its source, its samples.
    pub fn step(&self) -> Launch {
        let block = [32, self.shape.warps as u32, 1];
        let kernel = self.kernels.kernel(self.shape);
        Launch { kernel, grid: [self.table.tiles.len() as u32, 1, 1], block }
    }

    /// Arguments: the parameters of the step before, and its source.
    pub fn source(&self) -> Launch {
        Launch { kernel: self.kernels.source, grid: [1, 1, 1], block: [2, 1, 1] }
    }
}
