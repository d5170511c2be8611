//! Rows that differ from those of a field: without the source, and with the isotropic ball around it.

use super::source::SourceInjector;
use crate::fd::anisotropy::IsotropicBall;
use crate::fd::grid::layout::Layout;

/// Rows of a thread's memory for two copies. Null for a row that the equation does not have.
pub type Room = [*mut f32; 2];

/// A row: its indices along x and y, the index along z of its first value, and the number of its values.
pub type RowPlace = ([usize; 2], usize, usize);

/// Returns rows of E and S with the isotropic ball: copies if the row has cells of it.
///
/// # Safety
/// The rows and the room have as many values as the place states.
#[inline]
pub unsafe fn in_ball(
    ball: Option<&IsotropicBall>,
    place: RowPlace,
    room: Room,
    rows: [*const f32; 2],
) -> [*const f32; 2] {
    let (row, first, len) = place;
    let Some(ball) = ball.filter(|ball| ball.is_in(row)) else { return rows };
    // SAFETY: by the caller's promise.
    unsafe { changed(len, room, rows, |number, values| ball.put(number, row, first, values)) }
}

/// Returns rows of the pressures without the source: copies if the row has its cell.
///
/// # Safety
/// See [`in_ball`].
#[inline]
pub unsafe fn without_source(
    injector: Option<&SourceInjector>,
    place: RowPlace,
    layout: &Layout,
    room: Room,
    rows: [*const f32; 2],
) -> [*const f32; 2] {
    let (row @ [x, y], first, len) = place;
    let Some(source) = injector.filter(|source| source.is_in(row)) else { return rows };
    let begin = layout.at([x, y, first]);
    // SAFETY: by the caller's promise.
    unsafe { changed(len, room, rows, |number, values| source.restore(number, begin, values)) }
}

/// Copies the rows for which there is room, and changes the copies.
// Few rows are near a source. Inlined, steps of `tti` are a few percent slower.
#[cold]
#[inline(never)]
unsafe fn changed(
    len: usize,
    room: Room,
    mut rows: [*const f32; 2],
    change: impl Fn(usize, &mut [f32]),
) -> [*const f32; 2] {
    for (number, (row, to)) in rows.iter_mut().zip(room).enumerate().filter(|(_, (_, to))| !to.is_null()) {
        // SAFETY: by the caller's promise.
        let copy = unsafe {
            std::ptr::copy_nonoverlapping(*row, to, len);
            std::slice::from_raw_parts_mut(to, len)
        };
        change(number, copy);
        *row = to;
    }
    rows
}
