//! The padded grid, its cells, and the derivative on it.

/// Staggered first derivative of 8th order, with the digits of the old kernels in float32.
const STENCIL: [f32; 4] = [1.196289, -0.0797526, 0.009570313, -0.0006975447];

/// Cells at the border of the padded grid that are never updated.
pub const RIM: usize = 4;

#[derive(Clone, Copy)]
pub struct Padded {
    pub n: [usize; 3],
    pub margin: usize,
    pub size: [usize; 3],
    /// Distance in a field between neighbouring cells along x, y, z.
    pub stride: [usize; 3],
}

impl Padded {
    pub fn new(n: [usize; 3], margin: usize) -> Padded {
        let size = n.map(|cells| cells + 2 * margin);
        Padded { n, margin, size, stride: [size[2], size[2] * size[0], 1] }
    }

    pub fn zeros(&self) -> Vec<f64> {
        vec![0.0; self.size.iter().product()]
    }

    /// Returns a property of the model, extended into the margin by the values at the edges.
    pub fn extend(&self, values: &[f32]) -> Vec<f64> {
        let [nx, _, nz] = self.n;
        self.cells()
            .map(|cell| {
                let [x, y, z] = [0, 1, 2].map(|a| cell[a].saturating_sub(self.margin).min(self.n[a] - 1));
                f64::from(values[(y * nx + x) * nz + z])
            })
            .collect()
    }

    pub fn crop<'a>(&'a self, field: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
        let inside =
            |cell: [usize; 3]| (0..3).all(|a| (self.margin..self.margin + self.n[a]).contains(&cell[a]));
        self.cells().zip(field).filter(move |(cell, _)| inside(*cell)).map(|(_, value)| *value)
    }

    pub fn inside(&self, cell: [usize; 3]) -> usize {
        self.at(cell.map(|index| index + self.margin))
    }

    /// Returns the position of a padded cell in a field.
    pub fn at(&self, padded: [usize; 3]) -> usize {
        (0..3).map(|a| padded[a] * self.stride[a]).sum()
    }

    /// Indices (x, y, z) of all cells, in the order of a field.
    pub fn cells(&self) -> impl Iterator<Item = [usize; 3]> + use<> {
        let [nx, ny, nz] = self.size;
        (0..nx * ny * nz).map(move |at| [at / nz % nx, at / nz / nx, at % nz])
    }

    pub fn each(&self, mut work: impl FnMut([usize; 3], usize)) {
        for iy in RIM..self.size[1] - RIM {
            for ix in RIM..self.size[0] - RIM {
                for iz in RIM..self.size[2] - RIM {
                    work([ix, iy, iz], ix * self.stride[0] + iy * self.stride[1] + iz);
                }
            }
        }
    }
}

/// Returns the derivative at the half point after `at` along the axis of stride `s`, times the
/// spacing.
#[inline(always)]
pub fn forward(f: &[f64], at: usize, s: usize) -> f64 {
    difference(f, at + s, at, s)
}

/// Returns the derivative at `at` of a field at half points, times the spacing.
#[inline(always)]
pub fn backward(f: &[f64], at: usize, s: usize) -> f64 {
    difference(f, at, at - s, s)
}

#[inline(always)]
fn difference(f: &[f64], ahead: usize, behind: usize, s: usize) -> f64 {
    (0..4).map(|m| f64::from(STENCIL[m]) * (f[ahead + m * s] - f[behind - m * s])).sum()
}
