//! Indices of grids with more than 2^32 cells, in memory of which only the pages exist that a kernel touches.

use std::cell::RefCell;
use std::collections::BTreeMap;

use fakecuda::ptx::{Memory, Region};
use gpusched::fd::equation::acoustic1::kernel::{Axis, Launch, PTX, Params};
use testmodels::kernels::{Interpreted, bytes};

const PAGE: u64 = 4096;

/// Arrays of any size: pages are allocated at the first access, filled with zeros.
#[derive(Default)]
struct Sparse {
    /// First and last address of each.
    arrays: Vec<(u64, u64)>,
    pages: RefCell<BTreeMap<u64, Box<[u64; PAGE as usize / 8]>>>,
}

impl Sparse {
    /// Adds an array of so many floats and returns its address.
    fn add(&mut self, floats: u64) -> u64 {
        let begin = (self.arrays.len() as u64 + 1) << 44;
        self.arrays.push((begin, begin + 4 * floats - 1));
        begin
    }

    fn float(&self, address: u64) -> *mut f32 {
        let region = self.find(address).expect("an address of an array");
        // SAFETY: the page holds the address.
        unsafe { region.host.add((address - region.lo) as usize).cast() }
    }
}

impl Memory for Sparse {
    fn find(&self, address: u64) -> Option<Region> {
        self.arrays.iter().find(|(begin, last)| (*begin..=*last).contains(&address))?;
        let lo = address / PAGE * PAGE;
        let mut pages = self.pages.borrow_mut();
        let page = pages.entry(lo).or_insert_with(|| Box::new([0; PAGE as usize / 8]));
        Some(Region { lo, hi: lo + PAGE, host: page.as_mut_ptr().cast(), writable: true })
    }
}

const PML: usize = 8;
/// A plane of the user's cells has 4.9e9 of them, more than 32 bits can count.
const INNER: [usize; 3] = [70_000, 2, 70_000];

fn params(p: u64) -> Params {
    let axis = |axis: usize| Axis {
        keep: 0,
        velocity_rate: 0,
        loss: 0,
        pressure_rate: 0,
        rate: 0.0,
        n: (INNER[axis] + 2 * PML) as i32,
        inner: INNER[axis] as i32,
        unused: 0,
    };
    let pitch = (INNER[2] + 2 * PML).next_multiple_of(32) as i64;
    Params {
        p,
        velocity: [0; 3],
        part: [0; 3],
        b: 0,
        kappa: 0,
        b_step: [0; 2],
        kappa_step: [0; 2],
        pitch,
        plane: pitch * (INNER[0] + 2 * PML) as i64,
        axis: [0, 1, 2].map(axis),
        pml: PML as i32,
        planes: 1,
        stencil: [0.0; 4],
    }
}

#[test]
fn snapshot_of_a_grid_with_more_than_32_bits_of_cells_is_complete() {
    let mut memory = Sparse::default();
    let [nx, ny, nz] = INNER.map(|n| n as u64);
    let shape = params(0);
    let p = memory.add(shape.plane as u64 * (ny + 2 * PML as u64));
    let to = memory.add(nx * ny * nz);
    let params = params(p);
    // The first block of each plane: 32 cells along z by 8 along x.
    let launch = Launch { kernel: "acoustic1_snapshot", grid: [1, 1, 2], block: [32, 8, 1] };
    let cells = || (0..ny).flat_map(|y| (0..8).flat_map(move |x| (0..32).map(move |z| [x, y, z])));
    let value = |[x, y, z]: [u64; 3]| (1 + x + 8 * y + 16 * z) as f32;
    for cell @ [x, y, z] in cells() {
        let [x, y, z] = [x, y, z].map(|i| i + PML as u64);
        let at = y * params.plane as u64 + x * params.pitch as u64 + z;
        // SAFETY: a place of a page, and nobody else has it.
        unsafe { *memory.float(p + 4 * at) = value(cell) };
    }
    Interpreted::of(&[PTX]).try_launch(&memory, launch, &[bytes(&params), bytes(&to)]).unwrap();
    for cell @ [x, y, z] in cells() {
        // SAFETY: as above; the launch is over.
        let found = unsafe { *memory.float(to + 4 * ((y * nx + x) * nz + z)) };
        assert_eq!(found, value(cell), "cell {cell:?}");
    }
}
