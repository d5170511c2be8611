//! The memory of one thread: fluxes of the planes that a divergence reaches, and rows that differ from a field's.

use crate::fd::one_pass::rows::TAPS;
use crate::fd::stencil::HALF_WIDTH;
use crate::fd::tiled::partition::Partition;
use crate::fd::vector::lanes::WIDEST;

/// Rows beside a tile that its divergence reaches, before it and after it.
pub const BEFORE: usize = HALF_WIDTH;
pub const AFTER: usize = HALF_WIDTH - 1;
/// Components of the flux.
const COMPONENTS: usize = 3;

/// Positions in a thread's memory. Each row of a component lies between vectors of zeros.
#[derive(Clone, Copy)]
pub struct OldTtiQueue {
    /// Values from component to component of a row's flux.
    pub component: usize,
    /// Values from row to row and from plane to plane.
    pub row: usize,
    pub plane: usize,
    /// Planes of the tile's rows, `[iy % TAPS][ix]`.
    pub planes: *mut f32,
    /// The rows beside the tile of one plane, first those before it.
    pub beside: *mut f32,
    /// Rows of the pressures P and Q without the source, and of `1 + 2 epsilon` and `sqrt(1 + 2 delta)` in the ball.
    pub without_source: [*mut f32; 2],
    pub ball: [*mut f32; 2],
}

impl OldTtiQueue {
    /// For any tile of any tiling: returns the positions after `first`, and how many values they are.
    #[inline]
    pub fn new(tiles: &Partition, first: *mut f32) -> (OldTtiQueue, usize) {
        let (columns, len) = (tiles.columns, tiles.ends.len);
        // An odd number of lines, so that rows beside each other lie in different sets of a cache.
        let component = ((len / WIDEST + 1) | 1) * WIDEST;
        let row = COMPONENTS * component;
        let plane = columns * row;
        let mut taken = WIDEST;
        let mut take = |len: usize| {
            taken += len;
            first.wrapping_add(taken - len)
        };
        let queue = OldTtiQueue {
            component,
            row,
            plane,
            planes: take(TAPS * plane),
            beside: take((BEFORE + AFTER) * row),
            without_source: [take(component), take(component)],
            ball: [take(component), take(component)],
        };
        (queue, taken)
    }
}
