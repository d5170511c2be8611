//! The arguments that all old functions have.

use std::path::PathBuf;

/// The arguments of an old function, with its types. `docs/legacy.md` has those of each function.
#[derive(Debug, Clone, PartialEq)]
pub struct Args {
    /// Files of the medium in the function's order, P velocity in m/s first: raw float32 `[iy][ix][iz]`, as all files here.
    pub models: Vec<PathBuf>,
    /// Prefix of the names of snapshots.
    pub snap: PathBuf,
    /// The record: shot `s` begins at byte `4 s nt nx ny`, as `[iy][ix][it]`, decimated.
    pub shot: PathBuf,
    /// Number of the shot, where a call computes one.
    pub is: i32,
    /// Shots, 1 to 100 000.
    pub ns: i32,
    /// Cells, the absorbing layer not included.
    pub nx: i32,
    pub ny: i32,
    pub nz: i32,
    /// Metres between cells.
    pub dx: f32,
    pub dy: f32,
    pub dz: f32,
    /// Cell of the first source.
    pub sxbeg: i32,
    pub sybeg: i32,
    pub szbeg: i32,
    /// Cells from one source to the next.
    pub jsx: i32,
    pub jsy: i32,
    pub jsz: i32,
    /// Metres between receivers; every `int(dgx / dx)`-th cell records, the quotient taken in
    /// float32 and cut off: 0.005 over 0.001 is 4.
    pub dgx: f32,
    pub dgy: f32,
    /// Seconds between samples, likewise over `dt`.
    pub dgt: f32,
    /// Steps to compute.
    pub nt: i32,
    /// Seconds a step.
    pub dt: f32,
    /// Number of the [`Shape`](crate::fd::wavelet::Shape), where a function has a choice.
    pub wtype: i32,
    /// Peak frequency in Hz.
    pub fm: f32,
    pub show_snapshot: bool,
    /// Zero the first arrivals.
    pub cut_directwave: bool,
    /// Steps between snapshots, from step 0; read only with `show_snapshot`.
    pub snap_interval: i32,
    /// Number of a GPU; ignored unless `GPUSCHED_LEGACY_DEVICE` is "strict".
    pub device: i32,
}
