//! The CUDA kernels without a GPU: memory, and two engines that run launches.

mod host;
mod march;

use std::alloc::{Layout, alloc, dealloc};

use fakecuda::ptx::{self, Fault, Module, Region};
use gpusched::fd::grid::tile_table::{GpuTile, TILE_Z};
use gpusched::fd::march::{tables::Tables, tile_plan::TILE_ROWS};
use gpusched::fd::stencil::HALF_WIDTH;
use gpusched::fd::survey::Shot;
use gpusched::fd::time_loop::launch::Launch;

pub use host::{Host, Order, Ordered};
pub use march::fire;

/// Arrays that kernels may access. They begin at multiples of 128 bytes, as on a GPU, and end with
/// their last byte.
#[derive(Default)]
pub struct Memory {
    arrays: Vec<Array>,
}

struct Array {
    begin: usize,
    bytes: usize,
    writable: bool,
}

impl Array {
    fn layout(&self) -> Layout {
        Layout::from_size_align(self.bytes.max(1), 128).expect("a size below half the address space")
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        // SAFETY: allocated in `add` with this layout.
        unsafe { dealloc(std::ptr::with_exposed_provenance_mut(self.begin), self.layout()) };
    }
}

impl Memory {
    /// Copies values into an array that kernels may write to. Returns its address.
    pub fn put<T: Copy>(&mut self, values: &[T]) -> u64 {
        self.add(values, true)
    }

    /// Copies values into an array that kernels only read. Returns its address.
    pub fn show<T: Copy>(&mut self, values: &[T]) -> u64 {
        self.add(values, false)
    }

    fn add<T: Copy>(&mut self, values: &[T], writable: bool) -> u64 {
        let mut array = Array { begin: 0, bytes: size_of_val(values), writable };
        // SAFETY: the layout has at least one byte, and room for the values.
        unsafe {
            let begin = alloc(array.layout());
            assert!(!begin.is_null(), "{} bytes", array.bytes);
            begin.copy_from_nonoverlapping(values.as_ptr().cast(), array.bytes);
            array.begin = begin.expose_provenance();
        }
        let begin = array.begin as u64;
        self.arrays.push(array);
        begin
    }

    /// Returns the values of the array at an address.
    pub fn get<T: Copy>(&self, address: u64) -> Vec<T> {
        let array = self.arrays.iter().find(|array| array.begin as u64 == address).expect("an array");
        let begin = std::ptr::with_exposed_provenance::<T>(array.begin);
        // SAFETY: the array was copied from plain numbers, is as long, and no kernel runs.
        unsafe { std::slice::from_raw_parts(begin, array.bytes / size_of::<T>()).to_vec() }
    }
}

impl ptx::Memory for Memory {
    fn find(&self, address: u64) -> Option<Region> {
        let holds = |array: &&Array| (array.begin..array.begin + array.bytes).contains(&(address as usize));
        let Array { begin, bytes, writable } = *self.arrays.iter().find(holds)?;
        let host = std::ptr::with_exposed_provenance_mut(begin);
        Some(Region { lo: begin as u64, hi: (begin + bytes) as u64, host, writable })
    }
}

/// Returns the bytes of a parameter.
pub fn bytes<T: Copy>(value: &T) -> &[u8] {
    // SAFETY: the structs of `kernel` are plain numbers without padding.
    unsafe { std::slice::from_raw_parts((&raw const *value).cast(), size_of::<T>()) }
}

/// Executes kernels.
pub trait Engine {
    /// Runs a launch to its end. The arguments are the bytes of their values.
    ///
    /// # Panics
    /// If a thread does something wrong.
    fn launch(&self, memory: &Memory, launch: Launch, arguments: &[&[u8]]);
}

/// PTX in the interpreter of `ctests/doubles/fakecuda`. An access outside an array is a fault that
/// names the line.
pub struct Interpreted {
    modules: Vec<Module>,
}

impl Interpreted {
    pub fn of(texts: &[&str]) -> Self {
        let parsed = |text: &&str| ptx::parse(text).unwrap_or_else(|why| panic!("{why}"));
        Interpreted { modules: texts.iter().map(parsed).collect() }
    }

    pub fn try_launch(
        &self,
        memory: &impl ptx::Memory,
        launch: Launch,
        arguments: &[&[u8]],
    ) -> Result<(), Fault> {
        let kernel = self.modules.iter().find_map(|module| module.kernel(launch.kernel));
        let kernel = kernel.expect("a kernel of the texts");
        assert_eq!(kernel.params.len(), arguments.len(), "{}", launch.kernel);
        let mut params = vec![0; kernel.param_bytes];
        for (param, argument) in kernel.params.iter().zip(arguments) {
            params[param.offset..][..param.size].copy_from_slice(argument);
        }
        let (grid, block) = (launch.grid, launch.block);
        ptx::Launch { kernel, grid, block, params: &params, memory }.run().map(|_| ())
    }
}

impl Engine for Interpreted {
    fn launch(&self, memory: &Memory, launch: Launch, arguments: &[&[u8]]) {
        self.try_launch(memory, launch, arguments)
            .unwrap_or_else(|fault| panic!("{}: {fault}", launch.kernel));
    }
}

/// Number of samples of each trace that a GPU holds.
const SLOTS: usize = 7;

/// The record of a shot, and the array from which it is read a few samples at a time.
struct Record {
    row: u64,
    traces: usize,
    samples: usize,
    every: usize,
    values: Vec<f32>,
}

impl Record {
    fn new(memory: &mut Memory, traces: usize, shot: &Shot) -> Record {
        let (samples, every) = (shot.samples(), shot.record_every);
        let row = memory.put(&vec![f32::NAN; SLOTS * traces]);
        Record { row, traces, samples, every, values: vec![f32::NAN; traces * samples] }
    }

    /// Returns the address of the row that a step fills, if the step is recorded.
    fn row(&self, step: usize) -> Option<u64> {
        let recorded = step.is_multiple_of(self.every) && self.traces > 0;
        recorded.then(|| self.row + (4 * (step / self.every % SLOTS) * self.traces) as u64)
    }

    /// Reads the rows after a recorded step, if all are full or it is the last one.
    fn read(&mut self, memory: &Memory, step: usize) {
        let (sample, slot) = (step / self.every, step / self.every % SLOTS);
        if slot + 1 == SLOTS || sample + 1 == self.samples {
            let rows = memory.get::<f32>(self.row);
            for (trace, to) in self.values.chunks_mut(self.samples).enumerate() {
                for slot in 0..=slot {
                    to[sample / SLOTS * SLOTS + slot] = rows[slot * self.traces + trace];
                }
            }
        }
    }
}

/// Returns the number of updated cells in tiles that have no flagged part within eight cells.
fn cells_at_rest(tables: &Tables, tiles: &[GpuTile], flags: &[f32]) -> u64 {
    const PART: [usize; 3] = [16, 16, 32];
    let n = [0, 1, 2].map(|axis| tables.layout.active(axis).len());
    let parts = [0, 1, 2].map(|axis| n[axis].div_ceil(PART[axis]));
    let flagged = |[x, y, z]: [usize; 3]| flags[(y * parts[0] + x) * parts[2] + z].to_bits() != 0;
    let cells = |tile: &GpuTile| {
        let first = [tile.x, tile.y, tile.z].map(|i| i as usize - HALF_WIDTH);
        let last = [tile.x as usize + TILE_ROWS, tile.end as usize, tile.z as usize + TILE_Z];
        let sides = [0, 1, 2].map(|axis| first[axis]..(last[axis] - HALF_WIDTH).min(n[axis]));
        let near = [0, 1, 2].map(|axis| {
            let reach = sides[axis].start.saturating_sub(8)..(sides[axis].end + 8).min(n[axis]);
            reach.start / PART[axis]..reach.end.div_ceil(PART[axis])
        });
        let [x, y, z] = near;
        let mut all = y
            .flat_map(|y| x.clone().map(move |x| [x, y]))
            .flat_map(|[x, y]| z.clone().map(move |z| [x, y, z]));
        if all.any(flagged) { 0 } else { sides.map(|side| side.len() as u64).into_iter().product() }
    };
    tiles.iter().map(cells).sum()
}

/// Checks that cells which no step updates are zero: the outermost layers, and the padding of rows.
fn check_border(tables: &Tables, field: &[f32]) {
    let layout = &tables.layout;
    let [nx, ny, _] = layout.padded;
    for row in 0..nx * ny {
        let (x, y) = (row % nx, row / nx);
        let inside = layout.active(0).contains(&x) && layout.active(1).contains(&y);
        let values = &field[layout.row(row)..][..layout.pitch.min(field.len() - layout.row(row))];
        let active = if inside { layout.active(2) } else { 0..0 };
        let clean = values.iter().enumerate().all(|(z, v)| active.contains(&z) || v.to_bits() == 0);
        assert!(clean, "row {row} of {nx} x {ny} is written where it must not be");
    }
}

/// Checks the result of the peak kernel against the field that it read.
fn check_peak(memory: &Memory, peak: u64, field: &[f32]) {
    let largest = field.iter().map(|p| p.abs().to_bits()).max();
    assert_eq!(memory.get::<u32>(peak).first().copied(), largest, "the peak");
}
