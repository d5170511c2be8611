//! `cuda_3dfd_1order` of `acoustic1order.so`: the isotropic kernel of first order.

use std::path::PathBuf;

use crate::error::Result;

/// The arguments of the old function, in its order and with its types.
#[derive(Debug, Clone, PartialEq)]
pub struct Args {
    pub vel: PathBuf,
    pub rho: PathBuf,
    pub snap: PathBuf,
    pub shot: PathBuf,
    pub is: i32,
    pub ns: i32,
    pub nx: i32,
    pub ny: i32,
    pub nz: i32,
    pub dx: f32,
    pub dy: f32,
    pub dz: f32,
    pub sxbeg: i32,
    pub sybeg: i32,
    pub szbeg: i32,
    pub jsx: i32,
    pub jsy: i32,
    pub jsz: i32,
    pub dgx: f32,
    pub dgy: f32,
    pub dgt: f32,
    pub nt: i32,
    pub dt: f32,
    pub wtype: i32,
    pub fm: f32,
    pub show_snapshot: bool,
    pub cut_directwave: bool,
    pub snap_interval: i32,
    pub device: i32,
}

pub fn acoustic1(args: &Args) -> Result<()> {
    let _ = args;
    Err(crate::error::Error::Internal("not built yet".into()))
}
