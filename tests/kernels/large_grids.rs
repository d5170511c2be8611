//! Indices of grids with more than 2^32 cells. Memory allocates only the pages that a kernel
//! accesses.

use std::cell::RefCell;
use std::collections::BTreeMap;

use fakecuda::ptx::{Memory, Region};
use gpusched::fd::grid::layout::Layout;
use gpusched::fd::time_loop::field_kernels::{Field, PTX};
use gpusched::fd::time_loop::launch::Launch;
use testmodels::kernels::{Interpreted, bytes};

const PAGE: u64 = 4096;

/// Arrays of any size: pages are allocated at the first access, filled with zeros.
#[derive(Default)]
struct Sparse {
    /// First and last address of each array.
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
/// A plane of the user's cells has 4.9e9 cells, more than 32 bits can count.
const INNER: [usize; 3] = [70_000, 2, 70_000];

#[test]
fn snapshot_of_a_grid_with_more_than_32_bits_of_cells_is_complete() {
    let mut memory = Sparse::default();
    let [nx, ny, nz] = INNER.map(|n| n as u64);
    let layout = Layout::new(INNER, PML).on_gpu();
    let field = Field::new(&layout, memory.add(layout.field_len() as u64));
    let to = memory.add(nx * ny * nz);
    // The first block of each plane: 32 cells along z by 8 along x.
    let launch = Launch { kernel: "field_snapshot", grid: [1, 1, 2], block: [32, 8, 1] };
    let cells = || (0..ny).flat_map(|y| (0..8).flat_map(move |x| (0..32).map(move |z| [x, y, z])));
    let value = |[x, y, z]: [u64; 3]| (1 + x + 8 * y + 16 * z) as f32;
    for cell @ [x, y, z] in cells() {
        let [x, y, z] = [x, y, z].map(|i| i + PML as u64);
        let at = y * field.plane as u64 + x * field.pitch as u64 + z;
        // SAFETY: an address in a page, to which no other reference exists.
        unsafe { *memory.float(field.first + 4 * at) = value(cell) };
    }
    Interpreted::of(&[PTX]).try_launch(&memory, launch, &[bytes(&field), bytes(&to)]).unwrap();
    for cell @ [x, y, z] in cells() {
        // SAFETY: as above; the launch is over.
        let found = unsafe { *memory.float(to + 4 * ((y * nx + x) * nz + z)) };
        assert_eq!(found, value(cell), "cell {cell:?}");
    }
}
