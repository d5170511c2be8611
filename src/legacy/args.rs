//! Arguments that the old functions have in common.

use std::path::PathBuf;

/// Arguments of an old function, with the types of its interface. `docs/legacy.md` lists those of
/// each function.
#[derive(Debug, Clone, PartialEq)]
pub struct Args {
    /// Files of the medium in the function's order, P velocity in m/s first. All files here are raw
    /// float32, `[iy][ix][iz]`.
    pub models: Vec<PathBuf>,
    /// Prefix of the names of the snapshot files.
    pub snap: PathBuf,
    /// Record file. Shot `s` begins at byte `4 s nt nx ny`; its samples are `[iy][ix][it]`,
    /// decimated.
    pub shot: PathBuf,
    /// Number of the shot to compute, in functions that compute one shot per call.
    pub is: i32,
    /// Number of shots, 1 to 100 000.
    pub ns: i32,
    /// Number of cells without the absorbing layer.
    pub nx: i32,
    pub ny: i32,
    pub nz: i32,
    /// Cell size in m.
    pub dx: f32,
    pub dy: f32,
    pub dz: f32,
    /// Cell of the first source.
    pub sxbeg: i32,
    pub sybeg: i32,
    pub szbeg: i32,
    /// Number of cells from one source to the next.
    pub jsx: i32,
    pub jsy: i32,
    pub jsz: i32,
    /// Receiver interval in m. Every `int(dgx / dx)`-th cell records. The quotient is computed in
    /// float32 and truncated: 0.005 over 0.001 is 4.
    pub dgx: f32,
    pub dgy: f32,
    /// Sample interval in s; every `int(dgt / dt)`-th step is recorded, by the same rule.
    pub dgt: f32,
    /// Number of time steps.
    pub nt: i32,
    /// Time step in s.
    pub dt: f32,
    /// Number of the [`Shape`](crate::fd::wavelet::Shape) of the wavelet, in functions with a
    /// choice.
    pub wtype: i32,
    /// Peak frequency in Hz.
    pub fm: f32,
    pub show_snapshot: bool,
    /// Mutes the direct wave.
    pub cut_directwave: bool,
    /// Number of time steps between snapshots, from step 0. Used only with `show_snapshot`.
    pub snap_interval: i32,
    /// Number of a GPU. Ignored unless `GPUSCHED_LEGACY_DEVICE` is "strict".
    pub device: i32,
}
