//! The old package's entry point, under its old name.

use std::ffi::{c_char, c_float, c_int};

use super::guard::guard;
use super::input::path;
use super::status::clear_last_error;
use crate::legacy::{Args, acoustic1};

/// C's `bool`, as a number: a caller that passes more than 0 or 1 is understood too.
pub type c_bool = u8;

/// Computes shots of the first-order acoustic equation with the interface of acoustic1order.so:
/// argument list, numerics and files are those of the old library, see docs/legacy.md. `device` is
/// ignored, unless GPUSCHED_LEGACY_DEVICE is "strict".
///
/// Returns nothing. A failure is logged at level 1, is in sched_last_error, and leaves no partial
/// file. sched_last_error is "" after a successful call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuda_3dfd_1order(
    vel: *const c_char,
    rho: *const c_char,
    snap: *const c_char,
    shot: *const c_char,
    is: c_int,
    ns: c_int,
    nx: c_int,
    ny: c_int,
    nz: c_int,
    dx: c_float,
    dy: c_float,
    dz: c_float,
    sxbeg: c_int,
    sybeg: c_int,
    szbeg: c_int,
    jsx: c_int,
    jsy: c_int,
    jsz: c_int,
    dgx: c_float,
    dgy: c_float,
    dgt: c_float,
    nt: c_int,
    dt: c_float,
    wtype: c_int,
    fm: c_float,
    show_snapshot: c_bool,
    cut_directwave: c_bool,
    snap_interval: c_int,
    device: c_int,
) {
    guard(|| {
        clear_last_error();
        // SAFETY: texts that end with NUL, as the old function wants them; NULL is looked for.
        let (vel, rho, snap, shot) =
            unsafe { (path("vel", vel)?, path("rho", rho)?, path("snap", snap)?, path("shot", shot)?) };
        let args = Args {
            vel,
            rho,
            snap,
            shot,
            is,
            ns,
            nx,
            ny,
            nz,
            dx,
            dy,
            dz,
            sxbeg,
            sybeg,
            szbeg,
            jsx,
            jsy,
            jsz,
            dgx,
            dgy,
            dgt,
            nt,
            dt,
            wtype,
            fm,
            show_snapshot: show_snapshot != 0,
            cut_directwave: cut_directwave != 0,
            snap_interval,
            device,
        };
        acoustic1(&args).inspect_err(|error| log::error!("cuda_3dfd_1order: {error}"))
    })
}
