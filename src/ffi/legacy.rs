//! Entry points of the old packages, under their old names.
//!
//! Each function states its whole argument list, in the groups of docs/legacy.md. In C two
//! functions cannot share a part of a list, and cbindgen, which generates the header, expands no
//! macros.

use std::ffi::{c_char, c_float, c_int};
use std::path::PathBuf;

use super::guard::guard;
use super::input::path;
use super::status::reset_last_error;
use crate::error::Result;
use crate::fd::wavelet::Shape;
use crate::legacy::{ACOUSTIC1, ACOUSTIC2, Args, Function, TTI, VTI};

/// C's `bool`, as a number. Values above 1 mean true, too.
pub type c_bool = u8;

/// Wavelet of the functions without a choice.
const RICKER: c_int = Shape::CutRicker as c_int;

/// Calls an old function with the paths of its files, which `args` lacks.
///
/// # Safety
/// The pointers are as for [`path`].
unsafe fn run(
    function: &'static Function,
    models: &[(&str, *const c_char)],
    snap: Result<PathBuf>,
    shot: *const c_char,
    args: Args,
) -> Result<()> {
    reset_last_error();
    let with_paths = || {
        // SAFETY: as promised by the caller.
        let path = |&(name, at): &(&str, _)| unsafe { path(name, at) };
        let models = models.iter().map(path).collect::<Result<_>>()?;
        Ok(Args { models, snap: snap?, shot: path(&("shot", shot))?, ..args })
    };
    let outcome = with_paths().and_then(|args| function.call(&args));
    outcome.inspect_err(|error| log::error!("{}: {error}", function.name))
}

/// Returns the prefix of the snapshots' names. Without snapshots the argument is not read.
///
/// # Safety
/// As for [`path`].
unsafe fn prefix(snap: *const c_char, show_snapshot: c_bool) -> Result<PathBuf> {
    if show_snapshot == 0 {
        return Ok(PathBuf::new());
    }
    // SAFETY: as promised by the caller.
    unsafe { path("snap", snap) }
}

/// Computes shots of the first-order acoustic equation with the interface of acoustic1order.so:
/// argument list, numerics and files are those of the old library, see docs/legacy.md. `device` is
/// ignored, unless GPUSCHED_LEGACY_DEVICE is "strict".
///
/// Returns nothing. A failure is logged at level 1, is in sched_last_error, and leaves no partial
/// file. sched_last_error is "" after a successful call.
#[rustfmt::skip]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuda_3dfd_1order(
    vel: *const c_char, rho: *const c_char,
    snap: *const c_char, shot: *const c_char,
    is: c_int, ns: c_int,
    nx: c_int, ny: c_int, nz: c_int,
    dx: c_float, dy: c_float, dz: c_float,
    sxbeg: c_int, sybeg: c_int, szbeg: c_int,
    jsx: c_int, jsy: c_int, jsz: c_int,
    dgx: c_float, dgy: c_float, dgt: c_float,
    nt: c_int, dt: c_float, wtype: c_int, fm: c_float,
    show_snapshot: c_bool, cut_directwave: c_bool, snap_interval: c_int, device: c_int,
) {
    guard(|| {
        let args = Args {
            models: Vec::new(), snap: PathBuf::new(), shot: PathBuf::new(),
            is, ns, nx, ny, nz, dx, dy, dz, sxbeg, sybeg, szbeg, jsx, jsy, jsz, dgx, dgy, dgt, nt, dt,
            wtype, fm, show_snapshot: show_snapshot != 0, cut_directwave: cut_directwave != 0,
            snap_interval, device,
        };
        // SAFETY: texts that end with NUL, as the old function takes them; NULL is an error.
        unsafe { run(&ACOUSTIC1, &[("vel", vel), ("rho", rho)], prefix(snap, show_snapshot), shot, args) }
    })
}

/// Computes shot `is` of the second-order acoustic equation with the interface of
/// acoustic2order.so. `kt`, `cut_directwave` and `snap_interval` are ignored. Everything else as
/// for cuda_3dfd_1order.
#[rustfmt::skip]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuda_3dfd(
    vel: *const c_char,
    snap: *const c_char, shot: *const c_char,
    is: c_int, ns: c_int,
    nx: c_int, ny: c_int, nz: c_int,
    dx: c_float, dy: c_float, dz: c_float,
    sxbeg: c_int, sybeg: c_int, szbeg: c_int,
    jsx: c_int, jsy: c_int, jsz: c_int,
    dgx: c_float, dgy: c_float, dgt: c_float,
    nt: c_int, kt: c_int, dt: c_float, fm: c_float,
    show_snapshot: c_bool, cut_directwave: c_bool, snap_interval: c_int, device: c_int,
) {
    guard(|| {
        let _ = kt;
        let args = Args {
            models: Vec::new(), snap: PathBuf::new(), shot: PathBuf::new(),
            is, ns, nx, ny, nz, dx, dy, dz, sxbeg, sybeg, szbeg, jsx, jsy, jsz, dgx, dgy, dgt, nt, dt,
            wtype: RICKER, fm, show_snapshot: show_snapshot != 0, cut_directwave: cut_directwave != 0,
            snap_interval, device,
        };
        // SAFETY: texts that end with NUL, as the old function takes them; NULL is an error.
        unsafe { run(&ACOUSTIC2, &[("vel", vel)], prefix(snap, show_snapshot), shot, args) }
    })
}

/// Computes shots of the equation of media with a vertical symmetry axis with the interface of
/// acoustic1vti.so. The wavelet is a Ricker. Everything else as for cuda_3dfd_1order.
#[rustfmt::skip]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuda_3dfd_vti(
    vel: *const c_char, rho: *const c_char, epsilon: *const c_char, delta: *const c_char,
    snap: *const c_char, shot: *const c_char,
    is: c_int, ns: c_int,
    nx: c_int, ny: c_int, nz: c_int,
    dx: c_float, dy: c_float, dz: c_float,
    sxbeg: c_int, sybeg: c_int, szbeg: c_int,
    jsx: c_int, jsy: c_int, jsz: c_int,
    dgx: c_float, dgy: c_float, dgt: c_float,
    nt: c_int, dt: c_float, fm: c_float,
    show_snapshot: c_bool, cut_directwave: c_bool, snap_interval: c_int, device: c_int,
) {
    guard(|| {
        let args = Args {
            models: Vec::new(), snap: PathBuf::new(), shot: PathBuf::new(),
            is, ns, nx, ny, nz, dx, dy, dz, sxbeg, sybeg, szbeg, jsx, jsy, jsz, dgx, dgy, dgt, nt, dt,
            wtype: RICKER, fm, show_snapshot: show_snapshot != 0, cut_directwave: cut_directwave != 0,
            snap_interval, device,
        };
        let models = [("vel", vel), ("rho", rho), ("epsilon", epsilon), ("delta", delta)];
        // SAFETY: texts that end with NUL, as the old function takes them; NULL is an error.
        unsafe { run(&VTI, &models, prefix(snap, show_snapshot), shot, args) }
    })
}

/// Computes a shot of the equation of media with a tilted symmetry axis with the interface of
/// acoustic1tti.so. The wavelet is a Ricker. `rho`, `is`, `ns`, `jsx`, `jsy`, `jsz`,
/// `show_snapshot` and `snap_interval` are ignored. Everything else as for cuda_3dfd_1order.
///
/// Returns 0, or 1 after a failure.
#[rustfmt::skip]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuda_3dfd_tti(
    vel: *const c_char, rho: *const c_char, epsilon: *const c_char, delta: *const c_char,
    theta: *const c_char, psi: *const c_char,
    snap: *const c_char, shot: *const c_char,
    is: c_int, ns: c_int,
    nx: c_int, ny: c_int, nz: c_int,
    dx: c_float, dy: c_float, dz: c_float,
    sxbeg: c_int, sybeg: c_int, szbeg: c_int,
    jsx: c_int, jsy: c_int, jsz: c_int,
    dgx: c_float, dgy: c_float, dgt: c_float,
    nt: c_int, dt: c_float, fm: c_float,
    show_snapshot: c_bool, cut_directwave: c_bool, snap_interval: c_int, device: c_int,
) -> c_int {
    guard(|| {
        // The old function never opened this file.
        let _ = rho;
        let args = Args {
            models: Vec::new(), snap: PathBuf::new(), shot: PathBuf::new(),
            is, ns, nx, ny, nz, dx, dy, dz, sxbeg, sybeg, szbeg, jsx, jsy, jsz, dgx, dgy, dgt, nt, dt,
            wtype: RICKER, fm, show_snapshot: show_snapshot != 0, cut_directwave: cut_directwave != 0,
            snap_interval, device,
        };
        let models = [("vel", vel), ("epsilon", epsilon), ("delta", delta), ("theta", theta), ("psi", psi)];
        // SAFETY: texts that end with NUL, as the old function takes them; NULL is an error.
        unsafe { run(&TTI, &models, path("snap", snap), shot, args) }.map(|()| 0)
    })
    // The status of a failure is negative; the old function returned 1.
    .signum()
    .abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_snapshots_is_not_read_without_them() {
        // SAFETY: the text is not read.
        let unread = unsafe { prefix(std::ptr::without_provenance(16), 0) };
        assert_eq!(unread.unwrap(), PathBuf::new());
        // SAFETY: the text ends with NUL.
        let read = unsafe { prefix(c"out/".as_ptr(), 1) };
        assert_eq!(read.unwrap(), PathBuf::from("out/"));
    }
}
