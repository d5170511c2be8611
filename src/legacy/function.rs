//! The rules by which the old functions differ.

use super::args::Args;
use crate::error::Result;
use crate::fd::equation::Absorber;
use crate::fd::model::{Outline, Property};
use crate::fd::survey::Shot;
use crate::fd::wavelet::{Shape, Wavelet};

/// The rules of an old function. `docs/legacy.md` lists them.
pub struct Function {
    /// The exported name.
    pub name: &'static str,
    /// Name of its equation.
    pub equation: &'static str,
    pub absorber: Absorber,
    /// Cells of the absorbing layer.
    pub layer: usize,
    /// The arguments that name files of the medium, and the property in each.
    pub models: &'static [(&'static str, Property)],
    /// Makes the wavelet of a shot of so many steps.
    pub wavelet: fn(&Args, usize) -> Result<Wavelet>,
    /// The factor on the wavelet.
    pub amplitude: f32,
    /// The number of the first cell in a source's position.
    pub first_cell: i32,
    pub sources: Sources,
    /// Depth index of the receivers.
    pub receivers_z: usize,
    /// Returns the muted steps of each trace for a `dt` in s and a peak frequency in Hz. `None`: no mute.
    pub mute: Option<Mute>,
    pub snapshots: Snapshots,
    /// Text between the numbers of shot and step in the name of a snapshot: `ishot_<shot><between>it_<step>.bin`.
    pub between: &'static str,
    /// Whether records and snapshots of a step hold the field before its update, with its source just added.
    pub before_update: bool,
}

/// The rule of a mute: model, shot, `dt`, peak frequency.
pub type Mute = fn(&Outline, &Shot, f32, f32) -> Result<Vec<u32>>;

/// The shots of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sources {
    /// All `ns`. From one to the next only x moves.
    AlongX,
    /// The first, whatever `ns` and `is` are.
    First,
    /// The one with the number `is`. All coordinates move.
    One,
}

/// The steps of snapshots.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Snapshots {
    /// If a call asks for them, every `snap_interval`-th from step 0 on.
    Interval,
    /// If a call asks for them, every so many from step 0 on.
    Every(usize),
    /// In any call, every so many, without step 0.
    Always(usize),
}

/// Returns the wavelet of the functions of first order: a pulse that ends.
pub fn pulse(args: &Args, nt: usize) -> Result<Wavelet> {
    Wavelet::new(Shape::try_from(args.wtype)?, args.fm, args.dt, nt)
}
