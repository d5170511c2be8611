//! Which cells need velocities, and where those are kept.
//!
//! Along an axis, the pressure of a cell takes a term from the eight velocities around it. Where none of them
//! is damped, they can be eliminated: the term is then one of second order in the pressure alone. Else the
//! velocities have a history, which is kept. So the updated indices of an axis fall into
//!
//! ```text
//! 4 .. pml                     layer: the term is damped, too
//! pml .. pml + 4               strip: undamped, but some of the velocities are
//! pml + 4 .. pml + n - 4       middle: eliminated
//! pml + n - 4 .. pml + n       strip
//! pml + n .. N - 4             layer
//! ```
//!
//! and velocities are kept from the second index, which is the first that moves, to the last that a strip's cell
//! needs, and likewise at the far end. An axis of up to eight cells has no middle.

use std::ops::Range;

use super::super::layout::Layout;
use super::lanes::WIDEST;
use crate::fd::stencil::REACH;

#[derive(Debug, Clone, PartialEq)]
pub struct Zones {
    /// Of the pressure: where the velocities of this axis are eliminated.
    pub middle: Range<usize>,
    /// Of the velocity: kept, at the near and at the far end. If these would meet, all are in the near one.
    pub near: Range<usize>,
    pub far: Range<usize>,
    /// Of the pressure: damped.
    layers: [Range<usize>; 2],
}

/// What the term of an axis is at an index.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Term {
    Middle,
    Strip,
    Layer,
}

impl Zones {
    pub fn new(layout: &Layout, axis: usize) -> Zones {
        let active = layout.active(axis);
        let far_layer = layout.pml + layout.inner[axis];
        let middle = layout.pml + REACH..far_layer.saturating_sub(REACH);
        let middle = if middle.is_empty() { active.end..active.end } else { middle };
        // The taps of the last cell before the middle, and of the first after it.
        let near = active.start..(middle.start + REACH - 1).min(active.end);
        let far = middle.end - REACH..active.end;
        // Along z both ends are kept in whole vectors, which must not meet either.
        let room = |kept: &Range<usize>| kept.len().next_multiple_of(WIDEST);
        let apart = !middle.is_empty() && room(&near) + room(&far) <= active.len();
        let (near, far) = if apart { (near, far) } else { (active.clone(), active.end..active.end) };
        let layers = [active.start..layout.pml, far_layer..active.end];
        Zones { middle, near, far, layers }
    }

    pub fn term(&self, index: usize) -> Term {
        if self.middle.contains(&index) {
            Term::Middle
        } else if self.layers.iter().any(|layer| layer.contains(&index)) {
            Term::Layer
        } else {
            Term::Strip
        }
    }

    /// How many velocities are kept.
    pub fn kept(&self) -> usize {
        self.near.len() + self.far.len()
    }

    /// Where the velocity of an index is among those that are kept.
    pub fn slot(&self, index: usize) -> Option<usize> {
        if self.near.contains(&index) {
            Some(index - self.near.start)
        } else if self.far.contains(&index) {
            Some(self.near.len() + index - self.far.start)
        } else {
            None
        }
    }

    /// Whether an eliminated term takes the slope at an index.
    pub fn eliminated(&self, index: usize) -> bool {
        !self.middle.is_empty() && (self.middle.start - REACH..self.middle.end + REACH - 1).contains(&index)
    }
}

/// How a row along z is cut: vectors of [`WIDEST`] values from both ends, in which velocities are kept.
#[derive(Debug, Clone)]
pub struct Ends {
    /// Values from the first updated cell on that a row is swept over.
    pub len: usize,
    /// Of each end: where its values begin in the row, and how many there are, outermost 0 or last.
    pub begin: [usize; 2],
    /// Values of kept velocities.
    pub kept: [usize; 2],
    /// Values in which the pressure has a term with kept velocities.
    pub split: [usize; 2],
    /// Values in which it is damped.
    pub damped: [usize; 2],
}

impl Ends {
    pub fn new(layout: &Layout, zones: &Zones) -> Ends {
        let active = layout.active(2);
        let whole = |n: usize| n.next_multiple_of(WIDEST);
        let len = whole(active.len());
        let all_near = zones.far.is_empty();
        let width = layout.width();
        if all_near {
            return Ends { len, begin: [0, 0], kept: [len, 0], split: [len, 0], damped: [len, 0] };
        }
        let kept = [whole(zones.near.len()), whole(zones.far.len())];
        let split = [whole(zones.middle.start - active.start), whole(active.end - zones.middle.end)];
        Ends { len, begin: [0, active.len()], kept, split, damped: [whole(width); 2] }
    }

    /// The row in pieces of whole vectors, each end in one of them.
    pub fn pieces(&self, vectors: usize) -> Vec<Range<usize>> {
        let count = (self.len / WIDEST / vectors).max(1);
        let at = |k: usize| self.len / WIDEST * k / count * WIDEST;
        let far = self.from(1, self.split[1].max(self.kept[1]));
        let inside = (1..count).map(at).filter(|at| *at >= self.split[0].max(self.kept[0]) && *at <= far);
        let bounds: Vec<usize> = std::iter::once(0).chain(inside).chain([self.len]).collect();
        bounds.windows(2).map(|pair| pair[0]..pair[1]).collect()
    }

    /// Where `count` values of an end begin in the row.
    pub fn from(&self, end: usize, count: usize) -> usize {
        if end == 0 { 0 } else { self.begin[1] - count }
    }
}
