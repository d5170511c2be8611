//! The rules in which the old functions differ.

use super::args::Args;
use crate::error::Result;
use crate::fd::equation::Absorber;
use crate::fd::model::Property;
use crate::fd::wavelet::{Shape, Wavelet};

/// Rules of an old function. `docs/legacy.md` lists them.
pub struct Function {
    /// Exported name.
    pub name: &'static str,
    /// Name of the equation that it solves.
    pub equation: &'static str,
    pub absorber: Absorber,
    /// Names of the arguments with files of the medium, and the property in each file.
    pub models: &'static [(&'static str, Property)],
    /// Returns the wavelet of a shot with this number of time steps.
    pub wavelet: fn(&Args, usize) -> Result<Wavelet>,
    /// Factor on the wavelet, whatever the time step and the cells' size (oddity B19 of
    /// docs/legacy.md).
    pub amplitude: f32,
    /// Number of the first cell in a source's position: 0 or 1.
    pub first_cell: i32,
    pub sources: Sources,
    /// Number of cells around the grid where a source may lie, too.
    pub around: u16,
    /// Depth index of the receivers.
    pub receivers_z: usize,
    /// A call may mute the direct wave.
    pub mutes: bool,
    pub snapshots: Snapshots,
    /// Text between the numbers of shot and step in the name of a snapshot, which is
    /// `ishot_<shot><between>it_<step>.bin`.
    pub between: &'static str,
    /// Records and snapshots of a step hold the field before the update of that step, with its
    /// source added.
    pub before_update: bool,
}

/// The shots that a call computes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sources {
    /// All `ns` shots; only the x of the source changes.
    AlongX,
    /// The first shot, whatever `ns` and `is` are.
    First,
    /// The shot with the number `is`; all coordinates of the source change.
    One,
}

/// The time steps of snapshots.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Snapshots {
    /// Every `snap_interval`-th step from step 0, if the call requests snapshots.
    Interval,
    /// One per this number of steps from step 0, if the call requests snapshots.
    Every(usize),
    /// In every call, one per this number of steps, without step 0.
    Always(usize),
}

/// Returns the wavelet of the first-order functions: a pulse of finite length.
pub fn pulse(args: &Args, nt: usize) -> Result<Wavelet> {
    Wavelet::new(Shape::try_from(args.wtype)?, args.fm, args.dt, nt)
}
