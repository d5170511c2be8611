//! Rows that differ from those of a field: without the source, and with the isotropic ball around it.

use crate::fd::grid::layout::Layout;
use crate::fd::isotropic_ball::IsotropicBall;
use crate::fd::tiled::source::SourceInjector;

/// Rows of a thread's memory for two copies.
pub type Room = [*mut f32; 2];

/// Returns copies of a row's E and S in which the isotropic ball is, if the row has cells of it. `first`: the index along z of
/// the row's first value.
///
/// # Safety
/// The rows and the room have `len` values.
#[inline]
pub unsafe fn in_ball(
    ball: Option<&IsotropicBall>,
    (row, first, len): ([usize; 2], usize, usize),
    room: Room,
    [e, s]: [*const f32; 2],
) -> [*const f32; 2] {
    let near = |number| ball.and_then(|ball| ball.row(number, row));
    let (Some(near_e), Some(near_s)) = (near(0), near(1)) else { return [e, s] };
    // SAFETY: by the caller's promise.
    let [to_e, to_s] = unsafe { copies(len, room, [e, s]) };
    near_e.put(first, to_e);
    near_s.put(first, to_s);
    [to_e.as_ptr(), to_s.as_ptr()]
}

/// Returns copies of a row's pressures without the source, if the row has its cell.
///
/// # Safety
/// See [`in_ball`].
#[inline]
pub unsafe fn without_source(
    injector: Option<&SourceInjector>,
    (row, first, len): ([usize; 2], usize, usize),
    layout: &Layout,
    room: Room,
    pressures: [*const f32; 2],
) -> [*const f32; 2] {
    let Some(source) = injector.filter(|source| source.is_in(row)) else { return pressures };
    // SAFETY: by the caller's promise.
    let [p, q] = unsafe { copies(len, room, pressures) };
    let begin = layout.at([row[0], row[1], first]);
    source.restore(0, begin, p);
    source.restore(1, begin, q);
    [p.as_ptr(), q.as_ptr()]
}

/// Copies two rows of `len` values.
///
/// # Safety
/// The rows may be read and written for `'a`.
unsafe fn copies<'a>(len: usize, to: Room, from: [*const f32; 2]) -> [&'a mut [f32]; 2] {
    let copy = |nth: usize| {
        // SAFETY: by the caller's promise.
        let (to, from) = unsafe {
            (std::slice::from_raw_parts_mut(to[nth], len), std::slice::from_raw_parts(from[nth], len))
        };
        to.copy_from_slice(from);
        to
    };
    [copy(0), copy(1)]
}
