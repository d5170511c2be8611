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

    /// Where `count` values of an end begin in the row.
    pub fn from(&self, end: usize, count: usize) -> usize {
        if end == 0 { 0 } else { self.begin[1] - count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fd::grid::Grid;

    /// Every velocity that a cell's term needs is where it is looked for.
    #[test]
    fn all_taps_of_a_term_are_there() {
        for pml in [8, 9, 20, 37] {
            for n in 1..90 {
                let layout = Layout::new(&Grid { n: [n, n, n], h: [1.0; 3] }, pml);
                for axis in 0..3 {
                    let zones = Zones::new(&layout, axis);
                    let active = layout.active(axis);
                    let mut slots: Vec<_> = active.clone().filter_map(|i| zones.slot(i)).collect();
                    slots.sort_unstable();
                    assert_eq!(slots, (0..zones.kept()).collect::<Vec<_>>(), "{n}, {pml}");
                    for i in active.clone() {
                        let taps = (i - REACH..i + REACH).filter(|tap| active.contains(tap));
                        let damped = |i: usize| layout.in_layer(axis, i).is_some();
                        match zones.term(i) {
                            Term::Middle => {
                                // The velocity after an index lies in a layer if either cell beside it does.
                                for tap in i - REACH..i + REACH {
                                    assert!(zones.eliminated(tap) && !damped(tap) && !damped(tap + 1));
                                }
                            }
                            term => {
                                assert!(taps.clone().all(|tap| zones.slot(tap).is_some()), "{n}, {pml}, {i}");
                                assert_eq!(term == Term::Layer, damped(i));
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn ends_are_whole_vectors_within_the_row_and_hold_what_is_kept() {
        for pml in [8, 9, 20, 37] {
            for n in 1..120 {
                let layout = Layout::new(&Grid { n: [n, n, n], h: [1.0; 3] }, pml);
                let zones = Zones::new(&layout, 2);
                let ends = Ends::new(&layout, &zones);
                let active = layout.active(2);
                assert!(ends.len.is_multiple_of(WIDEST) && ends.len >= active.len());
                for end in 0..2 {
                    let [kept, split, damped] = [ends.kept[end], ends.split[end], ends.damped[end]];
                    assert!([kept, split, damped].iter().all(|count| count.is_multiple_of(WIDEST)));
                    assert!(damped <= split && split <= kept && kept <= ends.len);
                }
                let in_end = |i: usize, counts: [usize; 2]| {
                    let at = i - active.start;
                    at < counts[0] || (counts[1] > 0 && at >= ends.from(1, counts[1]))
                };
                for i in active.clone() {
                    assert!(zones.slot(i).is_none() || in_end(i, ends.kept), "{n}, {pml}, {i}");
                    assert!(zones.term(i) == Term::Middle || in_end(i, ends.split), "{n}, {pml}, {i}");
                    assert!(zones.term(i) != Term::Layer || in_end(i, ends.damped), "{n}, {pml}, {i}");
                }
                // The ends don't meet.
                assert!(ends.kept[1] == 0 || ends.kept[0] <= ends.from(1, ends.kept[1]));
            }
        }
    }
}
