//! A step in one pass as a CUDA kernel (`kernels/acoustic1_one_pass.cu`): what it is given, and how it is launched.
//!
//! As in [`kernel`](super::tables), nothing here knows a GPU. Each step is one launch of [`step`]; before a step whose
//! source is not yet in the pressure comes [`source`]. Steps read and write two sets of fields in turns.

use std::collections::HashMap;
use std::mem::offset_of;
use std::sync::LazyLock;

use miniz_oxide::inflate::decompress_to_vec_zlib;

use super::tables::{AxisParams, Tables};
use crate::error::{Error, Result};
use crate::fd::grid::layout::Layout;
pub use crate::fd::grid::tile_table::GpuTile;
use crate::fd::grid::tile_table::{self, TileTable};
use crate::fd::grid::zones::Zones;
use crate::fd::one_pass::coefficients::Coefficients;
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::storage::Scale;
use crate::fd::survey::{Receivers, Shot};
use crate::fd::time_loop::block_shape::BlockShape;
use crate::fd::time_loop::launch::{Address, Launch};

/// All kernels: those for all GPUs, and those for GPUs of compute capability 8.0 and higher. Their texts are large, so
/// `build.rs` has packed them.
pub fn texts() -> [String; 2] {
    let packed: [&[u8]; 2] = [
        include_bytes!(concat!(env!("OUT_DIR"), "/acoustic1_one_pass.ptx.z")),
        include_bytes!(concat!(env!("OUT_DIR"), "/acoustic1_one_pass_80.ptx.z")),
    ];
    packed.map(|packed| {
        let text = decompress_to_vec_zlib(packed).ok();
        text.and_then(|text| String::from_utf8(text).ok()).unwrap_or_default()
    })
}

/// A kernel as the driver loads it: by itself, as a driver compiles all that it is given.
pub fn alone(kernel: &str) -> &'static str {
    static TEXTS: LazyLock<HashMap<String, String>> =
        LazyLock::new(|| texts().iter().flat_map(|text| split(text)).collect());
    TEXTS.get(kernel).map_or("", String::as_str)
}

/// Each kernel's text, by name: what stands before the first, and the kernel.
fn split(ptx: &str) -> HashMap<String, String> {
    const ENTRY: &str = "\n.visible .entry ";
    let mut parts = ptx.split(ENTRY);
    let head = parts.next().unwrap_or_default();
    let named = |split: &str| Some((split.split_once('(')?.0.to_owned(), [head, ENTRY, split].concat()));
    parts.filter_map(named).collect()
}

/// Returns the name of the kernel of a shape.
pub fn kernel_of(shape: BlockShape) -> &'static str {
    match shape.name {
        "4x4" => "acoustic1_one_pass_4x4",
        "4x2_async" => "acoustic1_one_pass_4x2_async",
        "4x2_16_bit" => "acoustic1_one_pass_4x2_16_bit",
        _ => "acoustic1_one_pass_4x2",
    }
}

/// Of an axis, as `struct Zone` of the kernels.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Zone {
    pub middle: [i32; 2],
    pub near_end: i32,
    pub far_begin: i32,
}

/// What a step is given first, by value, as `struct OnePass` of the kernels.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepParams {
    pub p: Address,
    pub next: Address,
    pub d: Address,
    pub velocity_old: [Address; 3],
    pub velocity_new: [Address; 3],
    pub split: [Address; 3],
    pub b: Address,
    pub kappa: Address,
    pub axis: [AxisParams; 3],
    pub zone: [Zone; 3],
    pub tiles: Address,
    pub b_step: [u32; 2],
    pub kappa_step: [u32; 2],
    pub pitch: u32,
    pub plane: u32,
    pub slots: [u32; 2],
    pub pml: i32,
    pub unused: i32,
    /// Coefficients of the derivative.
    pub stencil: [f32; HALF_WIDTH],
    /// What 16 bits stand for.
    pub b_scale: Scale,
    pub kappa_scale: Scale,
}

/// And then, as `struct Source`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SourceParams {
    pub clean: Address,
    pub next_clean: Address,
    pub value: Address,
    pub cell: [i32; 3],
    pub there: i32,
    pub put: i32,
    pub unused: i32,
}

/// And last, as `struct Receivers`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampleParams {
    pub first: Address,
    pub at: Address,
    pub trace: Address,
    /// 0 if none are taken.
    pub to: Address,
}

// As the kernels assert them.
const _: () = {
    assert!(size_of::<Zone>() == 16 && size_of::<GpuTile>() == 32 && size_of::<StepParams>() == 384);
    assert!(size_of::<SourceParams>() == 48 && size_of::<SampleParams>() == 32);
    assert!(offset_of!(StepParams, axis) == 112 && offset_of!(StepParams, tiles) == 304);
    assert!(
        offset_of!(StepParams, slots) == 336
            && offset_of!(StepParams, stencil) == 352
            && offset_of!(StepParams, b_scale) == 368
            && offset_of!(SourceParams, put) == 40
    );
};

/// Where the arrays of a shot begin on a GPU: [`TilePlan::lens`] zeros each.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FieldAddresses {
    pub p: [Address; 2],
    pub d: Address,
    pub velocity: [[Address; 2]; 3],
    pub split: [Address; 3],
    /// Four values: the pressures at the poles without the source.
    pub clean: Address,
}

/// Where those of its plan do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlanAddresses {
    pub b: Address,
    pub kappa: Address,
    pub profiles: Address,
    pub tiles: Address,
}

/// What is the same for all shots of a plan on a kind of GPU.
#[derive(Debug, Clone)]
pub struct TilePlan {
    pub shape: BlockShape,
    pub table: TileTable,
    zones: [Zones; 3],
    layout: Layout,
}

/// How many values there are of a shot's arrays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lens {
    pub field: usize,
    pub velocity: [usize; 3],
    pub split: [usize; 3],
}

/// Velocities of a row along z.
fn slots(zones: &Zones) -> usize {
    zones.velocities().next_multiple_of(8)
}

impl Lens {
    /// In the layout of a GPU.
    pub fn new(layout: &Layout) -> Lens {
        let [x, y, z] = [0, 1, 2].map(|axis| Zones::new(layout, axis));
        let [nx, ny, _] = layout.padded;
        Lens {
            field: layout.field_len(),
            velocity: [
                layout.rows(ny * x.velocities()),
                layout.rows(y.velocities() * nx),
                ny * nx * slots(&z),
            ],
            split: layout.split_lens(),
        }
    }

    /// All of a shot: two pressures, what was added, both steps' velocities, split pressures.
    pub fn all(self) -> impl Iterator<Item = usize> {
        let twice = self.velocity.into_iter().flat_map(|len| [len, len]);
        [self.field; 3].into_iter().chain(twice).chain(self.split)
    }
}

/// TileTable of a shape's table, at most.
pub fn most_tiles(layout: &Layout, shape: BlockShape) -> usize {
    tile_table::most(layout, shape.warps * shape.rows)
}

impl TilePlan {
    /// For a GPU that runs `at_once` blocks of the shape at a time.
    ///
    /// Refused: a field of more values than positions of 32 bits tell apart.
    pub fn new(tables: &Tables, shape: BlockShape, at_once: usize) -> Result<TilePlan> {
        let layout = tables.layout;
        if u32::try_from(layout.field_len()).is_err() {
            let accepted = format!("at most {} on a GPU", u32::MAX);
            return Err(Error::argument("the number of cells, layers included", layout.cells(), accepted));
        }
        let zones = [0, 1, 2].map(|axis| Zones::new(&layout, axis));
        let table = TileTable::new(&layout, &zones, shape.warps * shape.rows, at_once);
        Ok(TilePlan { shape, table, zones, layout })
    }

    pub fn lens(&self) -> Lens {
        Lens::new(&self.layout)
    }

    /// Of the steps that read the first pressure, and of those that read the second.
    pub fn params(&self, tables: &Tables, plan: &PlanAddresses, fields: &FieldAddresses) -> [StepParams; 2] {
        let layout = &self.layout;
        let first = |array: Address| array + 4 * layout.lead as u64;
        let bytes = if tables.scales.is_some() { 2 } else { 4 };
        let coefficient = |array: Address| array + bytes * layout.lead as u64;
        let [x, y, z] = fields.split;
        let [b_step, kappa_step] = tables.steps();
        let [b_scale, kappa_scale] = tables.scales.unwrap_or_default();
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
                p: first(fields.p[from]),
                next: first(fields.p[1 - from]),
                d: first(fields.d),
                velocity_old: velocity(from),
                velocity_new: velocity(1 - from),
                split: [first(x), first(y), z],
                b: coefficient(plan.b),
                kappa: coefficient(plan.kappa),
                axis: tables.axes(plan.profiles),
                zone: [zone(0), zone(1), zone(2)],
                tiles: plan.tiles,
                b_step: b_step.map(|step| step as u32),
                kappa_step: kappa_step.map(|step| step as u32),
                pitch: layout.pitch as u32,
                plane: layout.stride(1) as u32,
                slots: [self.zones[0].velocities() as u32, slots(&self.zones[2]) as u32],
                pml: layout.pml as i32,
                unused: 0,
                stencil: tables.stencil,
                b_scale,
                kappa_scale,
            }
        })
    }

    /// The receivers box by box: where those of a box begin, positions after index 0 of row 0, and numbers of traces.
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

    /// Arguments: the parameters of the step, its poles, where its samples go.
    pub fn step(&self) -> Launch {
        let block = [32, self.shape.warps as u32, 1];
        Launch { kernel: kernel_of(self.shape), grid: [self.table.tiles.len() as u32, 1, 1], block }
    }
}

/// Arguments: the parameters of the step before, and its poles.
pub fn source() -> Launch {
    Launch { kernel: "acoustic1_one_pass_source", grid: [1, 1, 1], block: [2, 1, 1] }
}

/// The source of a shot. A step puts the next one's into the pressure that it leaves, unless somebody looks at that.
pub struct CudaSource {
    cell: [i32; 3],
    clean: Address,
}

impl CudaSource {
    pub fn new(c: &Coefficients, shot: &Shot, clean: Address) -> CudaSource {
        CudaSource { cell: shot.source.map(|i| (i + c.layout.pml) as i32), clean }
    }

    /// Of a step that reads the first or the second pressure: whether its source is in it, and where the amplitude of the
    /// next step's is if that is to be put into what it leaves.
    pub fn poles(&self, from: usize, there: bool, put: Option<Address>) -> SourceParams {
        SourceParams {
            clean: self.clean + 8 * (from % 2) as u64,
            next_clean: self.clean + 8 * (1 - from % 2) as u64,
            value: put.unwrap_or(0),
            cell: self.cell,
            there: i32::from(there),
            put: i32::from(put.is_some()),
            unused: 0,
        }
    }
}
